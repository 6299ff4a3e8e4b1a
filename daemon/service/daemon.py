"""`narrated run`: startup, main loop, shutdown; signals only set a flag."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from daemon.config.checks import check_configuration
from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.config.plan import CameraPlan, camera_plans
from daemon.config.secrets import SecretError, Secrets
from daemon.config.settings import Configuration
from daemon.service.formatting import time_line
from daemon.service.health import Health, Phase
from daemon.service.metrics import Metrics
from daemon.service.pages import Pages
from daemon.service.signals import Signals
from daemon.service.state import Daemon
from daemon.service.systemd import ServiceWatch
from daemon.threads.cameras import Cameras
from daemon.threads.evidence import EvidenceKeeper
from daemon.threads.narrator_thread import NarratorThread
from daemon.threads.publication import Publishing
from daemon.threads.retention import Retention
from daemon.threads.signatures import JournalSigning
from daemon.threads.work_queue import WorkQueue
from models import read_label
from pipeline.camera_memory import CAMERA_MEMORY
from pipeline.evidence import EvidenceStore
from pipeline.journal import DAILY, Journal, JournalError
from pipeline.journal.signatures import SigningKey
from pipeline.journal.timestamps import TimestampAuthority
from pipeline.publisher import Publisher
from pipeline.record import RecordError

if TYPE_CHECKING:  # it loads ONNX Runtime
    from daemon.threads.narrator import JournalledPair, Narrator

GRACE_S = 4.0
"""Time from the signal to the end, in which held work is narrated and published as far as possible."""

PUBLISHING_S = 1.5
"""The last part of that; no further pair is narrated then."""


HELD = 10_000
"""Narrations per camera that wait in memory for a disk that is full or read-only."""

FINISH_S = 30.0
"""Longest wait for the last narrations to be published where all footage has ended by itself."""

RELOADED = frozenset({"cameras", "defaults", "forward", "serve"})
"""Sections that a reload can change, or that are another process's; all others are opened once."""

_TURN_S = 0.25

logger = logging.getLogger(__name__)


def run(path: Path, configuration: Configuration, secrets: Secrets) -> int:
    """Watch the configured cameras until SIGTERM or SIGINT, or until all of them (files) have ended.

    The file at `path` is read again at SIGHUP.

    Returns:
        Exit code: 0, or 3 where some footage could not be read.

    Raises:
        ConfigurationError: it cannot be put to use.
        JournalError: a journal cannot be opened.
    """
    with Signals() as signals, ExitStack() as resources:
        resources.callback(os.umask, os.umask(0o027))  # records and pictures show what people did
        daemon = startup(path, configuration, secrets, resources, signals)
        try:
            main_loop(daemon)
        finally:
            ended = shutdown(daemon)
        for loop in daemon.loops:
            loop.raise_error()  # one of the end itself
        code = 3 if daemon.cameras.failed else 0
    if not ended or threading.active_count() > 1:  # a reader may still wait for a camera that says nothing
        _leave(code)
    return code


def startup(
    path: Path, configuration: Configuration, secrets: Secrets, resources: ExitStack, signals: Signals
) -> Daemon:
    """Open journals and publisher, start the threads; `resources` ends what it opens."""
    watch, health, metrics = ServiceWatch(), Health(), Metrics()
    resources.callback(watch.close)
    for warning in check_configuration(configuration, secrets, path):
        logger.warning("%s", warning)
    pages = None
    if configuration.http.listen:
        pages = resources.enter_context(Pages(*configuration.http.listen, health, metrics.registry))
        logger.info("metrics and health at http://%s", pages.address)
    label = read_label(configuration.captioner.checkpoint)
    plans = [plan.for_captioner(label) for plan in camera_plans(configuration, secrets)]
    journals = health.journals = _open_journals(configuration.state, [plan.name for plan in plans])
    resources.callback(_close_journals, journals)
    # The secret is read at every connection: a password may change while this runs.
    url = configuration.redis.url
    publisher = Publisher(partial(secrets.reveal, url)) if url else None
    queue = WorkQueue([plan.name for plan in plans])
    keeper = EvidenceKeeper(EvidenceStore(configuration.state / "evidence"))
    beats, placeholder = health.heartbeats, configuration.signing.key
    key = SigningKey(secrets.reveal(placeholder)) if placeholder else None
    narrator = partial(_narrator, configuration, plans, journals, queue, keeper)
    daemon = Daemon(
        path=path,
        configuration=configuration,
        secrets=secrets,
        captioner=label,
        journals=journals,
        queue=queue,
        cameras=Cameras(
            plans,
            queue,
            lambda plan, go: _join(daemon, plan, go),
            lambda name: daemon.narrating.schedule(lambda narrator: narrator.remove(name)),
        ),
        narrating=NarratorThread(narrator, queue, beats, lambda pair: _note(daemon, pair)),
        publishing=Publishing(journals, publisher, beats),
        evidence=keeper,
        retention=Retention(configuration.retention, journals, keeper.store, key, beats),
        signing=JournalSigning(key, journals, beats, _authority(configuration, secrets)),
        signals=signals,
        watch=watch,
        health=health,
        observed=metrics.observe,
        pages=pages,
    )
    health.cameras, health.publishing = daemon.cameras, daemon.publishing
    signals.watching()
    for thread in (
        daemon.publishing,
        daemon.retention,
        daemon.signing,
        daemon.narrating.loop,
        daemon.cameras,
    ):
        thread.start()
    metrics.watch(daemon)
    health.phase = Phase.OPENING
    logger.info("watching %s", ", ".join(daemon.cameras.watched))
    return daemon


def main_loop(daemon: Daemon) -> None:
    """Supervise all threads, until the signal or until every camera has ended."""
    while not daemon.signals.stop.wait(_TURN_S):
        daemon.health.heartbeats.beat("main")
        if daemon.signals.reload.is_set():
            daemon.signals.reload.clear()
            reload(daemon)
        daemon.cameras.supervise()
        waited_s = daemon.queue.waited_s if daemon.narrating.loaded else 0.0
        daemon.overload.update(waited_s, len(daemon.cameras.watched), daemon.cameras.skews)
        _release(daemon)
        for loop in daemon.loops:
            loop.raise_error()
        if daemon.health.phase is Phase.OPENING and daemon.cameras.tried and daemon.narrating.loaded:
            daemon.health.phase = Phase.WATCHING
            daemon.watch.ready(daemon.status)
        daemon.watch.progress(daemon.status, healthy=not daemon.health.stuck())
        if daemon.cameras.over and not daemon.queue.held:
            return


def reload(daemon: Daemon) -> None:
    """Take in what the configuration file says now; a broken one changes nothing, and the log says why."""
    daemon.watch.reloading()
    try:
        changes = _apply_file(daemon)
    except (ConfigurationError, SecretError, JournalError, RecordError) as error:
        for line in str(error).splitlines():
            logger.error("the new configuration was rejected, the old one stays in force: %s", line)  # noqa: TRY400 - no bug
        daemon.reloads["refused"] += 1
    else:
        logger.info("the configuration was read again: %s", changes)
        daemon.reloads["taken"] += 1
    daemon.watch.ready(daemon.status)


def _apply_file(daemon: Daemon) -> str:
    """Put the file in force once all of it and its secrets are checked; says in words what changed."""
    old, new = daemon.configuration, load_configuration(daemon.path)
    plans = [plan.for_captioner(daemon.captioner) for plan in camera_plans(new, daemon.secrets)]
    for warning in check_configuration(new, daemon.secrets, daemon.path):
        logger.warning("%s", warning)
    fixed = [name for name in Configuration.model_fields if name not in RELOADED]
    if waiting := [name for name in fixed if getattr(old, name) != getattr(new, name)]:
        logger.warning("%s: the change takes effect at the next start only", ", ".join(waiting))
    names = [plan.name for plan in plans if plan.name not in daemon.journals]
    daemon.journals |= _open_journals(old.state, names)
    daemon.configuration = new.model_copy(update={name: getattr(old, name) for name in waiting})
    return daemon.cameras.apply(plans)


def shutdown(daemon: Daemon) -> bool:
    """Stop the cameras, narrate and publish what is held while there is time; the journal keeps the rest.

    Returns:
        True where every thread has ended.
    """
    daemon.health.phase = Phase.ENDING
    daemon.watch.stopping()
    began = daemon.signals.stopped_at
    until = monotonic() + FINISH_S if began is None else began + GRACE_S
    daemon.cameras.stop()
    daemon.retention.stop()
    daemon.queue.close()
    narrated = daemon.narrating.finish(until - PUBLISHING_S)
    if unfinished := [*daemon.narrating.in_hand, *daemon.queue.abandon()]:
        logger.warning(
            "frames and pairs not looked at before the end: %d; %s",
            len(unfinished),
            "the record says from when to when" if daemon.narrating.loaded else "narrated was still starting",
        )
        daemon.narrating.give_up(unfinished)
    if not daemon.publishing.finish(max(0.5, until - monotonic() - 0.5)):
        logger.warning("not everything is published; the journal keeps it for the next start")
    daemon.signing.finish()
    joined = daemon.cameras.join(until)
    logger.info("ended: %s", daemon.status)
    return joined and narrated and not daemon.publishing.loop.alive


def _authority(configuration: Configuration, secrets: Secrets) -> TimestampAuthority | None:
    """The server of time stamps."""
    url = configuration.signing.timestamps
    return TimestampAuthority(secrets.reveal(url)) if url else None


def _note(daemon: Daemon, journalled: JournalledPair) -> None:
    """A narration is journalled; called in the narrator's thread."""
    daemon.narrations[journalled.record.camera] += 1
    daemon.observed(journalled.record)
    daemon.publishing.wake()
    logger.info("%s", time_line(journalled.record))


def _narrator(
    configuration: Configuration,
    plans: Sequence[CameraPlan],
    journals: Mapping[str, Journal],
    queue: WorkQueue,
    keeper: EvidenceKeeper,
) -> Narrator:
    """Load the captioner and try it."""
    from daemon.config.device import load_on  # noqa: PLC0415 - loads ONNX Runtime
    from daemon.threads.narrator import Narrator, warm_up  # noqa: PLC0415

    settings = configuration.captioner
    captioner = load_on(settings.device, settings.checkpoint)
    warm_up(captioner)
    # Keep the many objects that numba brings out of all later collections: a full one waits until
    # a quarter of all objects is new, and rings would pile up for hours.
    gc.collect()
    gc.freeze()
    gc.collect()  # from this the collector takes how many objects there are
    if any(plan.workers for plan in plans):
        from daemon.workers.remote import use_workers  # noqa: PLC0415

        use_workers(captioner, lambda: Secrets().reveal(configuration.redis.url or ""))
    return Narrator(
        captioner,
        plans,
        journals,
        live=True,
        evidence=keeper,
        memory=configuration.state / CAMERA_MEMORY,
        counters=queue.counters,
    )


def _join(daemon: Daemon, plan: CameraPlan, go: Callable[[], None]) -> None:
    """Have the narrator learn a plan between two batches, and only then start the camera's thread."""

    def learn(narrator: Narrator) -> None:
        narrator.add(plan)
        go()

    daemon.narrating.schedule(learn)


def _open_journals(state: Path, cameras: Iterable[str]) -> dict[str, Journal]:
    """One for each camera; all of them, or none stays open."""
    with ExitStack() as opened:
        journals = {
            name: opened.enter_context(Journal(state / "journal", name, limits=DAILY, hold=HELD))
            for name in cameras
        }
        opened.pop_all()
    return journals


def _close_journals(journals: Mapping[str, Journal]) -> None:
    for journal in journals.values():
        journal.close()


def _release(daemon: Daemon) -> None:
    """Close the journals of removed cameras, once nothing more comes into them and all of it is published."""
    for name in daemon.journals.keys() - daemon.cameras.watched.keys():
        journal = daemon.journals[name]
        if daemon.narrating.knows(name):
            continue  # before its end is looked at: the last batch may hold pairs of it
        if journal.published.seq >= journal.end.seq and not journal.held:
            daemon.journals.pop(name).close()


def _leave(code: int) -> None:
    """End although a thread still runs: the interpreter's own end could crash it in a decoder or a kernel."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
