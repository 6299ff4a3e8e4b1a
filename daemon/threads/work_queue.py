"""The bounded queue between the cameras' threads and the narrator, and the outcomes of the pairs in it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from time import monotonic

from pipeline.gate import PAUSE_S, Gap, Item, MotionFrame, Seen
from pipeline.pairs import FramePair
from pipeline.sources import seconds_between

FRAMES_HELD = 5
"""Frames of a live camera that wait for the detector: at 5/s a second, of 1080p 19 MB."""

DEADLINE_S = 30.0
"""A pair of a live camera that waits longer for the captioner is reported without it."""

POLL_S = 0.2
"""No wait is longer without a look at who has stopped."""


PROPOSED, PUBLISHED, SUPPRESSED, DROPPED = "proposed", "published", "suppressed", "dropped"
"""Published: journalled, from where it is published exactly once. Suppressed: looked at, and not reported.
Dropped: not looked at, or lost."""

NOTHING_CHANGED, REPORTED = "nothing changed", "reported already"
"""Suppressed: no sentence, or only ones that repeat what was reported. Where the captioner says why it keeps
silent ("unsure", "nothing of an object"), that is the reason."""

NEWER_CAME, REMOVED, ENDED, FAILED = "newer came", "camera removed", "daemon ended", "failed"
"""Dropped: displaced in a full queue, its camera taken out of the configuration, not narrated before the
end, or neither narrated nor reported by its facts (its picture cannot be read, its journal not written)."""


class PairCounters:
    """Counts pairs by camera, outcome and reason, for any number of threads.

    Args:
        cameras: shown from the start, with zeros; a camera that is removed keeps its counts.
    """

    def __init__(self, cameras: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._counts = Counter({(camera, o, ""): 0 for camera in cameras for o in (PROPOSED, PUBLISHED)})

    def count(self, camera: str, outcome: str, reason: str = "", pairs: int = 1) -> None:
        if pairs:
            with self._lock:
                self._counts[camera, outcome, reason] += pairs

    def copy(self) -> Counter[tuple[str, str, str]]:
        """All counts of one moment, by camera, outcome and reason."""
        with self._lock:
            return self._counts.copy()

    def waiting(self) -> Counter[str]:
        """Pairs in the queue or with the captioner, by camera."""
        waiting = Counter[str]()
        for (camera, outcome, _), pairs in self.copy().items():
            waiting[camera] += pairs if outcome == PROPOSED else -pairs
        return waiting


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A frame or a pair on its way to the narrator.

    Attributes:
        item: of any camera.
        late: it is too late to ask the captioner about the pair; the cluster facts must do.
        until: monotonic seconds until which the captioner can be asked; None is for ever.
        since: monotonic seconds since when a live one waits, or those that it displaced; None for footage.
    """

    item: Item
    late: bool = False
    until: float | None = None
    since: float | None = None

    @property
    def camera(self) -> str:
        frame = self.item.frame if isinstance(self.item, MotionFrame | Seen) else self.item.after
        return frame.camera

    @property
    def is_pair(self) -> bool:
        """True for a pair: pairs are counted, frames are thinned out where there are too many."""
        return isinstance(self.item, FramePair)

    def overdue(self, now: float) -> bool:
        return self.until is not None and now > self.until


class WorkQueue:
    """Holds the newest frames and pairs of all cameras, some of each: a busy one never displaces the others.

    A narrator that is too slow looks at fewer frames: where a live camera's share is full, one of its waiting
    frames goes, so that the detection rate falls and tracks go on. Pairs are rare: a pair that has waited
    longer than its deadline is reported by its clusters, and only where a camera's share is full of pairs the
    oldest goes.

    Args:
        cameras: their names; work is taken from them in turn.
        capacity: frames and pairs held per camera.

    Attributes:
        counters: where pairs are counted.
        thinned: frames that were not looked at, by camera.
    """

    def __init__(self, cameras: list[str], capacity: int = FRAMES_HELD) -> None:
        self.capacity = capacity
        self.counters = PairCounters(cameras)
        self.thinned: Counter[str] = Counter()
        self._work: dict[str, deque[Work]] = {camera: deque() for camera in cameras}
        self._ended: set[str] = set()
        self._closed = self._abandoned = False
        self._changed = threading.Condition()  # with a reentrant lock

    @property
    def dropped(self) -> Counter[str]:
        dropped = Counter[str]()
        for (camera, outcome, _), pairs in self.counters.copy().items():
            if outcome == DROPPED:
                dropped[camera] += pairs
        return dropped

    def put(self, camera: str, item: Item, *, wait: bool) -> bool:
        """Add work; where the camera's share is full, wait for room, or thin out what waits.

        Args:
            camera: whose it is.
            item: the newest of this camera.
            wait: True waits for room, as footage can.

        Returns:
            False where the queue was closed, or the camera removed: the thread should end.
        """
        is_pair = isinstance(item, FramePair)
        with self._changed:
            mine = self._work.get(camera)
            if is_pair:
                self.counters.count(camera, PROPOSED)
            while wait and mine and len(mine) >= self.capacity and self._takes(camera, mine):
                self._changed.wait(POLL_S)
            takes = mine is not None and self._takes(camera, mine)
            is_last = self._closed and not (wait or self._abandoned)  # of a live camera that is ending
            if mine is None or not (takes or is_last):
                if is_pair:
                    self.counters.count(camera, DROPPED, ENDED if self._closed else REMOVED)
                return False
            now = monotonic()
            until = now + DEADLINE_S if is_pair and not wait else None
            mine.append(Work(item, until=until, since=None if wait else now))
            if len(mine) > self.capacity:
                self._thin_out(camera, mine)
            self._changed.notify_all()
            return takes

    def restart_waits(self) -> None:
        """Begin all waits now that the captioner is loaded: nothing was late until then.

        Frames so far apart that nothing can be tracked make way for a gap: the watching begins after them.
        """
        with self._changed:
            now = monotonic()
            for camera, mine in self._work.items():
                self._begin_after_losses(camera, mine)
                for k, work in enumerate(mine):
                    if work.since is not None:
                        until = None if work.until is None else work.until - work.since + now
                        mine[k] = replace(work, since=now, until=until)

    def end(self, camera: str) -> None:
        with self._changed:
            self._ended.add(camera)
            self._changed.notify_all()

    def add(self, camera: str) -> None:
        """A camera that was not known, or whose thread starts again."""
        with self._changed:
            self._work.setdefault(camera, deque())
            self._ended.discard(camera)

    def remove(self, camera: str) -> None:
        """Forget a camera that has ended; pairs it still holds are dropped and counted."""
        with self._changed:
            self._drop(camera, self._work.pop(camera, deque()), REMOVED)
            self._ended.discard(camera)
            self._changed.notify_all()

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
                abandoned += mine
                mine.clear()
            self._changed.notify_all()
            return abandoned

    def take(self, size: int, wait_s: float, limit_s: float = POLL_S) -> list[Work]:
        """A batch over all cameras, in turn; each camera's work in its order.

        Args:
            size: frames and pairs at most.
            wait_s: the batch closes so long after it could have had its first part.
            limit_s: longest wait for that first part; then the batch is empty.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._ended) == len(self._work) or self.held, limit_s)
            if not self.held:
                return []
            until = monotonic() + wait_s
            while self.held < size and not self._idle() and (left := until - monotonic()) > 0:
                self._changed.wait(min(left, POLL_S))
            now = monotonic()
            batch: list[Work] = []
            while len(batch) < size and self.held:
                batch += self._one_of_each(size - len(batch), now)
            self._changed.notify_all()
            return batch

    def take_camera(self, size: int, limit_s: float = POLL_S) -> list[Work]:
        """A batch of one camera: exactly `size` parts, or the rest of a camera that has ended.

        The batches of a replay are the same whatever the threads' timing, and so are its last digits.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._ready_camera(size), limit_s)
            camera = self._ready_camera(size)
            if camera is None:
                return []
            mine = self._work[camera]
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
    def is_exhausted(self) -> bool:
        """True where all cameras have ended, and all their work was taken."""
        with self._changed:
            return not self.held and len(self._ended) == len(self._work)

    def ended(self, camera: str) -> bool:
        """True where the camera has ended and all its work was taken."""
        with self._changed:
            return camera in self._ended and not self._work[camera]

    def _takes(self, camera: str, mine: deque[Work]) -> bool:
        """Neither closed, nor was the camera removed meanwhile."""
        return not self._closed and self._work.get(camera) is mine

    def _idle(self) -> bool:
        return self._closed or len(self._ended) == len(self._work)

    def _ready_camera(self, size: int) -> str | None:
        for camera, mine in self._work.items():
            if len(mine) >= size or (mine and (camera in self._ended or self._closed)):
                return camera
        return None

    def _thin_out(self, camera: str, mine: deque[Work]) -> None:
        """Drop the frame that leaves the shortest gap: what waits stays even. Else drop the oldest pair."""
        frames = [(k, work.item) for k, work in enumerate(mine) if isinstance(work.item, MotionFrame)]
        if len(frames) > 1:
            times = [motion.frame.time for _, motion in frames]
            inner = range(1, len(frames) - 1)
            n = min(inner, key=lambda n: times[n + 1] - times[n - 1], default=0)
            (gone, lost), (k, kept) = frames[n : n + 2]
            restart, follows_gap = kept.restart or lost.restart, kept.follows_gap or lost.follows_gap
            item = replace(kept, restart=restart, follows_gap=follows_gap, follows_loss=True)
            mine[k] = replace(mine[k], item=item)
        else:
            gone = next((k for k, work in enumerate(mine) if work.is_pair), 0)
        mine[1] = replace(mine[1], since=mine[0].since if gone == 0 else mine[1].since)
        self._drop(camera, deque([mine[gone]]), NEWER_CAME)
        del mine[gone]

    def _begin_after_losses(self, camera: str, mine: deque[Work]) -> None:
        """Give the frames before the last loss up for a gap, and forget smaller losses."""
        motions = [(k, work.item) for k, work in enumerate(mine) if isinstance(work.item, MotionFrame)]
        lost = [
            n
            for n, ((_, before), (_, after)) in enumerate(pairwise(motions), 1)
            if after.follows_loss and seconds_between(before.frame, after.frame) >= PAUSE_S
        ]
        for k, item in motions:
            mine[k] = replace(mine[k], item=replace(item, follows_loss=False))
        if lost:
            (first, begin), (_, end) = motions[0], motions[lost[-1]]
            gone = [mine[k] for k, _ in motions[: lost[-1]]]
            mine[first] = replace(mine[first], item=Gap(begin.frame, end.frame, "starting"))
            for work in gone[1:]:
                mine.remove(work)
            self._drop(camera, deque(gone), NEWER_CAME)

    def _drop(self, camera: str, work: deque[Work], reason: str) -> None:
        if frames := sum(isinstance(each.item, MotionFrame) for each in work):
            self.thinned[camera] += frames
        self.counters.count(camera, DROPPED, reason, sum(each.is_pair for each in work))

    def _one_of_each(self, most: int, now: float) -> list[Work]:
        batch: list[Work] = []
        for camera in list(self._work):
            if self._work[camera] and len(batch) < most:
                one = self._work[camera].popleft()
                batch.append(replace(one, late=one.overdue(now)))
                self._work[camera] = self._work.pop(camera)  # its turn comes last again
        return batch
