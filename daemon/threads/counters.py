"""Outcomes of proposed pairs: published, suppressed, dropped or still waiting; there is no other."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

NOTHING_CHANGED, REPORTED = "nothing changed", "reported already"
"""Suppressed: no sentence, or only ones that repeat what was reported. Where the captioner says why it keeps
silent ("unsure", "nothing of an object"), that is the reason."""

NEWER_CAME, REMOVED, ENDED, FAILED = "newer came", "camera removed", "daemon ended", "failed"
"""Dropped: displaced in a full queue, its camera taken out of the configuration, not narrated before the
end, or neither narrated nor reported by its facts (its picture cannot be read, its journal not written)."""


@dataclass(slots=True)
class PairCounts:
    """The frame pairs of one camera.

    Attributes:
        proposed: by the camera.
        published: journalled, from where they are published exactly once.
        suppressed: by reason.
        dropped: by reason; they were not looked at.
    """

    proposed: int = 0
    published: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def waiting(self) -> int:
        """Pairs in the queue, or with the captioner."""
        return self.proposed - self.published - self.suppressed.total() - self.dropped.total()


class PairCounters:
    """Counts pairs by camera, for any number of threads; a camera that is removed keeps its counts.

    Args:
        cameras: shown from the start, with zeros.
    """

    def __init__(self, cameras: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._counts = defaultdict(PairCounts, {camera: PairCounts() for camera in cameras})

    def propose(self, camera: str) -> None:
        """Count a pair that a camera proposes."""
        with self._lock:
            self._counts[camera].proposed += 1

    def publish(self, camera: str) -> None:
        """Count a pair that is journalled."""
        with self._lock:
            self._counts[camera].published += 1

    def suppress(self, camera: str, reason: str) -> None:
        """Count a pair that was looked at, and is not reported."""
        with self._lock:
            self._counts[camera].suppressed[reason] += 1

    def drop(self, camera: str, reason: str, pairs: int = 1) -> None:
        """Count pairs that are given up."""
        if pairs:
            with self._lock:
                self._counts[camera].dropped[reason] += pairs

    def by_camera(self) -> dict[str, PairCounts]:
        """All counts, as they are at one moment."""
        with self._lock:
            return deepcopy(dict(self._counts))
