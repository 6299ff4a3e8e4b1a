"""The bounded queue between the cameras' threads and the narrator."""

from __future__ import annotations

import threading
from collections import Counter, deque
from time import monotonic

from pipeline.pairs import FramePair

_POLL_S = 0.2
"""No wait is longer without a look at who has stopped."""


class PairQueue:
    """Holds the newest pairs of all cameras, some of each: a busy one never displaces the others.

    Args:
        cameras: their names; pairs are taken from them in turn.
        capacity: pairs held per camera.
    """

    def __init__(self, cameras: list[str], capacity: int) -> None:
        self.capacity = capacity
        self.dropped: Counter[str] = Counter()
        self._pairs: dict[str, deque[FramePair]] = {camera: deque() for camera in cameras}
        self._ended: set[str] = set()
        self._closed = False
        self._changed = threading.Condition()

    def put(self, camera: str, pair: FramePair, *, wait: bool) -> bool:
        """Add a pair; where the camera's share is full, wait for room or drop (and count) its oldest pair.

        Returns:
            False where the queue was closed: the thread should end.
        """
        with self._changed:
            mine = self._pairs[camera]
            while wait and len(mine) >= self.capacity and not self._closed:
                self._changed.wait(_POLL_S)
            if self._closed:
                return False
            if len(mine) >= self.capacity:
                mine.popleft()
                self.dropped[camera] += 1
            mine.append(pair)
            self._changed.notify_all()
            return True

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
            self.dropped[camera] += len(self._pairs.pop(camera, ()))
            self._ended.discard(camera)
            self._changed.notify_all()

    def close(self) -> None:
        """Take no more pairs; those held can still be taken, and whoever waits in `put` goes on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self, size: int, wait_s: float, limit_s: float = _POLL_S) -> list[FramePair]:
        """A batch over all cameras, in turn; each camera's pairs in their order.

        Args:
            size: pairs at most.
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
            batch: list[FramePair] = []
            while len(batch) < size and self._held():
                batch += self._one_of_each(size - len(batch))
            self._changed.notify_all()
            return batch

    def take_whole(self, size: int, limit_s: float = _POLL_S) -> list[FramePair]:
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

    def ended(self, camera: str) -> bool:
        """True where the camera has ended and all its pairs were taken."""
        with self._changed:
            return camera in self._ended and not self._pairs[camera]

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

    def _one_of_each(self, most: int) -> list[FramePair]:
        batch: list[FramePair] = []
        for camera in list(self._pairs):
            if self._pairs[camera] and len(batch) < most:
                batch.append(self._pairs[camera].popleft())
                self._pairs[camera] = self._pairs.pop(camera)  # its turn comes last again
        return batch
