"""The publisher: records go from the journal to a Redis stream and channel."""

from pipeline.publisher.connection import PublisherError, RedisServer, ServerAwayError
from pipeline.publisher.delivery import Backoff, Delivery, drain
from pipeline.publisher.publisher import (
    CHANNEL,
    NO_ENTRY,
    NO_SERVER,
    LeaseHeldError,
    Publisher,
    PublisherOptions,
    StreamConflictError,
    StreamMovedError,
    Writer,
    lease_key,
    open_publisher,
    stream_key,
)
from pipeline.publisher.subscription import Entry, StreamReader, subscribe

__all__ = [
    "CHANNEL",
    "NO_ENTRY",
    "NO_SERVER",
    "Backoff",
    "Delivery",
    "Entry",
    "LeaseHeldError",
    "Publisher",
    "PublisherError",
    "PublisherOptions",
    "RedisServer",
    "ServerAwayError",
    "StreamConflictError",
    "StreamMovedError",
    "StreamReader",
    "Writer",
    "drain",
    "lease_key",
    "open_publisher",
    "stream_key",
    "subscribe",
]
