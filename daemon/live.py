"""`narrated run`: startup, main loop, shutdown; signals only set a flag."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import monotonic
from types import FrameType

from daemon.calibration import CalibrationStore
from daemon.checkpoint import chosen_checkpoint
from daemon.device import chosen_device
from daemon.embedded import EmbeddedServer
from daemon.ingest import CameraThread
from daemon.narrator import Narrator, warm_up
from daemon.pair_queue import PairQueue
from daemon.plan import CameraPlan, camera_plans
from daemon.publishing import Publishing
from daemon.secrets import Secrets
from daemon.settings import Configuration
from daemon.watch import ServiceWatch
from models import load_captioner
from pipeline.journal import Journal
from pipeline.publisher import NO_SERVER, PublisherOptions, open_publisher
from pipeline.sources import Source, SourceError, open_source, redacted

PAIRS_HELD = 8
"""Pairs per camera that wait for the narrator; of a live camera the newest."""

GRACE_S = 4.5
"""From the signal to the end: what is held is narrated and published as far as it fits."""

FINISH_S = 60.0
"""Longest wait for the last narrations to be published where all footage has ended by itself."""

_STUCK_S = 20.0
_PAUSE_S = (1.0, 30.0)

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CameraWatch:
    """A camera's thread, and when it is started again."""

    plan: CameraPlan
    thread: CameraThread
    pause_s: float = _PAUSE_S[0]
    due: float | None = None
    over: bool = False


@dataclass(slots=True)
class Daemon:
    """Everything that runs; made by `startup`, ended by `shutdown`.

    Attributes:
        stop: set by signals.
        told: narrations journalled.
        failed: cameras whose footage could not be read entirely.
    """

    configuration: Configuration
    queue: PairQueue
    cameras: list[CameraWatch]
    narrator: Narrator
    publishing: Publishing
    watch: ServiceWatch
    store: CalibrationStore
    stop: threading.Event
    told: int = 0
    failed: set[str] = field(default_factory=set)

    @property
    def status(self) -> str:
        """One line for `systemctl status`."""
        running = sum(camera.thread.alive for camera in self.cameras)
        parts = [f"{running} of {len(self.cameras)} cameras running", f"{self.told} narrations"]
        if dropped := self.queue.dropped.total():
            parts.append(f"{dropped} pairs dropped")
        if self.publishing.errors:
            parts.append(f"not published: {', '.join(sorted(self.publishing.errors))}")
        return ", ".join(parts)

    @property
    def healthy(self) -> bool:
        """True while no camera's thread sticks to one frame and the publisher lives."""
        return self.publishing.alive and all(c.thread.busy_s < _STUCK_S for c in self.cameras)


def run(configuration: Configuration, secrets: Secrets) -> int:
    """Watch the configured cameras until SIGTERM or SIGINT, or until all of them (files) have ended.

    Returns:
        Exit code: 0, or 3 where some footage could not be read.

    Raises:
        SecretError, CheckpointError, JournalError, PublisherError, EmbeddedServerError: it cannot start.
    """
    stop = threading.Event()
    with _signals(stop), ExitStack() as resources:
        daemon = startup(configuration, secrets, resources, stop)
        try:
            main_loop(daemon)
        finally:
            shutdown(daemon)
    return 3 if daemon.failed else 0


def startup(
    configuration: Configuration, secrets: Secrets, resources: ExitStack, stop: threading.Event
) -> Daemon:
    """Load the captioner, open journals and publisher, start the threads.

    Args:
        configuration: what to watch, and where to tell it.
        secrets: put into URLs.
        resources: closes the journals and the embedded server at the end.
        stop: ends the main loop.
    """
    watch = ServiceWatch()
    plans = camera_plans(configuration, secrets)
    names = [plan.name for plan in plans]
    settings = configuration.captioner
    captioner = load_captioner(chosen_checkpoint(settings), chosen_device(settings.device))
    warm_up(captioner)
    folder = configuration.state / "journal"
    journals = {name: resources.enter_context(Journal(folder, name)) for name in names}
    url = configuration.redis.url or NO_SERVER
    if url == "embedded":
        url = resources.enter_context(EmbeddedServer()).url
        logger.info("embedded server at %s", url)
    publisher = open_publisher(secrets.reveal(url), PublisherOptions(maxlen=configuration.redis.maxlen))
    publishing = Publishing(journals, publisher)
    queue = PairQueue(names, PAIRS_HELD)
    store = CalibrationStore(configuration.state / "calibration")
    cameras = [CameraWatch(plan, CameraThread(plan, queue, opened, store)) for plan in plans]
    narrator = Narrator(captioner, plans, journals, live=True)
    daemon = Daemon(configuration, queue, cameras, narrator, publishing, watch, store, stop)
    publishing.start()
    for camera in cameras:
        camera.thread.start()
    watch.ready(daemon.status)
    logger.info("watching %s", ", ".join(names))
    return daemon


def main_loop(daemon: Daemon) -> None:
    """Narrate what the cameras propose, until the signal or until every camera has ended."""
    settings = daemon.configuration.captioner
    while not daemon.stop.is_set():
        narrate_batch(daemon, settings.batch, settings.wait)
        for camera in daemon.cameras:
            look_after(daemon, camera)
        daemon.publishing.raise_crash()
        daemon.watch.progress(daemon.status, healthy=daemon.healthy)
        if all(camera.over for camera in daemon.cameras) and not daemon.queue.held:
            return


def narrate_batch(daemon: Daemon, size: int, wait_s: float) -> None:
    """Narrate the next batch, if there is one."""
    batch = daemon.queue.take(size, wait_s)
    if not batch:
        return
    for told in daemon.narrator.tell(batch):
        daemon.told += 1
        logger.info("%s: %s", told.record.camera, told.record.text)
    daemon.publishing.wake()


def look_after(daemon: Daemon, camera: CameraWatch) -> None:
    """Take note of a thread that has ended; a live camera's is started again, after growing pauses."""
    thread = camera.thread
    if camera.over or thread.alive:
        return
    now = monotonic()
    if camera.due is not None:
        if now >= camera.due:
            camera.thread, camera.due = CameraThread(camera.plan, daemon.queue, opened, daemon.store), None
            daemon.queue.add(camera.plan.name)
            camera.thread.start()
        return
    if not thread.live:
        for sentence in thread.report.errors:
            logger.warning("%s: %s", camera.plan.name, sentence)
        if thread.report.corrupt:
            logger.warning("%s: %d damaged frames or packets", camera.plan.name, thread.report.corrupt)
    if thread.error is not None:
        logger.error("%s: %s", camera.plan.name, worded(thread.error))
    if thread.live or (thread.error is not None and camera.plan.url.startswith("rtsp")):
        camera.due, camera.pause_s = now + camera.pause_s, min(2 * camera.pause_s, _PAUSE_S[1])
        return
    camera.over = True
    if thread.error is not None or thread.report.damaged:
        daemon.failed.add(camera.plan.name)


def shutdown(daemon: Daemon) -> None:
    """Stop the cameras, narrate and publish what is held while there is time; the journal keeps the rest."""
    daemon.watch.stopping()
    grace_s = GRACE_S if daemon.stop.is_set() else FINISH_S
    until = monotonic() + grace_s
    for camera in daemon.cameras:
        camera.thread.stop()
    daemon.queue.close()
    while daemon.stop.is_set() and daemon.queue.held and monotonic() < until - grace_s / 2:
        narrate_batch(daemon, 1, 0.0)
    if daemon.queue.held:
        logger.warning("%d pairs were not narrated before the end", daemon.queue.held)
    left_s = max(0.5, until - monotonic() - 0.5)
    if not daemon.publishing.finish(left_s, daemon.stop, min(left_s, GRACE_S - 0.5)):
        logger.warning("not everything is published; the journal keeps it for the next start")
    for camera in daemon.cameras:
        if not camera.thread.join(max(0.1, until - monotonic())):
            logger.warning("%s: the camera's thread did not end in time", camera.plan.name)
    logger.info("ended: %s", daemon.status)


def opened(plan: CameraPlan) -> Source:
    """The plan's source.

    Raises:
        SourceError: nothing can be read there.
    """
    return open_source(plan.url, plan.source, plan.name)


def worded(error: Exception) -> str:
    """An error in one line without secrets; unexpected ones with their kind."""
    text = redacted(error)
    return text if isinstance(error, SourceError) else f"{type(error).__name__}: {text}"


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set the flag while this lasts; a second one ends at once."""

    def note(number: int, _: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
        stop.set()

    kept = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)
