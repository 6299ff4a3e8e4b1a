"""What every publisher promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline.record import Record

CHANNEL = "narrated:changes"
"""The Pub/Sub channel of all cameras."""


class PublisherError(Exception):
    """Publishing or subscribing failed; the message holds no secret and says what to do."""


class ServerAwayError(PublisherError):
    """The server cannot be reached or takes no writes now: try again later."""


class StreamConflictError(PublisherError):
    """The stream holds what this journal never wrote: trying again cannot help."""


@dataclass(frozen=True, slots=True)
class PublisherOptions:
    """How records are published.

    Attributes:
        maxlen: entries a stream keeps, about (``MAXLEN ~``).
        timeout_s: longest wait for the server to connect or to answer.
    """

    maxlen: int = 100_000
    timeout_s: float = 5.0


class Publisher(Protocol):
    """Publishes records of any camera in the order it is given them; not for several threads at once."""

    def publish(self, record: Record) -> None:
        """Publish one record; a record that is already published is not published again.

        Raises:
            ServerAwayError: the server cannot be reached or takes no writes now.
            StreamConflictError: another writer has written to the camera's stream.
        """
        ...

    def publish_many(self, records: Sequence[Record]) -> None:
        """Publish records of one camera in one round trip; raises as `publish` does."""
        ...

    def newest(self, camera: str) -> Record | None:
        """The camera's newest published record, None where there is none; raises as `publish` does."""
        ...

    def close(self) -> None:
        """Let the connection go; a publisher may be closed twice."""
        ...


def stream_key(camera: str) -> str:
    """The stream of one camera; the braces keep it on one slot of a cluster."""
    return f"narrated:{{{camera}}}:changes"
