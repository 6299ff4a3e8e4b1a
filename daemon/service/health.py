"""The daemon's health: one source for systemd, the pages and the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from daemon.threads.cameras import Cameras
from daemon.threads.publication import Publishing
from pipeline.journal import Journal
from pipeline.loop import Heartbeats


class Phase(StrEnum):
    """Phases of the daemon."""

    LOADING = "loading"
    OPENING = "opening the cameras"
    WATCHING = "watching"
    ENDING = "ending"


@dataclass(slots=True)
class Health:
    """State of the daemon; the main thread writes, any thread reads.

    Cameras and publishing are None during startup.
    """

    phase: Phase = Phase.LOADING
    heartbeats: Heartbeats = field(default_factory=Heartbeats)
    cameras: Cameras | None = None
    journals: Mapping[str, Journal] = field(default_factory=dict)
    publishing: Publishing | None = None

    def unready(self) -> list[str]:
        """Reasons for which the daemon does not do its work, one sentence each; a restart need not help."""
        if self.phase is not Phase.WATCHING:
            return [f"it is {self.phase.value}"]
        reasons = []
        if self.publishing and (why := self.publishing.stopped):
            reasons.append(f"nothing is published: {why}")
        if self.cameras and (unseen := self.cameras.unseen):
            states = ", ".join(f"{name} ({state})" for name, state in sorted(unseen.items()))
            reasons.append(f"no camera sends pictures: {states}")
        unwritten = sorted(self.unwritten().items())
        return reasons + [f"the journal of {name} cannot be written: {why}" for name, why in unwritten]

    def stuck(self) -> dict[str, float]:
        """Loops that hang, by seconds without progress; the watchdog is not fed then."""
        cameras = self.cameras.stuck() if self.cameras else {}
        return self.heartbeats.overdue() | {f"camera {name}": age_s for name, age_s in cameras.items()}

    def unwritten(self) -> dict[str, str]:
        """Reasons for which journals are not written now, by camera.

        No reason to restart: the narrations held in memory would be lost.
        """
        return {
            camera: f"{journal.trouble}; narrations held in memory: {journal.held}"
            for camera, journal in dict(self.journals).items()
            if journal.trouble
        }

    def liveness(self) -> dict[str, Any]:
        """Members of `/healthz`: `ok` while no loop hangs, as for the watchdog."""
        stuck = self.stuck()
        ages = {loop: round(age, 1) for loop, age in sorted(self.heartbeats.ages_s().items())}
        return {
            "ok": not stuck,
            "hanging": sorted(stuck),
            "unwritten": self.unwritten(),
            "seconds_since_progress": ages,
            **self._states(),
        }

    def readiness(self) -> dict[str, Any]:
        """Members of `/readyz`: `ready`, else `reasons`."""
        reasons = self.unready()
        return {"ready": not reasons, "reasons": reasons, "phase": self.phase.value, **self._states()}

    def _states(self) -> dict[str, dict[str, str]]:
        """State of each camera, and of each sub-stream that is screened."""
        threads = sorted((self.cameras.threads if self.cameras else {}).items())
        screening = {name: thread.screening_state for name, thread in threads}
        return {
            "cameras": {name: thread.state for name, thread in threads},
            "screening": {name: state for name, state in screening.items() if state is not None},
        }
