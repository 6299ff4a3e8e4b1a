"""From the journal to Redis: one stream per camera, and one channel for those who only listen."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

import redis
from redis.client import Pipeline

from pipeline.journal import Journal
from pipeline.journal.segments import line_end, read_record
from pipeline.loop import Backoff
from pipeline.publisher.connection import TIMEOUT_S, PublisherError, RedisServer, ServerAwayError
from pipeline.record_format import RecordError, format_stream_id, parse_stream_id

if TYPE_CHECKING:  # the model takes a tenth of a second to load
    from pipeline.record import Record

_log = logging.getLogger(__name__)

CHANNEL = "narrated:changes"  # the Pub/Sub channel of all cameras
NO_ENTRY = "0-0"  # the last id of a stream that does not exist


class StreamConflictError(PublisherError):
    """Another writer uses the camera's stream: it holds the lease, or has added entries that are newer."""


class StreamMovedError(PublisherError):
    """The stream does not end where the journal thinks it does, but with `last_id`."""

    def __init__(self, last_id: str) -> None:
        super().__init__(f"the stream ends at {last_id}")
        self.last_id = last_id


class Publisher:
    """Publishes with explicit stream ids, in transactions that only one writer can win; for one thread.

    Stream and lease are watched from before they are read until the entries are added, so that nothing is
    added to a stream that another writer, a flush or our own earlier attempt (frozen with the server, and
    carried out later) has changed in between. The server takes all lines of a transaction, or none.

    Every method raises `ServerAwayError` where the server cannot be reached or takes no writes now, and
    `PublisherError` where it refuses for good; the constructor does where `url` is malformed, see
    `RedisServer`. A stream keeps about `maxlen` entries; a silent writer keeps it to itself for `lease_s`.
    """

    def __init__(
        self,
        url: str | Callable[[], str],
        *,
        maxlen: int = 100_000,
        timeout_s: float = TIMEOUT_S,
        lease_s: float = 30.0,
    ) -> None:
        self.maxlen, self._lease_ms = maxlen, int(lease_s * 1000)
        self._server, self._host = RedisServer(url, timeout_s), socket.gethostname()

    def publish(self, camera: str, token: str, lines: Sequence[bytes], behind: str, quiet: int = 0) -> None:
        """Add records to the camera's stream in one transaction, and take or renew the lease by `token`.

        No `lines` renew the lease only; the channel has had `quiet` of the first ones already.
        StreamConflictError where another writer holds the lease, StreamMovedError where the stream does not
        end with the id `behind`: also where an answer was lost, and the lines are published all the same.
        """
        key, lease = stream_key(camera), lease_key(camera)
        with self._server.client() as client, client.pipeline() as pipeline:
            holder, last_id = _watch(pipeline, key, lease)
            holding, _, host = (holder or token).partition("@")
            if holding != token:
                name = f"{key} on {self._server.name} is written by another daemon ({host or 'unknown'})"
                advice = "stop that one, or use another camera name"
                raise StreamConflictError(f"{name}; {advice}. Waiting for its lease {lease} to run out")
            if last_id != behind:
                raise StreamMovedError(last_id)
            pipeline.multi()
            pipeline.set(lease, f"{token}@{self._host}", px=self._lease_ms)
            for index, line in enumerate(lines):
                stream_id, fields, is_held = _entry(line)
                pipeline.xadd(key, fields, id=stream_id, maxlen=self.maxlen)
                if index >= quiet and not is_held:
                    pipeline.publish(CHANNEL, line)
            pipeline.execute()

    def entry(self, camera: str, stream_id: str) -> Record | None:
        with self._server.client() as client:
            entries: Any = client.xrange(stream_key(camera), stream_id, stream_id)
        try:
            return read_record(entries[0][1]["json"]) if entries else None
        except (KeyError, RecordError):
            return None

    def release(self, camera: str, token: str) -> None:
        lease = lease_key(camera)
        with self._server.client() as client, client.pipeline() as pipeline:
            holder, _ = _watch(pipeline, stream_key(camera), lease)
            if holder is not None and holder.partition("@")[0] == token:
                pipeline.multi()
                pipeline.delete(lease)
                pipeline.execute()

    def close(self) -> None:
        self._server.close()


def stream_key(camera: str) -> str:
    """The stream of one camera; the braces keep it on one slot of a cluster, with its writer's lease."""
    return f"narrated:{{{camera}}}:changes"


def lease_key(camera: str) -> str:
    return f"narrated:{{{camera}}}:writer"


class Delivery:
    """Publishes one open journal, `batch` records in one transaction; for one thread.

    `beat` is called after each answer of the server, and where there was none.
    """

    def __init__(
        self,
        journal: Journal,
        publisher: Publisher,
        *,
        batch: int = 512,
        beat: Callable[[], None] = lambda: None,
        backoff: Backoff | None = None,
    ) -> None:
        self.journal, self._publisher, self._batch, self._beat = journal, publisher, batch, beat
        self._backoff = backoff or Backoff()
        self._camera, self._token = journal.camera, journal.writer
        self._behind = format_stream_id(journal.published.stream_id)
        self._sent = journal.published.seq  # to the channel

    def drain(self, stop: Event, *, limit: int | None = None) -> int:
        """Publish in order what is not acknowledged yet, acknowledge it, and return how many records.

        Even where there is nothing, the server is asked once: that renews the lease, and detects a stream
        that was lost. While the server is away this waits and tries again, until `stop`. What was published
        but not acknowledged is not published twice; what the server has taken and then lost is published
        again under the same ids, as far as the stream's length goes. After `limit` records it returns.
        StreamConflictError where another writer writes, or has written, to the camera's stream.
        """
        published, more = 0, True
        while more and not stop.is_set() and (limit is None or published < limit):
            try:
                acknowledged, more = self._deliver()
            except ServerAwayError as error:
                self._beat()
                stop.wait(self._backoff.next_s(str(error)))
                continue
            except PublisherError:
                self._backoff.reset()  # it answers, if only to refuse
                raise
            self._beat()
            self._backoff.reset()
            published += acknowledged
        return published

    def release(self) -> None:
        """Give up the lease; where that raises `PublisherError`, it runs out by itself."""
        self._publisher.release(self._camera, self._token)

    def _deliver(self) -> tuple[int, bool]:
        """Publish the next batch; how many records were acknowledged, and whether there may be more."""
        lines, last = self.journal.backlog(self._batch)
        first = line_end(lines[0]) if lines else None
        passed = first is not None and first.stream_id <= parse_stream_id(self._behind)
        if self._sent > self.journal.end.seq:  # its file was removed: the chain begins anew
            self._sent = self.journal.published.seq
        quiet = max(0, self._sent - self.journal.published.seq)
        # Lines that the stream is beyond are not added, but the server is asked: it may have lost the stream.
        new = [] if passed else lines
        try:
            self._publisher.publish(self._camera, self._token, new, self._behind, quiet)
        except StreamMovedError as moved:
            return self._find(moved.last_id), True
        if passed:
            return self._find(self._behind), True
        if lines:
            self._behind, self._sent = format_stream_id(last.stream_id), max(self._sent, last.seq)
            self.journal.acknowledge(last)
        return len(lines), len(lines) == self._batch

    def _find(self, last_id: str) -> int:
        """Go on behind the record with which the stream ends; how many not acknowledged are on it."""
        journal, camera, before = self.journal, self._camera, self.journal.published
        place, record = journal.find(parse_stream_id(last_id))
        entry = self._publisher.entry(camera, record.stream_id) if record else None
        ours = record and (entry.id == record.id if entry else record.stream_id == last_id)
        if place.seq > before.seq and not ours:
            raise StreamConflictError(
                f"the stream ends with {last_id}, newer than record {before.seq + 1} and not of this "
                f"journal: another writer uses the camera name {camera!r}. Use another, or delete the stream"
            )
        lost = before.seq - place.seq
        if lost > self._publisher.maxlen:
            place = journal.end_at(before.seq - self._publisher.maxlen)
        if lost > 0:
            text = "camera %s: records that the server has lost: %d; published again: %d"
            _log.warning(text, camera, lost, before.seq - place.seq)
        elif lost == 0 and record is not None and record.stream_id != last_id:
            _log.warning("camera %s: the stream ends with %s, which is not of this journal", camera, last_id)
        self._sent = max(self._sent, place.seq)
        self._behind = last_id
        if place != before:
            journal.acknowledge(place)
        return max(0, -lost)


def _watch(pipeline: Pipeline, key: str, lease: str) -> tuple[str | None, str]:
    """The holder of the lease and the last id of the stream; both are watched from here on."""
    pipeline.watch(lease, key)  # type: ignore[no-untyped-call]
    holder: Any = pipeline.get(lease)
    try:
        facts: Any = pipeline.xinfo_stream(key)
    except redis.ResponseError as error:
        if "no such key" not in str(error):
            raise
        return holder, NO_ENTRY
    return holder, facts["last-generated-id"]


def _entry(line: bytes) -> tuple[str, dict[Any, Any], bool]:
    """Id and fields of an entry (flat ones to filter by, the record under ``json``); True if it is held."""
    record = json.loads(line)
    objects = dict.fromkeys(sentence["object"] for sentence in record["sentences"])
    fields = {
        "id": record["id"],
        "camera": record["camera"],
        "time": record["after"]["time"],
        "event": record["event"],
        "text": record["text"],
        "objects": ",".join(objects),
        "json": line,
    }
    return record["stream_id"], fields, "held" in record
