"""A machine that is too slow for its cameras: logged once, and once that it keeps up again."""

import logging
from collections.abc import Callable
from time import monotonic

TOO_SLOW_S = 10.0  # a live pair that waits so long shows that this machine is too slow
STEADY_S = 60.0  # it keeps up again when no pair has waited so long for this time

logger = logging.getLogger(__name__)


class Overload:
    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.now = False
        self._clock, self._slow_at = clock, 0.0

    def update(self, waited_s: float, cameras: int) -> None:
        """Call it at every turn, with the longest wait of a live pair and the number of cameras."""
        if waited_s > TOO_SLOW_S:
            if not self.now:
                logger.warning(
                    "this machine is too slow for its cameras (%d): pairs wait %.0f s, and fewer frames are "
                    "analysed; watch fewer cameras, or use a faster processor or a GPU",
                    *(cameras, waited_s),
                )
            self.now, self._slow_at = True, self._clock()
        elif self.now and self._clock() - self._slow_at >= STEADY_S:
            self.now = False
            logger.warning("this machine keeps up with its cameras again")
