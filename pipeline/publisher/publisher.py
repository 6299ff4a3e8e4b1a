"""Records on Redis: one stream per camera, and one channel for those who only listen."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import redis
from redis.client import Pipeline

from pipeline.publisher.connection import PublisherError, RedisServer
from pipeline.record import Record, RecordError, read_record

CHANNEL = "narrated:changes"
"""The Pub/Sub channel of all cameras."""

NO_ENTRY = "0-0"
"""The last id of a stream that does not exist."""

NO_SERVER = "none:"
"""The URL of the publisher that publishes nowhere: the journal alone is written."""


class LeaseHeldError(PublisherError):
    """Another writer holds the lease of the camera's stream: try again when it may have run out."""


class StreamConflictError(PublisherError):
    """The stream holds newer entries that this journal never wrote: nothing can be added behind them."""


class StreamMovedError(PublisherError):
    """The stream does not end where the journal thinks it does; nothing was written.

    Attributes:
        last_id: the largest id that the stream ever had, `NO_ENTRY` where there is no stream.
    """

    def __init__(self, message: str, last_id: str) -> None:
        super().__init__(message)
        self.last_id = last_id


@dataclass(frozen=True, slots=True)
class PublisherOptions:
    """Options of publishing.

    Attributes:
        maxlen: entries a stream keeps, about (``MAXLEN ~``).
        timeout_s: longest wait for the server to connect or to answer.
        lease_s: how long a writer that says nothing keeps the stream to itself.
    """

    maxlen: int = 100_000
    timeout_s: float = 5.0
    lease_s: float = 30.0


class Writer(NamedTuple):
    """Writes to a camera's stream: the lease is held under its token, one for all runs on a journal."""

    camera: str
    token: str


class Publisher:
    """Publishes nowhere, and so never fails; see `RedisPublisher`. Not for several threads at once."""

    maxlen = 0

    def publish(self, writer: Writer, lines: Sequence[bytes], behind: str, quiet: int = 0) -> None:
        """Add records to the camera's stream in one transaction, all or none, and renew the lease.

        Args:
            writer: must hold the lease of the stream, or take it now.
            lines: records of the camera, rising, as canonical JSON; none renews the lease only.
            behind: the largest id that the stream has had so far, `NO_ENTRY` if none.
            quiet: so many of the first lines are not sent to the channel again.

        Raises:
            ServerAwayError: the server cannot be reached or takes no writes now. The lines may have been
                published all the same, if the answer was lost; then the stream has moved.
            LeaseHeldError: another writer writes to this stream.
            StreamMovedError: the stream ends elsewhere.
            PublisherError: the server refuses for a reason that does not pass.
        """

    def entry(self, camera: str, stream_id: str) -> Record | None:  # noqa: ARG002 - the interface's arguments
        """The record under an id of the stream; None where there is none, or none of ours."""
        return None

    def release(self, writer: Writer) -> None:
        """Give up the lease, if the writer holds it."""

    def close(self) -> None:
        """Let the connection go; a publisher may be closed twice."""


class RedisPublisher(Publisher):
    """Publishes with explicit stream ids, in transactions that only one writer can win.

    Works on Redis 6.2 and later and on Valkey. Stream and lease are watched from before they are looked at
    until the entries are added, so that no entry is ever added to a stream that another writer, a flush or
    our own earlier attempt (frozen with the server, and carried out later) has changed in between. In the
    transaction the server takes all lines or, where it is full or read-only, none.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``; called again when the server refuses the password,
            so that a new one need only be put where the old one was.
        options: see `PublisherOptions`.

    Raises:
        PublisherError: the URL is malformed.
    """

    def __init__(self, url: Callable[[], str], options: PublisherOptions) -> None:
        self.maxlen = options.maxlen
        self._lease_ms = int(options.lease_s * 1000)
        self._server = RedisServer(url, options.timeout_s)
        self._host = socket.gethostname()

    def publish(self, writer: Writer, lines: Sequence[bytes], behind: str, quiet: int = 0) -> None:
        """See `Publisher.publish`."""
        key, lease = stream_key(writer.camera), lease_key(writer.camera)
        with self._server.client() as client, client.pipeline() as pipeline:
            holder, last_id = _watch(pipeline, key, lease)
            if holder is not None and holder.partition("@")[0] != writer.token:
                raise LeaseHeldError(
                    f"{key} on {self._server.name} is written by another daemon "
                    f"({holder.partition('@')[2] or 'unknown'}); stop that one, or use another camera name. "
                    f"Waiting for its lease {lease} to run out"
                )
            if last_id != behind:
                raise StreamMovedError(f"{key} ends at {last_id}, not at {behind}", last_id)
            pipeline.multi()
            pipeline.set(lease, f"{writer.token}@{self._host}", px=self._lease_ms)
            for index, line in enumerate(lines):
                stream_id, fields, is_held = _entry(line)
                pipeline.xadd(key, fields, id=stream_id, maxlen=self.maxlen)
                if index >= quiet and not is_held:
                    pipeline.publish(CHANNEL, line)
            pipeline.execute()

    def entry(self, camera: str, stream_id: str) -> Record | None:
        """See `Publisher.entry`."""
        with self._server.client() as client:
            entries: Any = client.xrange(stream_key(camera), stream_id, stream_id)
        try:
            return read_record(entries[0][1]["json"]) if entries else None
        except (KeyError, RecordError):
            return None

    def release(self, writer: Writer) -> None:
        """Give up the lease, if the writer holds it."""
        lease = lease_key(writer.camera)
        with self._server.client() as client, client.pipeline() as pipeline:
            holder, _ = _watch(pipeline, stream_key(writer.camera), lease)
            if holder is not None and holder.partition("@")[0] == writer.token:
                pipeline.multi()
                pipeline.delete(lease)
                pipeline.execute()

    def close(self) -> None:
        """Let the connection go."""
        self._server.close()


def open_publisher(url: str | Callable[[], str], options: PublisherOptions = PublisherOptions()) -> Publisher:
    """The publisher for `url`; no connection is made before the first record.

    Args:
        url: ``redis://[user:password@]host[:port][/db]``, the same with ``rediss://`` (TLS),
            ``unix:///path/to/socket[?db=0&password=...]``, or ``none:``. A function is asked again when the
            server is away, so that a changed password is found.
        options: see `PublisherOptions`.

    Raises:
        PublisherError: the URL names no known kind of server, or is malformed.
    """
    asked = url if callable(url) else lambda: url
    first = asked()
    if first == NO_SERVER:
        return Publisher()
    scheme = urlsplit(first).scheme
    if scheme in {"redis", "rediss", "unix"}:
        return RedisPublisher(asked, options)
    raise PublisherError(
        f"cannot publish to a URL of kind {scheme or 'nothing'!r}; use redis://host:6379, "
        "rediss://host:6379, unix:///run/redis/redis-server.sock, or none: for the journal alone"
    )


def stream_key(camera: str) -> str:
    """The stream of one camera; the braces keep it on one slot of a cluster."""
    return f"narrated:{{{camera}}}:changes"


def lease_key(camera: str) -> str:
    """The lease of the camera's writer; on the same slot as the stream."""
    return f"narrated:{{{camera}}}:writer"


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
    """Id and fields of an entry, and whether its message is held.

    The fields are flat ones to filter by, and the record under ``json``.
    """
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
