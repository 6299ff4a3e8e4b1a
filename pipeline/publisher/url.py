"""Which publisher a URL means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from pipeline.publisher.publisher import Publisher, PublisherError, PublisherOptions, Writer
from pipeline.record import Record

NO_SERVER = "none:"
"""The URL of the publisher that publishes nowhere: the journal alone is written."""

REDIS_SCHEMES = ("redis", "rediss", "unix")

_DEFAULTS = PublisherOptions()


class _NoPublisher:
    """Publishes nowhere."""

    maxlen = 0

    def publish(self, writer: Writer, lines: Sequence[bytes], behind: str, quiet: int = 0) -> None:
        """Do nothing."""

    def entry(self, camera: str, stream_id: str) -> Record | None:  # noqa: ARG002 - the interface's arguments
        """None."""
        return None

    def following(self, camera: str, stream_id: str, count: int) -> Sequence[tuple[str, bytes]]:  # noqa: ARG002
        """None."""
        return ()

    def release(self, writer: Writer) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def open_publisher(url: str | Callable[[], str], options: PublisherOptions = _DEFAULTS) -> Publisher:
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
    scheme = urlsplit(first).scheme
    if first == NO_SERVER:
        return _NoPublisher()
    if scheme in REDIS_SCHEMES:
        from pipeline.publisher.stream import RedisPublisher  # noqa: PLC0415 - redis loads only where needed

        return RedisPublisher(asked, options)
    raise PublisherError(
        f"cannot publish to a URL of kind {scheme or 'nothing'!r}; use redis://host:6379, "
        "rediss://host:6379, unix:///run/redis/redis-server.sock, or none: for the journal alone"
    )
