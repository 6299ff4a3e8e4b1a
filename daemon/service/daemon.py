"""`narrated run`: startup, main loop, shutdown; signals only set a flag."""

import gc
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from time import monotonic

from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.config.device import load_on
from daemon.config.plan import CameraPlan, camera_plans
from daemon.config.secrets import SecretError, reveal
from daemon.config.settings import Configuration
from daemon.questions.question import LocalTime
from daemon.rules.rule import Rules, configured_rules
from daemon.service.checks import check_configuration
from daemon.service.health import Health, Pages, Phase
from daemon.service.process import ServiceWatch, Signals, time_line, trim
from daemon.threads.camera_narrator import EvidenceKeeper
from daemon.threads.cameras import Cameras
from daemon.threads.captioning import try_out
from daemon.threads.narrator import Narrator, NarratorThread
from daemon.threads.publication import JournalSigning, Publishing
from daemon.threads.retention import Retention
from daemon.threads.work_queue import WorkQueue
from models.captioner import Captioner
from models.language.catalogue import language
from pipeline.camera_state import CAMERA_MEMORY
from pipeline.evidence import EvidenceStore
from pipeline.journal import DAILY, Journal, JournalError
from pipeline.journal.signatures import SigningKey
from pipeline.loop import Heartbeats
from pipeline.publisher import RedisServer
from pipeline.record import Record
from pipeline.record_format import RecordError
from pipeline.report.words import many

GRACE_S = 4.0  # from the signal to the end: held work is narrated and published as far as possible
PUBLISHING_S = 1.5  # the last part of that; no further pair is narrated then
SIGNING_S = 2.0  # longest wait for the last records to be signed
HELD = 10_000  # narrations per camera that wait in memory for a disk that is full or read-only

FINISH_S = 30.0  # longest wait for the last publications where all footage has ended by itself
RELOADED = frozenset({"cameras", "defaults", "forward", "rules", "serve"})
"""Sections that a reload can change, or that are another process's; all others are opened once."""

_TURN_S = 0.25
_TURNS_TO_TRIM, _TURNS_TO_UNLOAD = 20, 240

logger = logging.getLogger(__name__)


def run(path: Path, configuration: Configuration) -> int:
    """Watch the configured cameras until SIGTERM or SIGINT, or until all of them (files) have ended.

    Returns the exit code: 0, 3 where some footage could not be read, or 1 where narrations were lost.
    Raises `ConfigurationError` or `JournalError`.
    """
    with Signals() as signals, ExitStack() as resources:
        resources.callback(os.umask, os.umask(0o027))  # records and pictures show what people did
        daemon = Daemon(path, configuration, signals, resources)
        daemon.startup()
        try:
            daemon.main_loop()
        finally:
            ended = daemon.shutdown()
        daemon.raise_errors()  # one of the end itself
        code = 1 if daemon.lost else 3 if daemon.cameras.failed else 0
    if not ended or threading.active_count() > 1:  # a reader may still wait for a camera that says nothing
        _exit(code)
    return code


class Daemon:
    """Opens journals, pages and publisher, and owns every thread.

    There are `journals` of removed cameras, too, until everything is journalled and published.
    """

    def __init__(
        self, path: Path, configuration: Configuration, signals: Signals, resources: ExitStack
    ) -> None:
        self.path, self.configuration, self.signals = path, configuration, signals
        self.watch = ServiceWatch()
        resources.callback(self.watch.close)
        self._check(configuration)
        listen = configuration.http.listen
        heartbeats = Heartbeats()
        self.pages = resources.enter_context(Pages(*listen, heartbeats)) if listen else None
        self.journals = _open_journals(configuration.state, configuration.cameras)
        resources.callback(self._close_journals)
        self.captioner = self._load_captioner(configuration)
        plans = self._plans(configuration)
        self.narrations, self.reloads = Counter[str](), Counter(taken=0, refused=0)
        self.lost = set[str]()
        self.queue = WorkQueue([plan.name for plan in plans])
        self.evidence = EvidenceKeeper(EvidenceStore(configuration.state / "evidence"))
        narrator = Narrator(
            self.captioner,
            plans,
            self.journals,
            live=True,
            evidence=self.evidence,
            memory=configuration.state / CAMERA_MEMORY,
            counters=self.queue.counters,
        )
        self._set_rules(narrator, configured_rules(configuration))
        self.narrating = NarratorThread(narrator, self.queue, heartbeats, self._report)
        self.cameras = Cameras(plans, self.queue, heartbeats)
        # The secret is read at every connection: a password may change while this runs.
        url, signing = configuration.redis.url, configuration.signing
        server = RedisServer(partial(reveal, url)) if url else None
        self.publishing = Publishing(self.journals, server, heartbeats)
        key = SigningKey(reveal(signing.key)) if signing.key else None
        authority = reveal(signing.timestamps) if signing.timestamps else None
        self.retention = Retention(
            configuration.retention, self.journals, self.evidence.store, key, heartbeats
        )
        self.signing = JournalSigning(key, self.journals, heartbeats, authority)
        self.health = Health(self, heartbeats)
        threads = (self.publishing, self.retention, self.signing, self.narrating)
        self.loops = [each.loop for each in threads]  # an error of one ends the daemon; a camera starts again

    def startup(self) -> None:
        for loop in self.loops:
            loop.start()
        self.cameras.start()
        if self.pages:
            self.pages.start(self.health)
            self.loops.append(self.pages.loop)
            logger.info("metrics and health at http://%s", self.pages.address)
        logger.info("watching %s", ", ".join(self.cameras.threads))

    def main_loop(self) -> None:
        turns, minute = cycle(range(_TURNS_TO_TRIM)), cycle(range(_TURNS_TO_UNLOAD))
        while not self.signals.stop.wait(_TURN_S):
            if not next(minute):
                self.captioner.unload_if_idle()
            if not next(turns):
                trim()
            self.health.heartbeats.beat("main")
            if self.signals.reload.is_set():
                self.signals.reload.clear()
                self.reload()
            self.cameras.supervise()
            self.queue.note_load()
            self._close_removed_journals()
            self.raise_errors()
            if self.health.phase is Phase.OPENING and self.cameras.was_tried:
                self.health.phase = Phase.WATCHING
                self.watch.ready(self.status)
            self.watch.progress(self.status, healthy=not self.health.heartbeats.overdue())
            if self.cameras.over and not self.queue.held:
                return

    def reload(self) -> None:
        """Take in what the file says now; a broken one changes nothing, and the log says why."""
        self.watch.reloading()
        outcome = "refused"
        try:
            logger.info("configuration reloaded: %s", self._apply_file())
            outcome = "taken"
        except (ConfigurationError, SecretError, JournalError, RecordError) as error:
            for line in str(error).splitlines():
                logger.error("the new configuration was rejected, the old one stays in force: %s", line)  # noqa: TRY400 - no bug
        except Exception:  # whatever a file brings to light, the cameras must be watched on
            logger.exception("the new configuration cannot be read, the old one stays in force: report this")
        self.reloads[outcome] += 1
        self.watch.ready(self.status)

    def shutdown(self) -> bool:
        """Stop; narrate and publish what is held while there is time. True where every thread has ended."""
        self.health.phase = Phase.ENDING
        self.watch.stopping()
        began = self.signals.stopped_at
        until = monotonic() + FINISH_S if began is None else began + GRACE_S
        self.cameras.stop()
        self.retention.loop.end(0.5)  # a deletion that takes longer ends with the process
        self.queue.close()
        narrated = self.narrating.finish(until - PUBLISHING_S)
        if unfinished := [*self.narrating.in_hand, *self.queue.abandon()]:
            text = "%s not analysed before shutdown; the record has the times"
            logger.warning(text, many(len(unfinished), "frame"))
            self.narrating.give_up(unfinished)
        if not self.publishing.finish(max(0.5, until - monotonic() - 0.5)):
            logger.warning("not everything was published; the journal keeps it for the next start")
        self.signing.loop.end(SIGNING_S)
        joined = self.cameras.join(until)
        self.lost = {name for name, journal in self.journals.items() if not journal.flush() and journal.held}
        logger.info("ended: %s", self.status)
        return joined and narrated and not self.publishing.loop.alive

    def raise_errors(self) -> None:
        for loop in self.loops:
            loop.raise_error()

    @property
    def status(self) -> str:
        threads = self.cameras.threads.values()
        running = sum(thread.loop.alive for thread in threads)
        parts = [f"cameras running: {running} of {len(threads)}", f"narrations: {self.narrations.total()}"]
        if dropped := self.queue.dropped.total():
            parts.append(f"pairs dropped: {dropped}")
        if self.queue.is_too_slow:
            parts.append("too slow for these cameras")
        if failing := self.publishing.failing:
            parts.append(f"not published: {self.publishing.away or ', '.join(sorted(failing))}")
        if unwritten := self.health.unwritten():
            parts.append("not written: " + "; ".join(f"{name} ({why})" for name, why in unwritten.items()))
        if stuck := self.health.heartbeats.overdue():
            parts.append("hanging: " + ", ".join(sorted(stuck)))
        return ", ".join(parts)

    def _check(self, configuration: Configuration) -> None:
        for warning in check_configuration(configuration, self.path):
            logger.warning("%s", warning)

    def _plans(self, configuration: Configuration) -> list[CameraPlan]:
        plans = camera_plans(configuration)
        return [plan.for_captioner(self.captioner) for plan in plans]

    def _apply_file(self) -> str:
        """Put the file in force once all of it is checked; says in words what changed."""
        spoken = language.catalogue
        old, new = self.configuration, load_configuration(self.path)
        language.use(spoken)
        self._check(new)
        fixed = [name for name in Configuration.model_fields if name not in RELOADED]
        waiting = [name for name in fixed if getattr(old, name) != getattr(new, name)]
        new = new.model_copy(update={name: getattr(old, name) for name in waiting})
        plans = self._plans(new)
        if waiting:
            logger.warning("%s: the change takes effect at the next start only", ", ".join(waiting))
        names = [plan.name for plan in plans if plan.name not in self.journals]
        self.journals |= _open_journals(old.state, names)
        self.configuration = new
        changes, rules = self.cameras.apply(plans), configured_rules(self.configuration)
        for name in self.cameras.threads:
            self.queue.put_change(name, partial(self._set_rules, rules={name: rules.get(name, ())}))
        changed = len({rule.name for rule in {*old.rules} ^ {*self.configuration.rules}})
        rewritten = f"{many(changed, 'rule')} changed" if changed else ""
        return ", ".join(filter(None, (changes, rewritten))) or "nothing has changed"

    def _load_captioner(self, configuration: Configuration) -> Captioner:
        settings = configuration.captioner
        captioner = load_on(settings.device, settings.checkpoint)
        try_out(captioner)
        # Keep the many objects of libraries out of all later collections: a full one waits until
        # a quarter of all objects is new, and rings would pile up for hours.
        gc.collect()
        gc.freeze()
        gc.collect()  # from this the collector takes how many objects there are
        if any(camera.narrate.workers == "redis" for camera in configuration.cameras.values()):
            from daemon.workers import use_workers  # noqa: PLC0415

            use_workers(captioner, lambda: reveal(configuration.redis.url or ""))
        return captioner

    def _set_rules(self, narrator: Narrator, rules: Rules) -> None:
        for name, each in rules.items():
            narrator.set_rules(name, each, LocalTime.named(self.configuration.timezone))

    def _report(self, record: Record) -> None:
        self.narrations[record.camera] += 1
        self.health.observe(record)
        self.publishing.loop.wake()
        if record.held != "lost":
            logger.info("%s", time_line(record.after.time, record.text, record.camera))

    def _close_journals(self) -> None:
        for journal in self.journals.values():
            journal.close()

    def _close_removed_journals(self) -> None:
        """Once nothing more comes into them and all of it is published."""
        for name in self.journals.keys() - self.cameras.threads.keys():
            journal = self.journals[name]
            if self.queue.knows(name):
                continue  # before its end is looked at: its work, and its own coming, may still wait
            if journal.published.seq >= journal.end.seq and not journal.held:
                self.journals.pop(name).close()


def _open_journals(state: Path, cameras: Iterable[str]) -> dict[str, Journal]:
    """One for each camera; all of them, or none stays open."""
    with ExitStack() as opened:
        journals = {
            name: opened.enter_context(Journal(state / "journal", name, limits=DAILY, hold=HELD))
            for name in cameras
        }
        opened.pop_all()
    return journals


def _exit(code: int) -> None:
    """End although a thread still runs: the interpreter's own end could crash it in a decoder or a kernel."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
