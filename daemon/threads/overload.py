"""Warnings, once each, of a machine that is too slow and of cameras whose clock is wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import monotonic

from pipeline.sources.times import SANE

TOO_SLOW_S = 10.0
"""A live camera's pair that waits so long for the narrator shows that this machine is too slow."""

STEADY_S = 60.0
"""A clock is wrong, or a machine keeps up again, when that has been so for so long."""

SKEW_S = 2.0
"""A clock that is further away is wrong; one within half of it is right again."""

logger = logging.getLogger(__name__)


class Overload:
    """Distinguishes a slow machine, on which all pictures come late, from wrong clocks; for the main thread.

    Attributes:
        now: this machine is too slow for its cameras now.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.now = False
        self._clock = clock
        self._slow_at = 0.0
        self._wrong_since: dict[str, float] = {}
        self._warned: set[str] = set()

    def update(self, waited_s: float, cameras: int, skews: Mapping[str, float | None]) -> None:
        """Call it at every turn.

        Args:
            waited_s: longest wait of a live pair.
            cameras: how many are watched.
            skews: each live camera's clock minus ours in seconds; None where it sends no time.
        """
        now = self._clock()
        if waited_s > TOO_SLOW_S:
            if not self.now:
                logger.warning(
                    "this machine is too slow for its cameras (%d): pairs wait %.0f s; watch fewer, or use a "
                    "faster processor or a GPU. Fewer frames are looked at",
                    *(cameras, waited_s),
                )
            self.now, self._slow_at = True, now
        elif self.now and now - self._slow_at >= STEADY_S:
            self.now = False
            logger.warning("this machine keeps up with its cameras again")
        known = {name: skew for name, skew in skews.items() if skew is not None}
        wrong = {name for name, skew in known.items() if abs(skew) > SKEW_S and not self.now}
        right = {name for name, skew in known.items() if abs(skew) < SKEW_S / 2}
        self._warned = (self._warned & skews.keys()) - right
        self._wrong_since = {name: self._wrong_since.get(name, now) for name in wrong}
        for name in sorted(wrong - self._warned):
            if now - self._wrong_since[name] >= STEADY_S:
                self._warned.add(name)
                used = "its times are used all the same"
                if abs(known[name]) > SANE.total_seconds():
                    used = "times of receipt are used"
                logger.warning(
                    "%s: the camera's clock less this machine's is %+.1f s; %s: point both at a time server",
                    *(name, known[name], used),
                )
