"""From the journal to Redis and back: one stream per camera, and one channel for those who only listen."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis import exceptions as refusals
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.retry import Retry

from pipeline.journal import Journal
from pipeline.journal.segments import line_end, read_record
from pipeline.loop import Backoff
from pipeline.record_format import RecordError, format_stream_id, parse_stream_id
from pipeline.redaction import redact

if TYPE_CHECKING:
    from pipeline.record import Record

_log = logging.getLogger(__name__)

CHANNEL = "narrated:changes"  # the Pub/Sub channel of all cameras
NO_ENTRY = "0-0"  # the last id of a stream that does not exist

TIMEOUT_S = 5.0  # longest wait for a server to connect or to answer

_LOST = (refusals.ConnectionError, refusals.TimeoutError, refusals.WatchError, OSError)
"""redis-py says WatchError also where the connection was lost in a transaction."""

_PASSING = (refusals.OutOfMemoryError, refusals.ReadOnlyError, refusals.BusyLoadingError)
_PASSING_CODES = (
    *("OOM", "READONLY", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY"),
    *("NOAUTH", "WRONGPASS"),
)

_BEFORE = re.compile(r".*(of pipeline caused error|Transaction discarded because of): ", re.DOTALL)

_BLOCK_S = 0.5
_NEWEST = "$"
_DISCOVERY_S = 1.0
_BATCH = 64


class PublisherError(Exception):
    """Publishing or subscribing failed; the message holds no secret and says what to do."""


class ServerAwayError(PublisherError):
    """The server cannot be reached or takes no writes now: try again later."""


class RedisServer:
    """A server; may be used by any thread, and connects at the first command.

    `url` has its password, ``redis://``, ``rediss://`` (TLS) or ``unix:///path``; a function is called again
    after each error. A malformed one raises `PublisherError`. Answers are `text`, else bytes.
    """

    def __init__(
        self, url: str | Callable[[], str], timeout_s: float = TIMEOUT_S, *, text: bool = True
    ) -> None:
        self._url, self._timeout_s, self._text = url if callable(url) else lambda: url, timeout_s, text
        self._connected_to = self._url()
        self._client = self._connect(self._connected_to)
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return redact(self._connected_to)

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """The client; redis-py's errors in the block become ours, without the password.

        ServerAwayError where it is unreachable, or does not take the command now (loading, full, read-only,
        password changed), PublisherError where it refuses otherwise.
        """
        client, url = self._client, self._connected_to
        try:
            yield client
        except (refusals.RedisError, OSError) as error:
            if isinstance(error, _LOST):
                client.connection_pool.disconnect()  # a half-read connection holds no answer to us
            self._renew(client)
            raise _refusal(error, url) from None

    def close(self) -> None:
        self._client.close()

    def _connect(self, url: str) -> redis.Redis:
        try:
            (urlsplit(url).hostname or "").encode("idna")
            client = redis.Redis.from_url(
                url,
                socket_timeout=self._timeout_s,
                socket_connect_timeout=self._timeout_s,
                retry=Retry(NoBackoff(), 0),  # only the caller knows when to stop trying
                decode_responses=self._text,
                encoding_errors="replace",  # what others put on a stream need not be text
                protocol=2,  # one shape of answers from Redis 6.2 to 8
            )
            pool = client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # reads the URL's options, and does not connect
        except (ValueError, TypeError):
            advice = "write redis://user:password@host:6379/0 or unix:///path/to/socket"
            raise PublisherError(f"the Redis URL {redact(url)} is malformed; {advice}") from None
        return client

    def _renew(self, client: redis.Redis) -> None:
        with self._lock:
            try:
                now = self._url()
                if client is not self._client or now == self._connected_to:
                    return
                self._client = self._connect(now)
            except Exception:  # noqa: BLE001 - its file is being replaced: keep the old one
                return
            self._connected_to = now
        client.close()


def _refusal(error: Exception, url: str) -> PublisherError:
    name, words = redact(url), _words(error, url)
    if isinstance(error, refusals.AuthenticationError):
        return ServerAwayError(f"{name} refuses the user or password; check redis.url")
    if isinstance(error, _LOST):
        return ServerAwayError(f"{name} cannot be reached or does not answer: {words}")
    if isinstance(error, refusals.NoPermissionError):
        rule = f"ACL SETUSER {unquote(urlsplit(url).username or 'default')} {_acl_rule(str(error))}"
        return PublisherError(f"{name} refuses its user: {words}. An administrator can grant it: {rule}")
    if isinstance(error, _PASSING) or words.startswith(_PASSING_CODES):
        return ServerAwayError(f"{name} is refusing writes: {words}")
    return PublisherError(f"{name} refused: {words}")


def _acl_rule(refusal: str) -> str:
    if command := re.search(r"'([\w|-]+)' command", refusal):
        return f"+{command[1].lower()}"
    return "&narrated:*" if "channel" in refusal else "~narrated:*"


def _words(error: Exception, url: str) -> str:
    """The server's message without the password, and without what a pipeline and its EXEC put before it."""
    words = redact(_BEFORE.sub("", str(error) or type(error).__name__))
    parts = urlsplit(url)
    for secret in filter(None, [parts.password, *parse_qs(parts.query).get("password", [])]):
        words = words.replace(secret, "***").replace(unquote(secret), "***")
    return words


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
        self._camera, self._token, self._host = journal.camera, journal.token, socket.gethostname()
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
        if self._sent > self.journal.end.seq:  # its file was removed: the chain begins again
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


class Entry(NamedTuple):
    camera: str
    id: str
    fields: dict[str, str]


class StreamReader:
    """Reads cameras' streams (None: all), each in order, and new ones within a second; for one thread.

    A stream is read behind its id in `begin`, ``"$"`` for what comes from now on; None leaves the camera out
    for now. After its first answer, a server that is away is waited for, until `stop`; it is not closed here.
    """

    def __init__(
        self,
        server: RedisServer,
        cameras: Sequence[str] | None,
        begin: Callable[[str], str | None],
        stop: Event,
    ) -> None:
        self.backoff = Backoff()
        self._server, self._cameras, self._begin, self._stop = server, cameras, begin, stop
        self._positions: dict[str, str] = {}
        self._discovered_at, self._connected = -_DISCOVERY_S, False

    def read(self) -> list[Entry]:
        """The next entries, perhaps none; PublisherError where refused, or not answered the first time."""
        try:
            with self._server.client() as client:
                if time.monotonic() - self._discovered_at >= _DISCOVERY_S:
                    self._discover(client)
                    self._discovered_at, self._connected = time.monotonic(), True
                entries = self._next_entries(client)
        except ServerAwayError as error:
            if not self._connected:
                raise
            self._stop.wait(self.backoff.next_s(str(error)))
            return []
        self.backoff.reset()
        if not self._positions:
            self._stop.wait(_BLOCK_S)
        return entries

    def forget(self, camera: str) -> None:
        """Stop reading the camera's stream, until `begin` says where to continue."""
        self._positions.pop(stream_key(camera), None)

    def _discover(self, client: redis.Redis) -> None:
        """Add the streams that are not read yet; ``$`` becomes their last id."""
        names, pattern = self._cameras, stream_key("*")
        keys = client.scan_iter(pattern, 1000, "stream") if names is None else map(stream_key, names)
        for key in keys:
            begin = None if key in self._positions else self._begin(_camera(key))
            if begin == _NEWEST:
                newest: Any = client.xrevrange(key, count=1)
                begin = newest[0][0] if newest else NO_ENTRY
            if begin is not None:
                self._positions[key] = begin

    def _next_entries(self, client: redis.Redis) -> list[Entry]:
        if not self._positions:
            return []
        block_ms = int(_BLOCK_S * 1000)
        answer: Any = client.xread(self._positions, count=_BATCH, block=block_ms)  # type: ignore[arg-type]
        streams = answer.items() if isinstance(answer, dict) else answer or []
        for key, entries in streams:
            self._positions[key] = entries[-1][0]
        return [Entry(_camera(key), each, fields or {}) for key, rows in streams for each, fields in rows]


def subscribe(
    url: str,
    cameras: Sequence[str] | None = None,
    last_id: Literal["$", "0"] | str = _NEWEST,  # noqa: PYI051 - the two that are meant, and any stream id
    stop: Event | None = None,
) -> Iterator[Record]:
    """The records on the streams of cameras (None: all), each camera's in order; waits until `stop` is set.

    It begins with new records (``"$"``), with all that the streams hold (``"0"``), or behind a stream id;
    streams that appear later are read from their start. PublisherError where the first connection fails.
    """
    stop, server = stop or Event(), RedisServer(url)
    is_first = True  # look at the server; streams that appear later are read from their start

    def begin(_: str) -> str:
        return last_id if is_first else "0"

    try:
        reader = StreamReader(server, cameras, begin, stop)
        while not stop.is_set():
            entries, is_first = reader.read(), False
            for entry in entries:
                try:
                    yield read_record(entry.fields["json"])
                except (KeyError, RecordError) as error:
                    key = stream_key(entry.camera)
                    _log.warning("%s %s is not a narrated record (%s); left out", key, entry.id, error)
    finally:
        server.close()


def _camera(key: str) -> str:
    return key.partition("{")[2].rpartition("}")[0]
