"""`narrated forward`: a queue and a thread for each target, in a process of its own beside the daemon."""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from redis import Redis
from redis import exceptions as refusals

from daemon.config.configuration import ConfigurationError
from daemon.config.secrets import SecretError, absent_secrets, hide_secrets, reveal
from daemon.config.settings import Configuration, TargetSettings
from daemon.config.units import unit_folder
from daemon.digest.digest import write_digest
from daemon.forward.target import (
    TIMEOUT_S,
    AwayError,
    Filter,
    Message,
    RefusedError,
    Target,
    find_picture,
    target_class,
)
from daemon.questions.question import LocalTime, SearchError, Span
from daemon.search.search import Search
from daemon.service.process import running_as_service
from pipeline.disk import locking, replace_file
from pipeline.evidence import EvidenceStore
from pipeline.loop import LIMIT_S, Backoff, Heartbeats, Loop
from pipeline.publisher import NO_ENTRY, RedisServer, ServerAwayError, stream_key
from pipeline.record import Record, read_record
from pipeline.record_format import RecordError, parse_stream_id
from pipeline.redaction import redact
from pipeline.report.words import many

GRACE_S = 10.0  # from the signal to the end, for the message that is being sent
DEAD_LETTERS = 10_000  # dead letters kept per target; older ones remain in the journals only
ATTEMPTS = 5  # of a message that the target refuses; then it is a dead letter
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 60.0
DIGEST_RETRY_S = 300.0  # after which one that could not be written is tried again

_CONSUMER = "forward"
_BATCH = 16
_BLOCK_MS = 500
_SCAN_EVERY_S = 2.0
_TURN_S = 0.1
_LONGEST_REASON = 300
_DIGEST_LIMIT_S = 600.0  # the first one may have to index all journals
_OWN = frozenset({"daemon", "pipeline", "models"})

present = partial(datetime.now, UTC)  # tests replace it
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record that waits for a target, under its id on a stream."""

    stream: str
    id: str
    record: Record


class Queue:
    """Reads the group of a target; an entry stays pending until it is settled.

    The group is the queue; where there is none yet it begins at the end, or `from_start`. The file holds what
    a flushed Redis forgets: how far each stream was sent, so that what the daemon then publishes again is not
    sent twice; and the hour of the last digest. `url` is called again where it refuses the password.
    """

    def __init__(self, url: Callable[[], str], target: str, path: Path, *, from_start: bool = False) -> None:
        self.target, self.server, self.path = target, RedisServer(url), path
        self._group, self._retry = f"narrated-forward:{target}", dead_letter_key(target, "retry")
        try:
            state = dict(json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            state = {}
        self._sent: dict[str, tuple[str, int]] = {} if from_start else state.get("sent", {})
        self.digest = datetime.fromisoformat(state["digest"]) if state.get("digest") else None
        self._written = b""
        self._place = "0" if state or from_start else "$"  # where streams of the first look begin
        self._streams: set[str] = set()
        self._scan_at = 0.0
        self.pending = True  # the next read returns what was read and not settled

    def read(self) -> list[Entry]:
        """The next records, first those not settled; waits half a second for one; raises `PublisherError`."""
        with self.server.client() as client:
            if monotonic() >= self._scan_at:
                self._join(client)
            streams: Any = dict.fromkeys(self._streams, "0" if self.pending else ">")
            wait_ms = None if self.pending else _BLOCK_MS
            try:
                answer: Any = client.xreadgroup(self._group, _CONSUMER, streams, count=_BATCH, block=wait_ms)
            except refusals.ResponseError as error:
                if not str(error).startswith(("NOGROUP", "UNBLOCKED")):
                    raise
                self._streams.clear()  # the server has lost the groups
                self.pending, self._scan_at = True, 0.0
                return []
            rows = [(key, entry, fields) for key, entries in answer or [] for entry, fields in entries]
            self.pending = self.pending and bool(rows)
            rows.sort(key=lambda each: parse_stream_id(each[1]))
            return list(self._entries(client, rows))

    def settle(self, entry: Entry) -> None:
        if entry.stream != self._retry:
            self._sent[entry.stream] = entry.id, entry.record.seq
        with self.server.client() as client:
            self._drop(client, entry.stream, entry.id)

    def move_to_dead_letters(self, entry: Entry, reason: str) -> None:
        fields: Any = {"id": entry.record.id, "reason": reason, "json": entry.record.line()}
        with self.server.client() as client:
            client.xadd(dead_letter_key(self.target), fields, maxlen=DEAD_LETTERS, approximate=False)

    def save(self) -> None:
        """Write the file where anything has changed."""
        state = {"sent": self._sent, "digest": self.digest and self.digest.isoformat()}
        if (content := json.dumps(state).encode()) != self._written:
            self._written = content
            try:
                replace_file(self.path, content, durable=False)
            except OSError as error:
                logger.warning("%s: %s; continuing with the groups in Redis", self.path, error.strerror)

    def _join(self, client: Redis) -> None:
        """Make the group on streams that lack it: behind what was sent, at the end, or at the start."""
        keys = client.scan_iter(match=stream_key("*"), count=1000, _type="stream")
        for key in {*keys, self._retry} - self._streams:
            place = "0" if key == self._retry else self._place
            if key in self._sent:
                place, facts = self._sent[key][0], client.xinfo_stream(key)
                if parse_stream_id(facts["last-generated-id"]) < parse_stream_id(place):
                    place = "0"  # the server has lost the stream, and it is published again
            try:
                client.xgroup_create(key, self._group, place, mkstream=True)
            except refusals.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
            self._streams.add(key)
        self._place, self._scan_at = "0", monotonic() + _SCAN_EVERY_S

    def _entries(self, client: Redis, rows: list[tuple[str, str, dict[str, str] | None]]) -> Iterator[Entry]:
        """Entries that hold records which were not sent yet; others are dropped."""
        seqs = {key: seq for key, (_, seq) in self._sent.items()}
        for key, entry, fields in rows:
            sent, _ = self._sent.get(key, (NO_ENTRY, 0))
            record = None
            # Without fields it was trimmed since it was read.
            if fields and parse_stream_id(entry) > parse_stream_id(sent):
                try:
                    record = read_record(fields["json"])
                except (KeyError, RecordError) as error:
                    logger.warning("%s %s is not a record of narrated (%s); left out", key, entry, error)
            if record is None:
                self._drop(client, key, entry)
                continue
            if (lost := record.seq - seqs.get(key, record.seq) - 1) > 0 and key != self._retry:
                logger.warning(
                    "target %s: the stream of camera %s has lost %s before they were sent "
                    "(it holds 100,000); they are only in the journal",
                    *(self.target, record.camera, many(lost, "record")),
                )
            seqs[key] = record.seq
            yield Entry(key, entry, record)

    def _drop(self, client: Redis, key: str, entry: str) -> None:
        client.xack(key, self._group, entry)
        if key == self._retry:
            client.xdel(key, entry)


class Sender:
    """Sends one target its records, each until it is accepted or becomes a dead letter; `loop` does so."""

    def __init__(
        self, settings: TargetSettings, queue: Queue, configuration: Configuration, heartbeats: Heartbeats
    ) -> None:
        self._settings, self._queue = settings, queue
        self._store = EvidenceStore(configuration.state / "evidence")
        self._local, self._journals = LocalTime.named(configuration.timezone), configuration.state / "journal"
        self._filter = Filter(settings.filter, self._local.zone)
        self._cameras = [name for name in configuration.cameras if self._filter.has_camera(name)]
        self._target: Target | None = None
        self._refusals = 0  # of the entry at the head of the queue
        self._clocks = [time.fromisoformat(hour) for hour in getattr(settings, "digest", ())]
        self._digest_due = 0.0  # monotonic seconds
        if self._clocks:  # the first one is of the next hour
            queue.digest = queue.digest or self.last_hour(present())
        name, within_s = f"target {queue.target}", LIMIT_S + 3 * TIMEOUT_S
        self.backoff = Backoff(name, FIRST_BACKOFF_S, LONGEST_BACKOFF_S)
        self.loop = Loop(name, self._turn, heartbeats=heartbeats, within_s=within_s, last=self._close)

    def _turn(self) -> None:
        try:
            entries = self._queue.read()
            if self._target is None:  # even where nothing waits: a broker shows that we are online
                kind = target_class(self._settings)
                self._target = kind(self._settings, self._queue.target, self._cameras)
            if self._clocks:
                self._send_digest(self._target)
            for entry in entries:
                if self.loop.stopped.is_set():
                    return
                self._send(self._target, entry)
                self.loop.beat()
            self._recover()
        except (AwayError, RefusedError, SecretError, ServerAwayError) as error:
            self._back_off(error)
        finally:
            self._queue.save()

    def _send(self, target: Target, entry: Entry) -> None:
        record = entry.record
        sentences = self._filter.select(record)
        if sentences is not None:
            wanted = "none" if self._refusals else self._settings.picture  # it may be too large
            picture = find_picture(record, self._store, wanted)
            try:
                target.send(Message(record, sentences, picture))
            except RefusedError as error:
                self._refusals += 1
                if self._refusals < ATTEMPTS:
                    raise
                reason = _reason(error)
                self._queue.move_to_dead_letters(entry, reason)
                logger.warning(
                    "target %s: record %s is a dead letter (see narrated forward --dead): %s",
                    *(self._queue.target, record.id, reason),
                )
            self._recover()
        self._queue.settle(entry)

    def last_hour(self, moment: datetime) -> datetime:
        """The last hour of a digest; each is of the time since the hour before."""
        today = self._local.of(moment).date()
        days = (today - timedelta(days=n) for n in range(3))
        hours = (self._local.aware(datetime.combine(day, clock)) for day in days for clock in self._clocks)
        return max(hour for hour in hours if hour <= moment)

    def _send_digest(self, target: Target) -> None:
        """Send the newest digest that was not sent; one that the target refuses is given up."""
        now = present()
        hour, sent = self.last_hour(now), self._queue.digest
        if sent and sent > now:  # the clock was set back
            self._queue.digest = hour
        if not sent or hour <= sent or monotonic() < self._digest_due:
            return
        self.loop.beat(_DIGEST_LIMIT_S)
        try:
            with Search(self._journals, self._local) as search, search.mending():
                search.update()
                digest = write_digest(search, Span(self.last_hour(hour - timedelta.resolution), hour), hour)
            target.send_digest(digest)
        except (SearchError, sqlite3.Error) as error:  # there is no room for the index, say
            logger.warning("no digest of %s yet: %s", f"{self._local.of(hour):%Y-%m-%d %H:%M}", error)
            self._digest_due = monotonic() + DIGEST_RETRY_S
            return
        except RefusedError as error:
            logger.warning("target %s refused the digest: %s", self._queue.target, _reason(error))
        self._queue.digest = hour

    def _back_off(self, error: Exception) -> None:
        self._queue.pending = True
        if not isinstance(error, ServerAwayError):
            self._close_target()  # it is opened again, with what may be another password
        wait_s = self.backoff.next_s(_reason(error))
        self.loop.beat(wait_s + LIMIT_S)
        self.loop.stopped.wait(wait_s)

    def _recover(self) -> None:
        self.backoff.reset()
        self._refusals = 0

    def _close_target(self) -> None:
        if self._target is not None:
            self._target.close()
        self._target = None

    def _close(self) -> None:
        self._close_target()
        self._queue.server.close()


def _reason(error: Exception) -> str:
    return redact(hide_secrets(str(error)))[:_LONGEST_REASON]


class ForwardError(Exception):
    """Forwarding cannot start; the message says what to do."""


def silence_libraries() -> None:
    """Keep libraries out of the log: they log addresses, which are secrets here."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: record.name.partition(".")[0] in _OWN)


def check(configuration: Configuration, name: str = "configuration") -> None:
    """Check that the section `forward` can be used: ConfigurationError, without secrets, where it cannot.

    Raises `ModuleNotFoundError`.
    """
    settings, url = configuration.forward, configuration.redis.url or ""
    problems = [*absent_secrets([("redis.url", url), *settings.addresses()])]
    if not list(settings.targets()):
        problems.append("forward: names no target; docs/forward.md shows some")
    if not url:
        problems.append("redis.url: forwarding reads the streams of a server: redis://, rediss:// or unix://")
    for target, each in () if problems else settings.targets():
        if fault := target_class(each).check(each):
            problems.append(f"forward target {target}: {fault}")
    if problems:
        raise ConfigurationError([f"{name}: {problem}" for problem in problems])


def run(configuration: Configuration, *, from_start: bool = False) -> None:
    """Forward until SIGTERM or SIGINT, or until a thread fails; raises `ForwardError` or `PublisherError`."""
    heartbeats = Heartbeats()
    with (
        running_as_service("starting") as (stop, watch),
        forwarding(configuration, heartbeats, from_start=from_start) as senders,
    ):
        logger.info("forwarding to %s", ", ".join(senders))
        while not stop.wait(_TURN_S) and all(sender.loop.alive for sender in senders.values()):
            failing = [f"{n}: {reason}" for n, sender in senders.items() if (reason := sender.backoff.reason)]
            status = "; ".join([", ".join(senders), *failing])
            watch.progress(status, healthy=not heartbeats.overdue())


@contextmanager
def forwarding(
    configuration: Configuration, heartbeats: Heartbeats, *, from_start: bool = False
) -> Iterator[dict[str, Sender]]:
    """Running senders, one thread a target; records that are not sent at the end wait in Redis."""
    folder = unit_folder(configuration.state / "forward")
    url, senders = partial(reveal, configuration.redis.url or ""), dict[str, Sender]()
    with ExitStack() as lock:
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            lock.enter_context(locking(folder, wait=False))
        except BlockingIOError:
            raise ForwardError(f"another narrated forward works in {folder}: stop that one first") from None
        except OSError as error:
            raise ForwardError(f"{folder}: {error.strerror or error}; may this user write there?") from None
        for name, target in configuration.forward.targets():
            queue = Queue(url, name, folder / f"{name}.json", from_start=from_start)
            senders[name] = Sender(target, queue, configuration, heartbeats)
        for sender in senders.values():
            sender.loop.start()
        try:
            yield senders
        finally:
            until = monotonic() + GRACE_S
            for sender in senders.values():
                sender.loop.stop()
            for name, sender in senders.items():
                if not sender.loop.join(until - monotonic()):
                    logger.warning(
                        "target %s is taking too long to stop; its message will be sent again", name
                    )
        for sender in senders.values():
            sender.loop.raise_error()


def read_dead_letters(client: Redis) -> list[tuple[str, str, dict[str, str]]]:
    """Target, entry (its milliseconds say when it was given up) and fields id, reason, json of each."""
    xrange: Any = client.xrange
    keys = sorted(client.scan_iter(match=dead_letter_key("*"), count=1000))
    return [(key.split(":")[2], entry, fields) for key in keys for entry, fields in xrange(key)]


def retry_dead_letters(client: Redis) -> int:
    """Queue dead letters again; how many."""
    letters = read_dead_letters(client)
    for name, entry, fields in letters:
        client.xadd(dead_letter_key(name, "retry"), {"json": fields["json"]})
        client.xdel(dead_letter_key(name), entry)
    return len(letters)


def dead_letter_key(target: str, kind: str = "dead") -> str:
    """The stream of a target's dead letters; of kind ``retry`` of those that are tried again."""
    return f"narrated:forward:{target}:{kind}"
