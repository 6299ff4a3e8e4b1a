"""Records on Redis: one stream per camera, and one channel for those who only listen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from redis.exceptions import ResponseError

from pipeline.publisher.connection import connect, worded
from pipeline.publisher.publisher import CHANNEL, PublisherOptions, StreamConflictError, stream_key
from pipeline.record import Record, RecordError, read_record
from pipeline.sources.redact import redacted

_NOT_RISING = "equal or smaller"


class RedisPublisher:
    """Publishes with explicit stream ids, so that a repeated XADD cannot add a record twice.

    Works on Redis 6.2 and later and on Valkey. A batch is one MULTI: where the server takes no writes (full,
    read-only, loading) it refuses the whole batch; with single commands a later record could slip in behind
    a refused one, whose smaller id would then never be accepted again.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``.
        options: see `PublisherOptions`.

    Raises:
        PublisherError: the URL is malformed.
    """

    def __init__(self, url: str, options: PublisherOptions) -> None:
        self._url = url
        self._options = options
        self._client = connect(url, options.timeout_s)

    def publish(self, record: Record) -> None:
        """Publish one record; see `Publisher.publish`."""
        self.publish_many([record])

    def publish_many(self, records: Sequence[Record]) -> None:
        """Publish records in one round trip per camera, then tell the channel about those that were new.

        The channel promises nothing: a record is lost there to a crash between the two steps.
        """
        with worded(self._client, self._url):
            for camera, batch in groupby(records, key=lambda record: record.camera):
                self._add(stream_key(camera), list(batch))

    def newest(self, camera: str) -> Record | None:
        """The newest record on the camera's stream; an entry that is no record of ours counts as none."""
        with worded(self._client, self._url):
            entries: list[Any] = self._client.xrevrange(stream_key(camera), count=1)  # type: ignore[assignment]
        try:
            return read_record(entries[0][1]["json"]) if entries else None
        except (KeyError, RecordError):
            return None

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()

    def _add(self, key: str, batch: list[Record]) -> None:
        lines = [record.line().decode() for record in batch]
        with self._client.pipeline(transaction=True) as pipeline:
            for record, line in zip(batch, lines, strict=True):
                pipeline.xadd(
                    key,
                    _fields(record, line),  # type: ignore[arg-type]
                    id=record.stream_id,
                    maxlen=self._options.maxlen,
                    approximate=True,
                )
            answers = pipeline.execute(raise_on_error=False)
        fresh = []
        for record, line, answer in zip(batch, lines, answers, strict=True):
            if not isinstance(answer, Exception):
                fresh.append(line)
            elif isinstance(answer, ResponseError) and _NOT_RISING in str(answer):
                self._confirm(key, record)
            else:
                raise answer
        if fresh:
            with self._client.pipeline(transaction=False) as pipeline:
                for line in fresh:
                    pipeline.publish(CHANNEL, line)
                pipeline.execute()

    def _confirm(self, key: str, record: Record) -> None:
        """The refused id must be our own record, published before a connection broke."""
        entries: list[Any] = self._client.xrange(key, record.stream_id, record.stream_id)  # type: ignore[assignment]
        if entries and entries[0][1].get("id") == record.id:
            return
        raise StreamConflictError(
            f"the stream {key} on {redacted(self._url)} holds entries newer than {record.stream_id} "
            f"(seq {record.seq}) that this journal did not write: another writer uses the camera name "
            f"{record.camera!r}, or older footage follows newer. Use another camera name, or "
            "delete the stream; the journal has everything"
        )


def _fields(record: Record, line: str) -> dict[str, str]:
    """Flat fields to filter by, and the whole record under `json`."""
    return {
        "id": record.id,
        "camera": record.camera,
        "time": record.after.time,
        "event": record.event,
        "text": record.text,
        "objects": ",".join(record.objects),
        "json": line,
    }
