"""Reading records back from the streams, as they arrive."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import redis

from pipeline.journal.segments import read_record
from pipeline.loop import Backoff
from pipeline.publisher.connection import RedisServer, ServerAwayError
from pipeline.publisher.publisher import NO_ENTRY, stream_key
from pipeline.record_format import RecordError

if TYPE_CHECKING:
    from pipeline.record import Record

_log = logging.getLogger(__name__)

_BLOCK_S = 0.5
_NEWEST = "$"
_DISCOVERY_S = 1.0
_BATCH = 64


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
