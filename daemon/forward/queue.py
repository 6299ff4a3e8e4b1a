"""The queue of one target: a consumer group of its own on every camera's stream."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

from redis import Redis
from redis import exceptions as refusals

from pipeline.disk import replace_file
from pipeline.publisher.connection import RedisServer
from pipeline.publisher.publisher import NO_ENTRY, stream_key
from pipeline.record import Record, read_record
from pipeline.record_format import RecordError, parse_stream_id
from pipeline.report.words import many

logger = logging.getLogger(__name__)

DEAD_LETTERS = 10_000  # dead letters kept per target; older ones remain in the journals only

_CONSUMER = "forward"
_BATCH = 16
_BLOCK_MS = 500
_SCAN_EVERY_S = 2.0


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
        self._pending = True

    def read(self) -> list[Entry]:
        """The next records, first those not settled; waits half a second for one; raises `PublisherError`."""
        with self.server.client() as client:
            if monotonic() >= self._scan_at:
                self._join(client)
            streams: Any = dict.fromkeys(self._streams, "0" if self._pending else ">")
            wait_ms = None if self._pending else _BLOCK_MS
            try:
                answer: Any = client.xreadgroup(self._group, _CONSUMER, streams, count=_BATCH, block=wait_ms)
            except refusals.ResponseError as error:
                if not str(error).startswith(("NOGROUP", "UNBLOCKED")):
                    raise
                self._streams.clear()  # the server has lost the groups
                self._pending, self._scan_at = True, 0.0
                return []
            rows = [(key, entry, fields) for key, entries in answer or [] for entry, fields in entries]
            self._pending = self._pending and bool(rows)
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

    def read_again(self) -> None:
        """Let the next read return what was read and not settled."""
        self._pending = True

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
