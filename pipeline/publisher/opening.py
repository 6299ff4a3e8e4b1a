"""Which publisher a URL means."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from pipeline.publisher.publisher import Publisher, PublisherError, PublisherOptions
from pipeline.record import Record

NO_SERVER = "none:"
"""The URL of the publisher that publishes nowhere: the journal alone is written."""

REDIS_SCHEMES = ("redis", "rediss", "unix")

_DEFAULTS = PublisherOptions()


class _NoPublisher:
    """Publishes nowhere."""

    def publish(self, record: Record) -> None:
        """Do nothing."""

    def publish_many(self, records: Sequence[Record]) -> None:
        """Do nothing."""

    def newest(self, camera: str) -> Record | None:  # noqa: ARG002 - the interface's argument
        """None."""
        return None

    def close(self) -> None:
        """Do nothing."""


def open_publisher(url: str, options: PublisherOptions = _DEFAULTS) -> Publisher:
    """The publisher for `url`; no connection is made before the first record.

    Args:
        url: ``redis://[user:password@]host[:port][/db]``, the same with ``rediss://`` (TLS),
            ``unix:///path/to/socket[?db=0&password=...]``, or ``none:``.
        options: see `PublisherOptions`.

    Raises:
        PublisherError: the URL names no known kind of server, or is malformed.
    """
    scheme = urlsplit(url).scheme
    if url == NO_SERVER:
        return _NoPublisher()
    if scheme in REDIS_SCHEMES:
        from pipeline.publisher.stream import RedisPublisher  # noqa: PLC0415 - redis loads only where needed

        return RedisPublisher(url, options)
    raise PublisherError(
        f"cannot publish to a URL of kind {scheme or 'nothing'!r}; use redis://host:6379, "
        "rediss://host:6379, unix:///run/redis/redis-server.sock, or none: for the journal alone"
    )
