"""Outcomes of proposed pairs: published, suppressed, dropped or still waiting; there is no other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

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
