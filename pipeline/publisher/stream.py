"""Records on Redis: one stream per camera, and one channel for those who only listen."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hiredis import pack_command
from redis import exceptions as refusals

from pipeline.publisher.connection import RedisServer
from pipeline.publisher.publisher import (
    CHANNEL,
    NO_ENTRY,
    LeaseHeldError,
    PublisherOptions,
    ServerAwayError,
    StreamMovedError,
    Writer,
    lease_key,
    stream_key,
)
from pipeline.record import Record, RecordError, read_record

_Command = tuple[Any, ...]


class RedisPublisher:
    """Publishes with explicit stream ids, in transactions that only one writer can win.

    Works on Redis 6.2 and later and on Valkey. Stream and lease are watched from before they are looked at
    until the entries are added, so that no entry is ever added to a stream that another writer, a flush or
    our own earlier attempt (frozen with the server, and carried out later) has changed in between. In the
    transaction the server takes all lines or, where it is full or read-only, none.

    Redis is spoken to on a connection of its own: the client's pipeline costs more than the server.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``; called again when the server refuses the password,
            so that a new one need only be put where the old one was.
        options: see `PublisherOptions`.

    Raises:
        PublisherError: the URL is malformed.
    """

    def __init__(self, url: Callable[[], str], options: PublisherOptions) -> None:
        self._options = options
        self._server = RedisServer(url, options.timeout_s)
        self._host = socket.gethostname()

    @property
    def maxlen(self) -> int:
        """Entries that a stream keeps, about."""
        return self._options.maxlen

    def publish(self, writer: Writer, lines: Sequence[bytes], behind: str, quiet: int = 0) -> None:
        """Add records to the camera's stream and renew the lease; see `Publisher.publish`."""
        key, lease = stream_key(writer.camera), lease_key(writer.camera)
        value = f"{writer.token}@{self._host}"
        with self._connection() as connection:
            holder, last_id = _looked_at(connection, key, lease)
            if holder is not None and holder.partition("@")[0] != writer.token:
                raise LeaseHeldError(
                    f"{key} on {self._server.name} is written by another daemon "
                    f"({holder.partition('@')[2] or 'unknown'}); stop that one, or use another camera name. "
                    f"Waiting for its lease {lease} to run out"
                )
            if last_id != behind:
                raise StreamMovedError(f"{key} ends at {last_id}, not at {behind}", last_id)
            commands: list[_Command] = [("SET", lease, value, "PX", int(self._options.lease_s * 1000))]
            maxlen = self._options.maxlen
            for index, line in enumerate(lines):
                commands.append(("XADD", key, "MAXLEN", "~", maxlen, *_entry(line)))
                if index >= quiet:
                    commands.append(("PUBLISH", CHANNEL, line))
            _transaction(connection, commands)

    def entry(self, camera: str, stream_id: str) -> Record | None:
        """The record under an id of the stream; see `Publisher.entry`."""
        with self._server.asked() as client:
            entries: Any = client.xrange(stream_key(camera), stream_id, stream_id)
        try:
            return read_record(entries[0][1]["json"]) if entries else None
        except (KeyError, RecordError):
            return None

    def following(self, camera: str, stream_id: str, count: int) -> Sequence[tuple[str, bytes]]:
        """The entries behind an id of the stream; see `Publisher.following`."""
        with self._server.asked() as client:
            entries: Any = client.xrange(stream_key(camera), f"({stream_id}", "+", count)
        return [(entry_id, fields.get("json", "").encode()) for entry_id, fields in entries]

    def release(self, writer: Writer) -> None:
        """Give up the lease, if the writer holds it."""
        lease = lease_key(writer.camera)
        with self._connection() as connection:
            holder, _ = _looked_at(connection, stream_key(writer.camera), lease)
            if holder is not None and holder.partition("@")[0] == writer.token:
                _transaction(connection, [("DEL", lease)])

    def close(self) -> None:
        """Let the connection go."""
        self._server.close()

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A connection that is dropped after any error: what stands in it unread is no answer to us."""
        with self._server.asked() as client:
            connection: Any = client.connection_pool.get_connection()
            try:
                yield connection
            except BaseException:
                connection.disconnect()
                raise
            finally:
                client.connection_pool.release(connection)


def _looked_at(connection: Any, key: str, lease: str) -> tuple[str | None, str]:
    """Who holds the lease, and the last id of the stream; both are watched from here on."""
    commands: list[_Command] = [("WATCH", lease, key), ("GET", lease), ("XINFO", "STREAM", key)]
    _send(connection, commands)
    answers = _answers(connection, len(commands))
    for answer in answers[:2]:
        if isinstance(answer, Exception):
            raise answer
    stream = answers[2]
    if isinstance(stream, refusals.ResponseError):
        if "no such key" in str(stream):
            return answers[1], NO_ENTRY
        raise stream
    facts = stream if isinstance(stream, dict) else dict(zip(stream[::2], stream[1::2], strict=True))
    return answers[1], facts["last-generated-id"]


def _transaction(connection: Any, commands: list[_Command]) -> None:
    """Carry out all commands or none.

    Raises:
        ServerAwayError: another client has changed what is watched.
        RedisError: the server refuses.
    """
    _send(connection, [("MULTI",), *commands, ("EXEC",)])
    *queued, done = _answers(connection, len(commands) + 2)
    refused = next((answer for answer in queued if isinstance(answer, Exception)), None)
    if refused is not None or isinstance(done, Exception):
        raise refused or done
    if done is None:
        raise ServerAwayError("the stream or its lease was changed by another client at this moment")
    for answer in done:
        if isinstance(answer, Exception):
            raise answer


def _send(connection: Any, commands: list[_Command]) -> None:
    """All commands in one piece: the client's own packing costs as much as all the rest of publishing."""
    connection.send_packed_command([b"".join(pack_command(command) for command in commands)])


def _answers(connection: Any, count: int) -> list[Any]:
    """The next answers; refusals stand among them, broken connections are raised."""
    answers: list[Any] = []
    for _ in range(count):
        try:
            answers.append(connection.read_response())
        except refusals.ResponseError as error:
            answers.append(error)
    return answers


def _entry(line: bytes) -> _Command:
    """Id and fields of an entry: flat ones to filter by, and the whole record under ``json``."""
    record = json.loads(line)
    objects = dict.fromkeys(sentence["object"] for sentence in record["sentences"])
    return (
        record["stream_id"],
        *("id", record["id"], "camera", record["camera"], "time", record["after"]["time"]),
        *("event", record["event"], "text", record["text"], "objects", ",".join(objects), "json", line),
    )
