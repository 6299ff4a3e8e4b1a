"""The publisher: records go from the journal to a Redis stream and channel."""

from pipeline.publisher.delivery import Delivery, DeliveryOptions, Outage, drain
from pipeline.publisher.publisher import (
    CHANNEL,
    NO_ENTRY,
    LeaseHeldError,
    Publisher,
    PublisherError,
    PublisherOptions,
    ServerAwayError,
    StreamConflictError,
    StreamMovedError,
    Writer,
    lease_key,
    stream_key,
)
from pipeline.publisher.subscription import subscribe
from pipeline.publisher.url import NO_SERVER, open_publisher

__all__ = [
    "CHANNEL",
    "NO_ENTRY",
    "NO_SERVER",
    "Delivery",
    "DeliveryOptions",
    "LeaseHeldError",
    "Outage",
    "Publisher",
    "PublisherError",
    "PublisherOptions",
    "ServerAwayError",
    "StreamConflictError",
    "StreamMovedError",
    "Writer",
    "drain",
    "lease_key",
    "open_publisher",
    "stream_key",
    "subscribe",
]
