"""The publisher: records go from the journal to a Redis stream and channel."""

from pipeline.publisher.connection import PublisherError, RedisServer
from pipeline.publisher.publisher import Delivery
from pipeline.publisher.subscription import subscribe

__all__ = ["Delivery", "PublisherError", "RedisServer", "subscribe"]
