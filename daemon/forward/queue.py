"""The queue of one target: a consumer group of its own on every camera's stream."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from redis import Redis
from redis import exceptions as refusals

from pipeline.publisher import NO_ENTRY, stream_key
from pipeline.publisher.connection import RedisServer
from pipeline.record import Record, RecordError, parse_stream_id, read_record

logger = logging.getLogger(__name__)

DEAD_LETTERS = 10_000
"""Dead letters kept per target, about; older ones remain in the journals."""

_CONSUMER = "forward"
_BATCH = 16
_BLOCK_MS = 500
_TIMEOUT_S = 5.0
_SCAN_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A record that waits for a target, under its id on a stream."""

    stream: str
    id: str
    record: Record


class Queue:
    """Reads one target's group; an entry stays pending, and is read again, until it is settled.

    The group is the queue. The file only holds what Redis cannot be trusted with: how far each stream was
    sent, so that a flushed server (the daemon then publishes again) brings nothing twice.

    Args:
        url: of the server; called again where it refuses the password.
        target: its name.
        path: of the file.
        from_start: where there is no group yet, begin with what the streams still hold.

    Attributes:
        objects: what the target was sent, kinds of objects by camera.
    """

    def __init__(self, url: Callable[[], str], target: str, path: Path, *, from_start: bool = False) -> None:
        self._server = RedisServer(url, _TIMEOUT_S)
        self._target, self._group, self._retry = target, f"narrated-forward:{target}", retry_key(target)
        self._path = path
        state = _read_state(path)
        self._new = not state and not from_start
        self._sent: dict[str, tuple[str, int]] = {}
        if not from_start:
            self._sent = {key: (entry, seq) for key, (entry, seq) in state.get("sent", {}).items()}
        self.objects: dict[str, list[str]] = state.get("objects", {})
        self._written = json.dumps(state)
        self._streams: set[str] = set()
        self._scan_at = 0.0
        self._pending = True

    def read(self) -> list[Entry]:
        """The next records in order, those that were read and not settled first; waits half a second for one.

        Raises:
            PublisherError: the server is away (`ServerAwayError`) or refuses.
        """
        with self._server.asked() as client:
            if monotonic() >= self._scan_at:
                self._join(client)
                self._scan_at = monotonic() + _SCAN_EVERY_S
            place = "0" if self._pending else ">"
            wait_ms = None if self._pending else _BLOCK_MS
            asked: Any = dict.fromkeys(self._streams, place)
            try:
                answer: Any = client.xreadgroup(self._group, _CONSUMER, asked, count=_BATCH, block=wait_ms)
            except refusals.ResponseError as error:
                if not str(error).startswith(("NOGROUP", "UNBLOCKED")):
                    raise
                self._streams.clear()  # the server has lost the groups
                self._pending, self._scan_at = True, 0.0
                return []
            found = [(key, entry, fields) for key, entries in answer or [] for entry, fields in entries]
            self._pending = self._pending and bool(found)
            found.sort(key=lambda each: parse_stream_id(each[1]))
            return list(self._records(client, found))

    def settle(self, entry: Entry) -> None:
        """The entry was sent, or is not for this target: it leaves the queue."""
        if entry.stream != self._retry:
            self._sent[entry.stream] = entry.id, entry.record.seq
        with self._server.asked() as client:
            self._drop(client, entry.stream, entry.id)

    def bury(self, entry: Entry, reason: str) -> None:
        """The entry leaves the queue as a dead letter."""
        fields: Any = {"reason": reason, "id": entry.record.id, "json": entry.record.line()}
        with self._server.asked() as client:
            client.xadd(dead_key(self._target), fields, maxlen=DEAD_LETTERS)
        self.settle(entry)

    def read_again(self) -> None:
        """What was read and not settled comes again."""
        self._pending = True

    def is_newest(self, entry: Entry) -> bool:
        """False where the target was sent something later of the same camera: a retried dead letter."""
        sent, _ = self._sent.get(stream_key(entry.record.camera), (NO_ENTRY, 0))
        return parse_stream_id(entry.record.stream_id) >= parse_stream_id(sent)

    def save(self) -> None:
        """Write the file, if anything has changed."""
        state = json.dumps({"sent": self._sent, "objects": self.objects})
        if state == self._written:
            return
        try:
            part = self._path.with_suffix(".part")
            part.write_text(state)
            part.replace(self._path)
        except OSError as error:
            logger.warning("%s cannot be written: %s; the groups in Redis go on", self._path, error.strerror)
        self._written = state

    def close(self) -> None:
        """Let the connection go."""
        self.save()
        self._server.close()

    def _join(self, client: Redis) -> None:
        """Make the group on streams that lack it: behind what was sent, at the end, or at the start."""
        for key in [self._retry, *client.scan_iter(match=stream_key("*"), count=1000, _type="stream")]:
            if key in self._streams:
                continue
            place = "$" if self._new and key != self._retry else "0"
            if key in self._sent:
                facts: Any = client.xinfo_stream(key)
                sent, _ = self._sent[key]
                # a stream that ends before that was lost, and is published again
                place = sent if parse_stream_id(facts["last-generated-id"]) >= parse_stream_id(sent) else "0"
            try:
                client.xgroup_create(key, self._group, place, mkstream=key == self._retry)
            except refusals.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
            self._streams.add(key)
        if self._new:
            self._new = False  # streams that appear from now on are read whole
            self.save()

    def _records(self, client: Redis, found: list[tuple[str, str, dict[str, str] | None]]) -> Iterator[Entry]:
        """Entries that hold records which were not sent yet; others are dropped."""
        seqs = {key: seq for key, (_, seq) in self._sent.items()}
        for key, entry, fields in found:
            sent, _ = self._sent.get(key, (NO_ENTRY, 0))
            if key != self._retry and parse_stream_id(entry) <= parse_stream_id(sent):
                self._drop(client, key, entry)
                continue
            try:
                record = read_record((fields or {})["json"])
            except (KeyError, RecordError) as error:
                if fields:  # else it was trimmed after it was read
                    logger.warning("%s %s is not a record of narrated (%s); left out", key, entry, error)
                self._drop(client, key, entry)
                continue
            if key != self._retry:
                lost = record.seq - seqs.get(key, record.seq - 1) - 1
                if lost > 0:
                    logger.warning(
                        "target %s: the stream of camera %s has lost %d records before they were sent "
                        "(redis.maxlen is too small for so long a pause); they are in the journal only",
                        *(self._target, record.camera, lost),
                    )
                seqs[key] = record.seq
            yield Entry(key, entry, record)

    def _drop(self, client: Redis, key: str, entry: str) -> None:
        client.xack(key, self._group, entry)
        if key == self._retry:
            client.xdel(key, entry)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that a target was not sent.

    Attributes:
        key: of the stream that holds it.
        entry: its id there; its milliseconds say when it was given up.
    """

    target: str
    key: str
    entry: str
    record: Record
    reason: str


def dead_letters(url: Callable[[], str], target: str | None = None) -> list[DeadLetter]:
    """All of them, or one target's, the oldest first.

    Raises:
        PublisherError: the server is away or refuses.
    """
    server = RedisServer(url, _TIMEOUT_S)
    try:
        with server.asked() as client:
            keys = [dead_key(target)] if target else sorted(client.scan_iter(match=dead_key("*"), count=1000))
            entries = [(key, *entry) for key in keys for entry in client.xrange(key)]
    finally:
        server.close()
    return [
        DeadLetter(key.split(":")[2], key, entry, read_record(fields["json"]), fields["reason"])
        for key, entry, fields in entries
    ]


def retry(url: Callable[[], str], letters: list[DeadLetter]) -> None:
    """Put dead letters back into the queues of their targets.

    Raises:
        PublisherError: the server is away or refuses.
    """
    server = RedisServer(url, _TIMEOUT_S)
    try:
        with server.asked() as client:
            for letter in letters:
                client.xadd(retry_key(letter.target), {"json": letter.record.line()})
                client.xdel(letter.key, letter.entry)
    finally:
        server.close()


def dead_key(target: str) -> str:
    """The stream of a target's dead letters."""
    return f"narrated:forward:{target}:dead"


def retry_key(target: str) -> str:
    """The stream of dead letters that are tried again."""
    return f"narrated:forward:{target}:retry"


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}  # the groups in Redis know as much, but for a flush
    return state if isinstance(state, dict) else {}
