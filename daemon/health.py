"""How the daemon is: one answer for systemd, for the pages and for the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from daemon.cameras import Cameras
from daemon.pulse import Pulses


class Phase(StrEnum):
    """What the daemon does now."""

    LOADING = "loading"
    OPENING = "opening the cameras"
    WATCHING = "watching"
    ENDING = "ending"


@dataclass(slots=True)
class Health:
    """What is known of the daemon's state; the main thread writes, any thread reads.

    Attributes:
        phase: what it does now.
        pulses: of its loops.
        cameras: None until they are known.
    """

    phase: Phase = Phase.LOADING
    pulses: Pulses = field(default_factory=Pulses)
    cameras: Cameras | None = None

    @property
    def ready(self) -> bool:
        """True while cameras are watched: the model is loaded and every camera was tried once."""
        return self.phase is Phase.WATCHING

    def stuck(self) -> dict[str, float]:
        """Loops that hang, with the seconds since they last got on; nothing is fed to a watchdog then."""
        cameras = self.cameras.stuck() if self.cameras else {}
        return self.pulses.overdue() | {f"camera {name}": age_s for name, age_s in cameras.items()}
