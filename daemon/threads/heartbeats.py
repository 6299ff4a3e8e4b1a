"""When each loop of the daemon last got on: what the watchdog and `/healthz` go by."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from pipeline.loop import LIMIT_S


class Heartbeats:
    """The beats of all loops; any thread may beat, any may look.

    A loop beats where it has really done something: looked at a frame, narrated a batch, asked the server,
    or found that there is nothing to do. A timer beside the loop would beat for one that hangs.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._beats: dict[str, tuple[float, float]] = {}

    def beat(self, loop: str, within_s: float = LIMIT_S) -> None:
        """The loop has got on, and will again within so many seconds."""
        self._beats[loop] = self._clock(), within_s

    def forget(self, loop: str) -> None:
        """The loop has ended, as it should."""
        self._beats.pop(loop, None)

    def ages_s(self) -> dict[str, float]:
        """Seconds since each loop's last beat."""
        now = self._clock()
        return {loop: max(0.0, now - at) for loop, (at, _) in self._beats.copy().items()}

    def overdue(self) -> dict[str, float]:
        """The loops that hang, with the seconds since their last beat."""
        now = self._clock()
        return {loop: now - at for loop, (at, within_s) in self._beats.copy().items() if now - at > within_s}
