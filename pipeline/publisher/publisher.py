"""From the journal to Redis: one stream per camera, and one channel for those who only listen."""

import json
import logging
import socket
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import redis
from redis.client import Pipeline

from pipeline.journal import Journal
from pipeline.journal.segments import line_end
from pipeline.loop import Backoff
from pipeline.publisher.connection import PublisherError, RedisServer, ServerAwayError
from pipeline.record_format import format_stream_id, parse_stream_id

_log = logging.getLogger(__name__)

CHANNEL = "narrated:changes"  # the Pub/Sub channel of all cameras
NO_ENTRY = "0-0"  # the last id of a stream that does not exist


class StreamConflictError(PublisherError):
    """Another writer uses the camera's stream: it holds the lease, or has added entries that are newer."""


def stream_key(camera: str) -> str:
    """The stream of one camera; the braces keep it on one slot of a cluster, with its writer's lease."""
    return f"narrated:{{{camera}}}:changes"


def lease_key(camera: str) -> str:
    return f"narrated:{{{camera}}}:writer"


class Delivery:
    """Publishes one open journal with explicit ids, `batch` records in one transaction; for one thread.

    Stream and lease are watched from before they are read until the entries are added, so that nothing is
    added to a stream that another writer, a flush or our own earlier attempt (frozen with the server, and
    carried out later) has changed in between. The server takes all lines of a transaction, or none.

    A stream keeps about `maxlen` entries; a silent writer keeps it to itself for `lease_s`. `beat` is called
    after each answer of the server, and where there was none.
    """

    def __init__(
        self,
        journal: Journal,
        server: RedisServer,
        *,
        batch: int = 512,
        maxlen: int = 100_000,
        lease_s: float = 30.0,
        beat: Callable[[], None] = lambda: None,
        backoff: Backoff | None = None,
    ) -> None:
        self.journal, self._server, self._batch, self._beat = journal, server, batch, beat
        self._maxlen, self._lease_ms, self._backoff = maxlen, int(lease_s * 1000), backoff or Backoff()
        self._camera, self._token, self._host = journal.camera, journal.writer, socket.gethostname()
        self._key, self._lease = stream_key(journal.camera), lease_key(journal.camera)
        self._behind = format_stream_id(journal.published.stream_id)
        self._sent = journal.published.seq  # to the channel

    def drain(self, stop: Event, *, limit: int | None = None) -> int:
        """Publish in order what is not acknowledged yet, acknowledge it, and return how many records.

        Even where there is nothing, the server is asked once: that renews the lease, and detects a stream
        that was lost. While the server is away this waits and tries again, until `stop`. What was published
        but not acknowledged is not published twice; what the server has taken and then lost is published
        again under the same ids, as far as the stream's length goes. After `limit` records it returns.
        StreamConflictError where another writer writes, or has written, to the camera's stream; another
        `PublisherError` where the server refuses for good.
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
        with self._server.client() as client, client.pipeline() as pipeline:
            holder, _ = self._watch(pipeline)
            if holder is not None and holder.partition("@")[0] == self._token:
                pipeline.multi()
                pipeline.delete(self._lease)
                pipeline.execute()

    def _deliver(self) -> tuple[int, bool]:
        """Publish the next batch; how many records were acknowledged, and whether there may be more."""
        lines, last = self.journal.backlog(self._batch)
        first = line_end(lines[0]) if lines else None
        passed = first is not None and first.stream_id <= parse_stream_id(self._behind)
        if self._sent > self.journal.end.seq:  # its file was removed: the chain begins anew
            self._sent = self.journal.published.seq
        quiet = max(0, self._sent - self.journal.published.seq)
        # Lines that the stream is beyond are not added, but the server is asked: it may have lost the stream.
        last_id = self._publish([] if passed else lines, quiet)
        if passed or last_id != self._behind:
            return self._find(last_id), True
        if lines:
            self._behind, self._sent = format_stream_id(last.stream_id), max(self._sent, last.seq)
            self.journal.acknowledge(last)
        return len(lines), len(lines) == self._batch

    def _publish(self, lines: Sequence[bytes], quiet: int) -> str:
        """Add records to the stream in one transaction, and take or renew the lease; the stream's last id.

        No `lines` renew the lease only; the channel has had `quiet` of the first ones already. Nothing is
        done where the stream does not end where it is expected to: also where an answer was lost, and the
        lines are published all the same.
        """
        with self._server.client() as client, client.pipeline() as pipeline:
            holder, last_id = self._watch(pipeline)
            holding, _, host = (holder or self._token).partition("@")
            if holding != self._token:
                name = f"{self._key} on {self._server.name} is written by another daemon"
                advice = f"({host or 'unknown'}); stop that one, or use another camera name"
                raise StreamConflictError(f"{name} {advice}. Waiting for its lease {self._lease} to run out")
            if last_id == self._behind:
                pipeline.multi()
                pipeline.set(self._lease, f"{self._token}@{self._host}", px=self._lease_ms)
                for index, line in enumerate(lines):
                    stream_id, fields, is_held = _entry(line)
                    pipeline.xadd(self._key, fields, id=stream_id, maxlen=self._maxlen)
                    if index >= quiet and not is_held:
                        pipeline.publish(CHANNEL, line)
                pipeline.execute()
            return last_id

    def _watch(self, pipeline: Pipeline) -> tuple[str | None, str]:
        """The holder of the lease and the last id of the stream; both are watched from here on."""
        pipeline.watch(self._lease, self._key)  # type: ignore[no-untyped-call]
        holder: Any = pipeline.get(self._lease)
        try:
            facts: Any = pipeline.xinfo_stream(self._key)
        except redis.ResponseError as error:
            if "no such key" not in str(error):
                raise
            return holder, NO_ENTRY
        return holder, facts["last-generated-id"]

    def _find(self, last_id: str) -> int:
        """Go on behind the record with which the stream ends; how many not acknowledged are on it."""
        journal, camera, before = self.journal, self._camera, self.journal.published
        place, record = journal.find(parse_stream_id(last_id))
        entry = self._id_at(record.stream_id) if record else None
        ours = record and (entry == record.id if entry else record.stream_id == last_id)
        if place.seq > before.seq and not ours:
            raise StreamConflictError(
                f"the stream ends with {last_id}, newer than record {before.seq + 1} and not of this "
                f"journal: another writer uses the camera name {camera!r}. Use another, or delete the stream"
            )
        lost = before.seq - place.seq
        if lost > self._maxlen:
            place = journal.end_at(before.seq - self._maxlen)
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

    def _id_at(self, stream_id: str) -> str | None:
        """The record's id in an entry of the stream; None where there is none."""
        with self._server.client() as client:
            entries: Any = client.xrange(self._key, stream_id, stream_id)
        return entries[0][1].get("id") if entries else None


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
