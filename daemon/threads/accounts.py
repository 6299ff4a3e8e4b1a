"""Where every proposed pair went: published, suppressed, dropped or still waiting; there is nothing else."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

ALONE, MERGED = "alone", "merged"
"""Published: as a record of its own, or within the record of pairs shortly before it."""

NOTHING_CHANGED, TOLD_ALREADY = "nothing changed", "told already"
"""Suppressed before any limit: no sentence was found, or all of them only went on with a story. Where the
captioner says why it keeps silent ("unsure", "nothing of an object"), that is the reason."""

NEWER_CAME, REMOVED, ENDED, FAILED = "newer came", "camera removed", "daemon ended", "failed"
"""Dropped: displaced in a full queue, its camera taken out of the configuration, not narrated before the
end, or neither narrated nor told by its facts (its picture cannot be read, its journal not written)."""


@dataclass(slots=True)
class Account:
    """The frame pairs of one camera; ``proposed`` is the sum of all the others at any time.

    Attributes:
        proposed: by the camera.
        waiting: in the queue, with the captioner, or held open for a merge.
        published: journalled, from where they are published exactly once; by `ALONE` and `MERGED`.
        suppressed: by reason: nothing to tell, told already, or held back by a limit.
        dropped: by reason; nobody looked at them.
    """

    proposed: int = 0
    waiting: int = 0
    published: Counter[str] = field(default_factory=Counter)
    suppressed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


class Accounts:
    """Counts pairs by camera; for any number of threads.

    A camera that is taken out of the configuration keeps its counts, as counters of metrics must.

    Args:
        cameras: shown from the start, with zeros.
    """

    def __init__(self, cameras: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._accounts = {camera: Account() for camera in cameras}

    def propose(self, camera: str) -> None:
        """A camera proposes a pair."""
        with self._lock:
            account = self._accounts.setdefault(camera, Account())
            account.proposed += 1
            account.waiting += 1

    def publish(self, camera: str, pairs: int = 1) -> None:
        """One record is journalled, which tells of one pair or of several."""
        self._settle(camera, "published", {ALONE: 1, MERGED: pairs - 1})

    def suppress(self, camera: str, reason: str) -> None:
        """A pair was looked at, and is not told."""
        self._settle(camera, "suppressed", {reason: 1})

    def drop(self, camera: str, reason: str, pairs: int = 1) -> None:
        """Pairs are given up."""
        self._settle(camera, "dropped", {reason: pairs})

    def of(self, camera: str) -> Account:
        """One camera's account as it is now."""
        with self._lock:
            return deepcopy(self._accounts.get(camera, Account()))

    def by_camera(self) -> dict[str, Account]:
        """All accounts, as they are at one moment."""
        with self._lock:
            return deepcopy(self._accounts)

    def _settle(self, camera: str, fate: str, pairs: dict[str, int]) -> None:
        with self._lock:
            account = self._accounts.setdefault(camera, Account())
            for reason, count in pairs.items():
                if count:
                    getattr(account, fate)[reason] += count
                    account.waiting -= count
