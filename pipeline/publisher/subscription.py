"""Reading narrations back from the streams, as they arrive."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any, Literal

import redis

from pipeline.publisher.connection import RedisServer, ServerAwayError
from pipeline.publisher.publisher import stream_key
from pipeline.record import Record, RecordError, read_record

_log = logging.getLogger(__name__)

_BLOCK_S = 0.5
_TIMEOUT_S = 5.0
_DISCOVERY_S = 1.0
_LONGEST_WAIT_S = 5.0
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
        url: as for `open_publisher`, but for ``none:``.
        cameras: names; None reads every stream ``narrated:{*}:changes``.
        last_id: ``"$"`` only what comes from now on, ``"0"`` everything that is still there, or a stream id
            ``<ms>-<seq>`` behind which to begin.
        stop: ends the iteration within about half a second.

    Raises:
        PublisherError: the URL is malformed, or the first connection fails.
    """
    stop = stop or Event()
    server = RedisServer(lambda: url, _TIMEOUT_S)
    wait_s, discovered_at, connected = 0.1, -_DISCOVERY_S, False
    positions: dict[str, str] = {}
    try:
        while not stop.is_set():
            try:
                with server.asked() as client:
                    if time.monotonic() - discovered_at >= _DISCOVERY_S:
                        _discover(client, cameras, positions, last_id if not connected else "0")
                        discovered_at, connected = time.monotonic(), True
                    entries = _read(client, positions, stop)
                wait_s = 0.1
            except ServerAwayError as error:
                if not connected:
                    raise
                _log.warning("%s; trying again in %.1f s", error, wait_s)
                stop.wait(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
                continue
            for key, entry_id, fields in entries:
                positions[key] = entry_id
                record = _record(key, entry_id, fields)
                if record is not None:
                    yield record
    finally:
        server.close()


def _discover(
    client: redis.Redis, cameras: Sequence[str] | None, positions: dict[str, str], last_id: str
) -> None:
    """Add the streams that are not followed yet; ``$`` becomes the id that is the last one now."""
    keys = (
        map(stream_key, cameras)
        if cameras is not None
        else client.scan_iter(match=stream_key("*"), count=1000)
    )
    for key in keys:
        if key in positions:
            continue
        if last_id == "$":
            newest: list[Any] = client.xrevrange(key, count=1)  # type: ignore[assignment]
            positions[key] = newest[0][0] if newest else "0-0"
        else:
            positions[key] = last_id


def _read(
    client: redis.Redis, positions: dict[str, str], stop: Event
) -> list[tuple[str, str, dict[str, str]]]:
    """The next entries as ``(key, id, fields)``; empty after a short wait without any."""
    if not positions:
        stop.wait(_BLOCK_S)
        return []
    answer: Any = client.xread(positions, count=_BATCH, block=int(_BLOCK_S * 1000))  # type: ignore[arg-type]
    streams = answer.items() if isinstance(answer, dict) else answer or []
    return [(key, entry_id, fields or {}) for key, entries in streams for entry_id, fields in entries]


def _record(key: str, entry_id: str, fields: dict[str, str]) -> Record | None:
    """The record in an entry; an entry of somebody else's is named in the log and left out."""
    try:
        return read_record(fields["json"])
    except (KeyError, RecordError) as error:
        _log.warning("%s %s is not a narrated record (%s); left out", key, entry_id, error)
        return None
