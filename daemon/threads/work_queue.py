"""The bounded queue between the cameras' threads and the narrator, and the outcomes of the pairs in it."""

import logging
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from pipeline.gate import Item, MotionFrame, Seen
from pipeline.pairs import FramePair

FRAMES_HELD = 8  # frames and pairs of a camera that wait; frames of 1080p take 30 MB
LATE_S = 0.5  # a live camera's frame that has waited so long gives way to the next one
POLL_S = 0.2  # no wait is longer without a look at who has stopped
TOO_SLOW_S = 10.0  # a live pair that waits so long shows that this machine is too slow
STEADY_S = 60.0  # it keeps up again when no pair has waited so long for this time

logger = logging.getLogger(__name__)

PROPOSED, PUBLISHED, SUPPRESSED, DROPPED = "proposed", "published", "suppressed", "dropped"
"""Published: journalled, from where it is published exactly once. Suppressed: looked at, and not reported.
Dropped: not looked at, or lost."""

UNCHANGED, REPORTED = "nothing changed", "reported already"
"""Suppressed: no sentence, or only ones that repeat what was reported. Where the captioner says why it keeps
silent ("unsure", "nothing of an object"), that is the reason."""

NEWER_CAME, ENDED, FAILED = "newer came", "daemon ended", "failed"
"""Dropped: displaced in a full queue, not narrated before the end, or neither narrated nor reported by its
facts (its picture cannot be read, its journal not written)."""


class PairCounters(Counter[tuple[str, str, str]]):
    """Pairs by camera, outcome and reason; one thread at a time counts each, any copies all of one moment."""

    def waiting(self) -> Counter[str]:
        waiting = Counter[str]()
        for (camera, outcome, _), pairs in self.copy().items():
            waiting[camera] += pairs if outcome == PROPOSED else -pairs
        return waiting


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Something to do with the narrator after what a camera saw until now, and before what follows."""

    camera: str
    apply: Callable[[Any], None]


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A frame or a pair on its way to the narrator."""

    item: Item | Change
    since: float | None = None  # monotonic seconds since when it, or what it displaced, waits; None: footage

    @property
    def camera(self) -> str:
        if isinstance(self.item, Change):
            return self.item.camera
        frame = self.item.frame if isinstance(self.item, MotionFrame | Seen) else self.item.after
        return frame.camera

    @property
    def is_pair(self) -> bool:
        return isinstance(self.item, FramePair)


class WorkQueue:
    """Holds the newest frames and pairs of all cameras, some of each: a busy one never displaces the others.

    A narrator that is too slow looks at fewer frames: a live camera's oldest one goes where it has waited for
    `LATE_S` or the share is full. Pairs are rare: only where a share is full of them the oldest goes.
    """

    def __init__(self, cameras: list[str], capacity: int = FRAMES_HELD) -> None:
        self.capacity = capacity
        shown = [(camera, outcome, "") for camera in cameras for outcome in (PROPOSED, PUBLISHED)]
        self.counters = PairCounters(dict.fromkeys(shown, 0))
        self._work: dict[str, deque[Work]] = {camera: deque() for camera in cameras}
        self._ended: set[str] = set()
        self._closed = self._abandoned = False
        self._slow_at = -math.inf
        self._changed = threading.Condition()  # with a reentrant lock

    @property
    def dropped(self) -> Counter[str]:
        dropped = Counter[str]()
        for (camera, outcome, _), pairs in self.counters.copy().items():
            if outcome == DROPPED:
                dropped[camera] += pairs
        return dropped

    def put(self, camera: str, item: Item, *, wait: bool) -> bool:
        """Add work; False where the queue was closed. Footage can `wait` for room, else old work goes."""
        is_pair = isinstance(item, FramePair)
        with self._changed:
            mine = self._work[camera]
            if is_pair:
                self.counters[camera, PROPOSED, ""] += 1
            while wait and len(mine) >= self.capacity and not self._closed:
                self._changed.wait(POLL_S)
            if self._abandoned or (self._closed and wait):  # else it is the last of a live camera
                if is_pair:
                    self.counters[camera, DROPPED, ENDED] += 1
                return False
            now = monotonic()
            mine.append(Work(item, since=None if wait else now))
            if not wait:
                self._thin_out(camera, mine, now)
            self._changed.notify_all()
            return not self._closed

    def put_change(self, camera: str, apply: Callable[[Any], None]) -> None:
        """Have `apply` called with the narrator between what a camera, maybe a new one, saw and will see."""
        with self._changed:
            self._work.setdefault(camera, deque()).append(Work(Change(camera, apply)))
            self._changed.notify_all()

    def begin(self, camera: str) -> None:
        with self._changed:
            self._work.setdefault(camera, deque())
            self._ended.discard(camera)

    def end(self, camera: str) -> None:
        with self._changed:
            self._ended.add(camera)
            self._changed.notify_all()

    def forget(self, camera: str) -> None:
        with self._changed:
            if not self._work[camera]:  # else it is back
                del self._work[camera]
                self._ended.discard(camera)

    def knows(self, camera: str) -> bool:
        """True until a camera that was removed is forgotten: until then it may journal something."""
        with self._changed:
            return camera in self._work

    def close(self) -> None:
        """Take only the last work of live cameras; what is held can be taken, `put` waits no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> list[Work]:
        """Drop all that is held, and count it; what that was, each camera's in its order."""
        with self._changed:
            self._abandoned = True
            abandoned: list[Work] = []
            for camera, mine in self._work.items():
                self._drop(camera, mine, ENDED)
                abandoned += [each for each in mine if not isinstance(each.item, Change)]
                mine.clear()
            self._changed.notify_all()
            return abandoned

    def take(self, size: int, limit_s: float = POLL_S) -> list[Work]:
        """A batch over all cameras in turn, or one change alone; empty if nothing comes within `limit_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self.held, limit_s)
            batch: list[Work] = []
            while len(batch) < size and (camera := next((c for c, w in self._work.items() if w), None)):
                is_change = isinstance(self._work[camera][0].item, Change)
                if is_change and batch:
                    break
                batch.append(self._work[camera].popleft())
                self._work[camera] = self._work.pop(camera)  # its turn comes last again
                if is_change:
                    break
            self._changed.notify_all()
            return batch

    def take_full(self, size: int, limit_s: float = POLL_S) -> list[Work]:
        """A batch of the only camera: exactly `size` parts, or the rest once it has ended.

        So a replay's last digits are the same whatever the threads' timing.
        """
        with self._changed:
            [(camera, mine)] = self._work.items()
            if not self._changed.wait_for(
                lambda: len(mine) >= size or self._closed or camera in self._ended, limit_s
            ):
                return []
            batch = [mine.popleft() for _ in range(min(size, len(mine)))]
            self._changed.notify_all()
            return batch

    @property
    def held(self) -> int:
        with self._changed:
            return sum(map(len, self._work.values()))

    @property
    def waited_s(self) -> float:
        """Longest wait of a live camera's work; footage can wait."""
        with self._changed:
            since = [mine[0].since for mine in self._work.values() if mine]
        return max((monotonic() - began for began in since if began is not None), default=0.0)

    @property
    def is_too_slow(self) -> bool:
        """True from when a live pair has waited too long until a minute after none does."""
        return monotonic() - self._slow_at < STEADY_S

    def note_load(self) -> None:
        """Log it once where this machine is too slow for its cameras; call it at every turn."""
        if (waited_s := self.waited_s) > TOO_SLOW_S:
            if not self.is_too_slow:
                text = "this machine is too slow for its cameras (%d): pairs wait %.0f s; watch fewer cameras"
                logger.warning(text, len(self._work), waited_s)
            self._slow_at = monotonic()

    @property
    def is_exhausted(self) -> bool:
        with self._changed:
            return not self.held and len(self._ended) == len(self._work)

    def _thin_out(self, camera: str, mine: deque[Work], now: float) -> None:
        """Drop the oldest frame if it is late or too much, and another one waits; else a pair too much."""
        frames = [(k, work.item) for k, work in enumerate(mine) if isinstance(work.item, MotionFrame)]
        pairs = [k for k, work in enumerate(mine) if work.is_pair]
        full = len(mine) > self.capacity
        if len(frames) > 1 and (full or now - (mine[frames[0][0]].since or now) >= LATE_S):
            (gone, lost), (k, kept) = frames[:2]
            restart, follows_gap = kept.restart or lost.restart, kept.follows_gap or lost.follows_gap
            item = replace(kept, restart=restart, follows_gap=follows_gap, follows_loss=True)
            mine[k] = replace(mine[k], item=item, since=mine[gone].since)
        elif full and len(pairs) > 1:
            gone, k = pairs[:2]
            mine[k] = replace(mine[k], since=mine[gone].since)
        else:
            return  # of gaps and changes there are few
        self._drop(camera, [mine[gone]], NEWER_CAME)
        del mine[gone]

    def _drop(self, camera: str, work: Iterable[Work], reason: str) -> None:
        if pairs := sum(each.is_pair for each in work):
            self.counters[camera, DROPPED, reason] += pairs
