"""What comes late: because this machine is too slow, or because a camera's clock is wrong; told once each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic

from pipeline.sources.clock import SANE

TOO_SLOW_S = 10.0
"""A live camera's pair that waits so long for the narrator shows that this machine is too slow."""

STEADY_S = 60.0
"""A clock is wrong, or a machine keeps up again, when that has been so for so long."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Skew:
    """How far a camera's clock seems to be from ours: pictures that come late make it seem behind.

    Attributes:
        ahead_s: camera's clock less ours in seconds; None where the camera tells no time.
        alarm_s: distance that is told.
    """

    ahead_s: float | None
    alarm_s: float

    @property
    def wrong(self) -> bool:
        """Whether the clocks are too far apart."""
        return self.ahead_s is not None and abs(self.ahead_s) > self.alarm_s

    @property
    def right(self) -> bool:
        """Whether the clocks are well together."""
        return self.ahead_s is not None and abs(self.ahead_s) < self.alarm_s / 2


class Lateness:
    """Tells overload and wrong clocks apart; for the main thread.

    Attributes:
        overloaded: this machine is too slow for its cameras now.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.overloaded = False
        self._clock = clock
        self._kept_up_since: float | None = None
        self._wrong_since: dict[str, float] = {}
        self._warned: set[str] = set()

    def look(self, waited_s: float, cameras: int, skews: Mapping[str, Skew]) -> None:
        """Call it at every turn, with the longest wait of a live pair and the skew of each live camera."""
        self._look_at_load(waited_s, cameras)
        now = self._clock()
        wrong = [name for name, skew in skews.items() if skew.wrong and not self.overloaded]
        self._wrong_since = {name: self._wrong_since.get(name, now) for name in wrong}
        self._warned -= {name for name in self._warned if name not in skews or skews[name].right}
        new = [
            name for name in wrong if now - self._wrong_since[name] >= STEADY_S and name not in self._warned
        ]
        if new:
            _tell({name: skews[name].ahead_s or 0.0 for name in new}, len(skews))
            self._warned.update(new)

    def _look_at_load(self, waited_s: float, cameras: int) -> None:
        now = self._clock()
        if waited_s > TOO_SLOW_S:
            if not self.overloaded:
                logger.warning(
                    "this machine is too slow for %d %s: pairs wait %.0f s; watch fewer, or use a faster "
                    "processor or a GPU. What waits too long is reported without the captioner",
                    *(cameras, "camera" if cameras == 1 else "cameras", waited_s),
                )
            self.overloaded, self._kept_up_since = True, None
        elif self.overloaded:
            self._kept_up_since = self._kept_up_since or now
            if now - self._kept_up_since >= STEADY_S:
                self.overloaded = False
                logger.warning("this machine keeps up with its cameras again")


def _tell(ahead_s: Mapping[str, float], cameras: int) -> None:
    """One line, or one for each where they are not behind all together."""
    if 1 < cameras == len(ahead_s) and max(ahead_s.values()) < 0:
        logger.warning(
            "the clocks of all %d cameras are %.1f s behind or more: point this machine at a time server; "
            "if its clock is right, it is too slow to read so many",
            *(cameras, -max(ahead_s.values())),
        )
        return
    for name, seconds in ahead_s.items():
        believed = abs(seconds) <= SANE.total_seconds()
        logger.warning(
            "%s: the camera's clock is %.1f s %s; %s: point the camera and this machine at a time server",
            *(name, abs(seconds), "ahead" if seconds > 0 else "behind"),
            "its times are used all the same" if believed else "times of receipt are used",
        )
