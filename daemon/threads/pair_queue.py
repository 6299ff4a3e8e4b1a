"""The bounded queue between the cameras' threads and the narrator."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, replace
from time import monotonic

from daemon.threads.accounts import ENDED, NEWER_CAME, REMOVED, Accounts
from pipeline.loop import Loop
from pipeline.pairs import FramePair

_OVERDUE = float("-inf")
_POLL_S = 0.2
"""No wait is longer without a look at who has stopped."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposed:
    """A pair on its way to the narrator.

    Attributes:
        pair: of any camera.
        late: it is too late to ask the captioner; the cluster facts must do.
        until: monotonic seconds until which the captioner can be asked; None is for ever.
        since: monotonic seconds since when a live one waits, or those that it displaced; None for footage.
    """

    pair: FramePair
    late: bool = False
    until: float | None = None
    since: float | None = None

    def overdue(self, now: float) -> bool:
        """Whether it has waited too long for the captioner."""
        return self.until is not None and now > self.until


class PairQueue:
    """Holds the newest pairs of all cameras, some of each: a busy one never displaces the others.

    A pair of a live camera that waits longer than its deadline, or that more than `capacity` newer ones have
    followed, is given out as late: it costs the captioner nothing, and no change is lost.

    Args:
        cameras: their names; pairs are taken from them in turn.
        capacity: pairs held per camera.

    Attributes:
        accounts: where pairs are counted.
        loops: threads of its own; it has none.
    """

    def __init__(self, cameras: list[str], capacity: int) -> None:
        self.capacity = capacity
        self.loops: list[Loop] = []
        self.accounts = Accounts(cameras)
        self._pairs: dict[str, deque[Proposed]] = {camera: deque() for camera in cameras}
        self._ended: set[str] = set()
        self._closed = False
        self._changed = threading.Condition()

    @property
    def dropped(self) -> Counter[str]:
        """Pairs that nobody looked at, by camera."""
        accounts = self.accounts.by_camera().items()
        return Counter({camera: n for camera, account in accounts if (n := account.dropped.total())})

    def put(
        self,
        camera: str,
        pair: FramePair,
        *,
        wait: bool,
        deadline_s: float | None = None,
        backlog: bool = False,
    ) -> bool:
        """Add a pair; where the camera's share is full, wait for room or drop (and count) its oldest pair.

        Args:
            camera: whose pair it is.
            pair: the newest of this camera.
            wait: for room, as footage can.
            deadline_s: how long the pair may wait for the captioner, by the monotonic clock: the wall clock
                may step by an hour. None is as long as it takes.
            backlog: it was held while a live camera calibrated: it has time, and says nothing of overload.

        Returns:
            False where the queue was closed, or the camera removed: the thread should end.
        """
        with self._changed:
            mine = self._pairs.get(camera)
            self.accounts.propose(camera)
            while wait and mine and len(mine) >= self.capacity and self._takes(camera, mine):
                self._changed.wait(_POLL_S)
            if mine is None or not self._takes(camera, mine):
                self.accounts.drop(camera, ENDED if self._closed else REMOVED)
                return False
            now = monotonic()
            until = None if deadline_s is None or backlog else now + deadline_s
            mine.append(Proposed(pair, until=until, since=None if wait or backlog else now))
            self._make_room(camera, mine)
            self._changed.notify_all()
            return True

    def restart_waits(self) -> None:
        """From now on there is a captioner: until then nothing was late."""
        with self._changed:
            now = monotonic()
            for mine in self._pairs.values():
                for index, one in enumerate(mine):
                    if one.since is not None:
                        until = None if one.until is None else one.until - one.since + now
                        mine[index] = replace(one, since=now, until=until)

    def end(self, camera: str) -> None:
        """No more pairs of this camera will come."""
        with self._changed:
            self._ended.add(camera)
            self._changed.notify_all()

    def add(self, camera: str) -> None:
        """A camera that was not known, or whose thread starts again."""
        with self._changed:
            self._pairs.setdefault(camera, deque())
            self._ended.discard(camera)

    def remove(self, camera: str) -> None:
        """Forget a camera that has ended; pairs it still holds are dropped and counted."""
        with self._changed:
            self.accounts.drop(camera, REMOVED, len(self._pairs.pop(camera, ())))
            self._ended.discard(camera)
            self._changed.notify_all()

    def close(self) -> None:
        """Take no more pairs; those held can still be taken, and whoever waits in `put` goes on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> int:
        """Drop all that is held, and count it; how many that were."""
        with self._changed:
            held = self._held()
            for camera, mine in self._pairs.items():
                self.accounts.drop(camera, ENDED, len(mine))
                mine.clear()
            self._changed.notify_all()
            return held

    def take(self, size: int, wait_s: float, limit_s: float = _POLL_S) -> list[Proposed]:
        """A batch over all cameras, in turn; each camera's pairs in their order.

        Args:
            size: pairs at most, not counting late ones, which cost the captioner nothing.
            wait_s: the batch closes so long after it could have had its first pair.
            limit_s: longest wait for that first pair; then the batch is empty.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._held(), limit_s)
            if not self._held():
                return []
            until = monotonic() + wait_s
            while self._held() < size and not self._idle() and (left := until - monotonic()) > 0:
                self._changed.wait(min(left, _POLL_S))
            now = monotonic()
            late = self._late(now)
            batch: list[Proposed] = []
            while len(batch) < size and self._held():
                batch += self._one_of_each(size - len(batch), now)
            self._changed.notify_all()
            return late + batch

    def take_whole(self, size: int, limit_s: float = _POLL_S) -> list[Proposed]:
        """A batch of one camera: exactly `size` pairs, or the rest of a camera that has ended.

        The batches of a replay are the same whatever the threads' timing, and so are its last digits.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._whole(size), limit_s)
            camera = self._whole(size)
            if camera is None:
                return []
            mine = self._pairs[camera]
            batch = [mine.popleft() for _ in range(min(size, len(mine)))]
            self._changed.notify_all()
            return batch

    @property
    def held(self) -> int:
        """Pairs waiting."""
        with self._changed:
            return self._held()

    @property
    def waiting(self) -> set[str]:
        """Cameras of which pairs wait."""
        with self._changed:
            return {camera for camera, mine in self._pairs.items() if mine}

    @property
    def waited_s(self) -> float:
        """How long pairs of a live camera have waited, displaced ones included; those of footage can wait."""
        with self._changed:
            since = [mine[0].since for mine in self._pairs.values() if mine]
        return max((monotonic() - began for began in since if began is not None), default=0.0)

    def ended(self, camera: str) -> bool:
        """True where the camera has ended and all its pairs were taken."""
        with self._changed:
            return camera in self._ended and not self._pairs[camera]

    def _takes(self, camera: str, mine: deque[Proposed]) -> bool:
        """Neither closed, nor was the camera removed meanwhile."""
        return not self._closed and self._pairs.get(camera) is mine

    def _held(self) -> int:
        return sum(map(len, self._pairs.values()))

    def _idle(self) -> bool:
        """Nobody will add a pair any more."""
        return self._closed or len(self._ended) == len(self._pairs)

    def _whole(self, size: int) -> str | None:
        for camera, mine in self._pairs.items():
            if len(mine) >= size or (mine and (camera in self._ended or self._closed)):
                return camera
        return None

    def _late(self, now: float) -> list[Proposed]:
        """The pairs that have waited too long; each camera's order stays as it is."""
        late: list[Proposed] = []
        for mine in self._pairs.values():
            while mine and mine[0].overdue(now):
                late.append(replace(mine.popleft(), late=True))
        return late

    def _make_room(self, camera: str, mine: deque[Proposed]) -> None:
        """Of a live camera's pairs beyond its share, the oldest is late; beyond twice that, it is dropped."""
        live = [index for index, one in enumerate(mine) if one.since is not None]
        if len(live) > 2 * self.capacity or (len(live) > self.capacity and mine[live[0]].until is None):
            displaced = mine[live[0]]
            mine[live[1]] = replace(mine[live[1]], since=displaced.since)
            del mine[live[0]]
            self.accounts.drop(camera, NEWER_CAME)
        elif len(live) > self.capacity:
            index = next(index for index in live if mine[index].until != _OVERDUE)
            mine[index] = replace(mine[index], until=_OVERDUE)

    def _one_of_each(self, most: int, now: float) -> list[Proposed]:
        batch: list[Proposed] = []
        for camera in list(self._pairs):
            if self._pairs[camera] and len(batch) < most:
                one = self._pairs[camera].popleft()
                batch.append(replace(one, late=one.overdue(now)))
                self._pairs[camera] = self._pairs.pop(camera)  # its turn comes last again
        return batch
