"""Reading records back from the streams, as they arrive."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any, Literal

import redis

from pipeline.publisher.connection import Backoff, RedisServer, ServerAwayError
from pipeline.publisher.publisher import NO_ENTRY, stream_key
from pipeline.record import Record, RecordError, read_record

_log = logging.getLogger(__name__)

_BLOCK_S = 0.5
_DISCOVERY_S = 1.0
_BATCH = 64


def subscribe(
    url: str,
    cameras: Sequence[str] | None = None,
    last_id: Literal["$", "0"] | str = "$",  # noqa: PYI051 - the two that are meant, and any stream id
    stop: Event | None = None,
) -> Iterator[Record]:
    """The records on the streams, per camera in order; waits for more until `stop` is set.

    A connection that breaks later is opened again, and reading goes on where it stopped. With
    ``cameras=None`` streams that appear later are found within a second and read from their start.

    Args:
        url: as for `Publisher`.
        cameras: names; None reads every stream ``narrated:{*}:changes``.
        last_id: ``"$"`` only what comes from now on, ``"0"`` everything that is still there, or a stream id
            ``<ms>-<seq>`` behind which to begin.
        stop: ends the iteration within about half a second.

    Raises:
        PublisherError: the URL is malformed, or the first connection fails.
    """
    stop = stop or Event()
    server = RedisServer(url)
    backoff, discovered_at, connected = Backoff(), -_DISCOVERY_S, False
    positions: dict[str, str] = {}
    try:
        while not stop.is_set():
            try:
                with server.client() as client:
                    if time.monotonic() - discovered_at >= _DISCOVERY_S:
                        _discover(client, cameras, positions, "0" if connected else last_id)
                        discovered_at, connected = time.monotonic(), True
                    entries = _read(client, positions)
                backoff.reset()
            except ServerAwayError as error:
                if not connected:
                    raise
                stop.wait(backoff.next_s(str(error)))
                continue
            if not positions:
                stop.wait(_BLOCK_S)
            for key, entry_id, fields in entries:
                positions[key] = entry_id
                try:
                    yield read_record(fields["json"])
                except (KeyError, RecordError) as error:
                    _log.warning("%s %s is not a narrated record (%s); left out", key, entry_id, error)
    finally:
        server.close()


def _discover(
    client: redis.Redis, cameras: Sequence[str] | None, positions: dict[str, str], last_id: str
) -> None:
    """Add the streams that are not followed yet; ``$`` becomes the id that is the last one now."""
    keys = client.scan_iter(stream_key("*"), 1000) if cameras is None else map(stream_key, cameras)
    for key in keys:
        if key not in positions:
            newest: Any = client.xrevrange(key, count=1) if last_id == "$" else [(last_id, {})]
            positions[key] = newest[0][0] if newest else NO_ENTRY


def _read(client: redis.Redis, positions: dict[str, str]) -> list[tuple[str, str, dict[str, str]]]:
    """The next entries as ``(key, id, fields)``; empty after a short wait without any."""
    if not positions:
        return []
    answer: Any = client.xread(positions, count=_BATCH, block=int(_BLOCK_S * 1000))  # type: ignore[arg-type]
    streams = answer.items() if isinstance(answer, dict) else answer or []
    return [(key, entry_id, fields or {}) for key, entries in streams for entry_id, fields in entries]
