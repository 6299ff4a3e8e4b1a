"""From the streams to the ledger: a consumer group that takes every record once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from redis import Redis
from redis import exceptions as refusals

from daemon.forward.filter import Filter
from daemon.forward.ledger import Ledger, StreamPosition, Taken
from pipeline.publisher import NO_ENTRY, stream_key
from pipeline.publisher.connection import RedisServer
from pipeline.record import RecordError, parse_stream_id, read_record

logger = logging.getLogger(__name__)

CONSUMER = "forward"
"""The group's one consumer: whoever starts again finds under this name what was read and not yet taken."""

_BATCH = 64
_BLOCK_MS = 500
_TIMEOUT_S = 5.0
_DISCOVERY_S = 1.0
_PENDING, _NEW = "0", ">"
_BEGUN = ""
"""Stands among the positions once all streams of the first start were joined: later ones are read whole."""


class Intake:
    """Reads the streams as a consumer group; an entry is acknowledged once the ledger has it.

    Where Redis has forgotten the group (flushed, or restarted without its file) reading goes on where the
    ledger says: what the daemon then publishes again is passed over.

    Args:
        url: of the server; called again when it is away, for its password may have changed.
        group: name of the consumer group.
        ledger: takes the records.
        filters: by target.
        most: how many may wait, by target.
        from_start: read what the streams still hold at the first start, too.
        queued: called with the targets for which something was queued.

    Raises:
        PublisherError: the URL is malformed.
    """

    def __init__(
        self,
        url: Callable[[], str],
        group: str,
        ledger: Ledger,
        filters: Mapping[str, Filter],
        most: Mapping[str, int],
        *,
        from_start: bool = False,
        queued: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> None:
        self._group, self._ledger = group, ledger
        self._filters, self._most, self._queued = filters, most, queued
        self._from_start = from_start
        self._server = RedisServer(url, _TIMEOUT_S)
        self._positions: dict[str, StreamPosition] = ledger.positions()
        self._first = _BEGUN not in self._positions
        self._streams: dict[str, str] = {}
        self._discovered_at = float("-inf")

    def read(self) -> int:
        """Take what is there, or wait for it about half a second; how many entries were taken.

        Raises:
            ServerAwayError: the server is away; nothing is lost.
            LedgerError: the ledger took nothing; the same entries come again.
            PublisherError: the server refuses for a reason that does not pass.
        """
        try:
            with self._server.asked() as client:
                entries = self._entries(client)
            if not entries:
                return 0
            queued = self._ledger.take([self._taken(*entry) for entry in entries], self._most)
            if queued:
                self._queued(queued)
            with self._server.asked() as client:
                self._acknowledge(client, entries)
        except Exception:
            self._begin_again()
            raise
        return len(entries)

    @property
    def idle(self) -> bool:
        """True while there is no stream to wait at."""
        return not self._streams

    def close(self) -> None:
        """Let the connection go."""
        self._server.close()

    def _begin_again(self) -> None:
        """Look at everything anew: what was read and not taken is pending now, the group may be gone."""
        self._streams.clear()
        self._discovered_at = float("-inf")
        self._positions = self._ledger.positions()

    def _entries(self, client: Redis) -> list[tuple[str, str, dict[str, str]]]:
        if monotonic() - self._discovered_at >= _DISCOVERY_S:
            self._discover(client)
            self._discovered_at = monotonic()
        if not self._streams:
            return []
        pending = [key for key, place in self._streams.items() if place == _PENDING]
        asked: Any = dict.fromkeys(pending, _PENDING) if pending else self._streams
        try:
            answer: Any = client.xreadgroup(
                self._group,
                CONSUMER,
                asked,
                count=_BATCH,
                block=None if pending else _BLOCK_MS,
            )
        except refusals.ResponseError as error:
            if not str(error).startswith(("NOGROUP", "UNBLOCKED")):
                raise
            self._begin_again()
            return []
        streams = dict(answer.items() if isinstance(answer, dict) else answer or [])
        for key in pending:
            if not streams.get(key):
                self._streams[key] = _NEW
        return [(key, entry, fields or {}) for key, found in streams.items() for entry, fields in found]

    def _discover(self, client: Redis) -> None:
        """Join the streams that are not followed yet."""
        for key in client.scan_iter(match=stream_key("*"), count=1000, _type="stream"):
            if key not in self._streams:
                self._join(client, key)
                self._streams[key] = _PENDING
        if self._first:
            self._ledger.take([Taken(_BEGUN, NO_ENTRY)], {})
            self._first = False

    def _join(self, client: Redis, key: str) -> None:
        """Make the group where it is not there: behind what was taken, at the end, or at the start."""
        known = self._positions.get(key)
        facts: Any = client.xinfo_stream(key)
        last = facts["last-generated-id"]
        if known:  # a stream that ends before was lost, and is published again
            place = known.entry if parse_stream_id(last) >= parse_stream_id(known.entry) else NO_ENTRY
        else:
            place = last if self._first and not self._from_start else NO_ENTRY
        try:
            client.xgroup_create(key, self._group, place)
        except refusals.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
            if not known:
                place = NO_ENTRY
                if self._from_start:
                    client.xgroup_setid(key, self._group, place)
        if not known:
            self._positions[key] = StreamPosition(place, 0)
            self._ledger.take([Taken(key, place)], {})

    def _taken(self, key: str, entry: str, fields: dict[str, str]) -> Taken:
        """Whom an entry concerns: nobody where it was taken before, or is no record."""
        known = self._positions.get(key)
        if known and parse_stream_id(entry) <= parse_stream_id(known.entry):
            return Taken(key, known.entry)
        try:
            record = read_record(fields["json"])
        except (KeyError, RecordError) as error:
            if fields:  # else it was trimmed after it was read, which the next one's number tells
                logger.warning("%s %s is not a narrated record (%s); left out", key, entry, error)
            return Taken(key, entry)
        if known and known.seq and record.seq > known.seq + 1:
            logger.warning(
                "camera %s: the stream has lost %d records before they were taken (redis.maxlen is too small "
                "for so long a pause); they are in the journal only",
                *(record.camera, record.seq - known.seq - 1),
            )
        self._positions[key] = StreamPosition(entry, record.seq)
        concerned = (name for name, each in self._filters.items() if each.passing(record) is not None)
        return Taken(key, entry, record, tuple(concerned))

    def _acknowledge(self, client: Redis, entries: Sequence[tuple[str, str, dict[str, str]]]) -> None:
        by_stream: dict[str, list[str]] = {}
        for key, entry, _ in entries:
            by_stream.setdefault(key, []).append(entry)
        with client.pipeline(transaction=False) as pipeline:
            for key, ids in by_stream.items():
                pipeline.xack(key, self._group, *ids)
            pipeline.execute()
