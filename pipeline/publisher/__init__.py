"""The publisher: records go from the journal to a Redis stream and channel."""

from pipeline.publisher.connection import PublisherError, RedisServer, ServerAwayError
from pipeline.publisher.publisher import (
    CHANNEL,
    NO_ENTRY,
    Delivery,
    Publisher,
    StreamConflictError,
    StreamMovedError,
    lease_key,
    stream_key,
)
from pipeline.publisher.subscription import Entry, StreamReader, subscribe

__all__ = [
    "CHANNEL",
    "NO_ENTRY",
    "Delivery",
    "Entry",
    "Publisher",
    "PublisherError",
    "RedisServer",
    "ServerAwayError",
    "StreamConflictError",
    "StreamMovedError",
    "StreamReader",
    "lease_key",
    "stream_key",
    "subscribe",
]
