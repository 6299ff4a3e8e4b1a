"""The publisher: records go from the journal to a Redis stream and channel."""

from pipeline.publisher.delivery import drain
from pipeline.publisher.opening import NO_SERVER, open_publisher
from pipeline.publisher.publisher import (
    CHANNEL,
    Publisher,
    PublisherError,
    PublisherOptions,
    ServerAwayError,
    StreamConflictError,
    stream_key,
)
from pipeline.publisher.subscription import subscribe

__all__ = [
    "CHANNEL",
    "NO_SERVER",
    "Publisher",
    "PublisherError",
    "PublisherOptions",
    "ServerAwayError",
    "StreamConflictError",
    "drain",
    "open_publisher",
    "stream_key",
    "subscribe",
]
