"""Everything that runs, as one value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from daemon.config.secrets import Secrets
from daemon.config.settings import Configuration
from daemon.service.health import Health
from daemon.service.pages import Pages
from daemon.service.signals import Signals
from daemon.service.systemd import ServiceWatch
from daemon.threads.cameras import Cameras
from daemon.threads.evidence import EvidenceKeeper
from daemon.threads.narrator_thread import NarratorThread
from daemon.threads.overload import Overload
from daemon.threads.publication import Publishing
from daemon.threads.retention import Retention
from daemon.threads.signatures import JournalSigning
from daemon.threads.work_queue import WorkQueue
from models import CheckpointLabel
from pipeline.journal import Journal
from pipeline.loop import Loop
from pipeline.record import Record


@dataclass(slots=True)
class Daemon:
    """Everything that runs; made by `startup`, ended by `shutdown`.

    Attributes:
        path: of the configuration file.
        configuration: in force.
        journals: by camera; also of removed cameras, until everything is journalled and published.
        narrations: journalled, by camera.
        observed: called with every record that is journalled.
        overload: whether this machine keeps up.
        reloads: times the configuration was read again, by what came of it.
    """

    path: Path
    configuration: Configuration
    secrets: Secrets
    captioner: CheckpointLabel
    journals: dict[str, Journal]
    queue: WorkQueue
    cameras: Cameras
    narrating: NarratorThread
    publishing: Publishing
    evidence: EvidenceKeeper
    retention: Retention
    signing: JournalSigning
    signals: Signals
    watch: ServiceWatch
    health: Health
    observed: Callable[[Record], None]
    pages: Pages | None
    overload: Overload = field(default_factory=Overload)
    narrations: Counter[str] = field(default_factory=Counter)
    reloads: Counter[str] = field(default_factory=lambda: Counter(taken=0, refused=0))

    @property
    def loops(self) -> list[Loop]:
        """Loops whose errors end the daemon; a camera's thread is restarted instead."""
        loops = [self.narrating.loop, self.publishing.loop, self.retention.loop, self.signing.loop]
        return [*loops, self.pages.loop] if self.pages else loops

    @property
    def status(self) -> str:
        """One line for `systemctl status`."""
        threads = self.cameras.threads.values()
        running = sum(thread.loop.alive for thread in threads)
        parts = [f"cameras running: {running} of {len(threads)}", f"narrations: {self.narrations.total()}"]
        if dropped := self.queue.dropped.total():
            parts.append(f"pairs dropped: {dropped}")
        if self.overload.now:
            parts.append("too slow for these cameras")
        if failing := self.publishing.failing:
            parts.append(f"not published: {self.publishing.away or ', '.join(sorted(failing))}")
        if unwritten := self.health.unwritten():
            parts.append("not written: " + "; ".join(f"{name} ({why})" for name, why in unwritten.items()))
        if stuck := self.health.stuck():
            parts.append("hanging: " + ", ".join(sorted(stuck)))
        return ", ".join(parts)
