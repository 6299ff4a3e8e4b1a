"""The publisher: records go from the journal to a Redis stream and channel."""

from pipeline.publisher.connection import PublisherError
from pipeline.publisher.publisher import Delivery, Publisher
from pipeline.publisher.subscription import subscribe

__all__ = ["Delivery", "Publisher", "PublisherError", "subscribe"]
