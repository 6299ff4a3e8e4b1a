"""What every publisher promises."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.record import Record

CHANNEL = "narrated:changes"
"""The Pub/Sub channel of all cameras."""

NO_ENTRY = "0-0"
"""The last id of a stream that does not exist."""


class PublisherError(Exception):
    """Publishing or subscribing failed; the message holds no secret and says what to do."""


class ServerAwayError(PublisherError):
    """The server cannot be reached or takes no writes now: try again later."""


class RightsError(PublisherError):
    """The server's user lacks a right; the message says which one an administrator has to grant."""


class LeaseHeldError(PublisherError):
    """Another writer holds the lease of the camera's stream: try again when it may have run out."""


class StreamConflictError(PublisherError):
    """The stream holds newer entries that this journal never wrote: nothing can be added behind them."""


class StreamMovedError(PublisherError):
    """The stream does not end where the journal thinks it does; nothing was written.

    Attributes:
        last_id: the largest id that the stream ever had, `NO_ENTRY` where there is no stream.
    """

    def __init__(self, message: str, last_id: str) -> None:
        super().__init__(message)
        self.last_id = last_id


@dataclass(frozen=True, slots=True)
class PublisherOptions:
    """How records are published.

    Attributes:
        maxlen: entries a stream keeps, about (``MAXLEN ~``).
        timeout_s: longest wait for the server to connect or to answer.
        lease_s: how long a writer that says nothing keeps the stream to itself.
    """

    maxlen: int = 100_000
    timeout_s: float = 5.0
    lease_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes to a camera's stream: its name is what the lease is held under.

    Attributes:
        camera: whose stream.
        token: the same for every run on the same journal.
    """

    camera: str
    token: str = field(default_factory=lambda: secrets.token_hex(16))


class Publisher(Protocol):
    """Publishes records of any camera in the order it is given them; not for several threads at once."""

    @property
    def maxlen(self) -> int:
        """Entries that a stream keeps, about."""
        ...

    def publish(self, writer: Writer, lines: Sequence[bytes], behind: str, quiet: int = 0) -> None:
        """Add records to the camera's stream in one transaction, all or none, and renew the lease.

        Args:
            writer: must hold the lease of the stream, or take it now.
            lines: records of the camera, rising, as canonical JSON; none renews the lease only.
            behind: the largest id that the stream has had so far, `NO_ENTRY` if none.
            quiet: so many of the first lines are not said on the channel again.

        Raises:
            ServerAwayError: the server cannot be reached or takes no writes now. The lines may have been
                published all the same, if the answer was lost; then the stream has moved.
            LeaseHeldError: another writer writes to this stream.
            StreamMovedError: the stream ends elsewhere.
            PublisherError: the server refuses for a reason that does not pass.
        """
        ...

    def entry(self, camera: str, stream_id: str) -> Record | None:
        """The record under an id of the camera's stream; None where there is none, or none of ours.

        Raises:
            ServerAwayError, PublisherError: as `publish`.
        """
        ...

    def following(self, camera: str, stream_id: str, count: int) -> Sequence[tuple[str, bytes]]:
        """At most `count` entries of the camera's stream behind an id: their ids, and the lines they hold.

        What another program has put there may be anything, or empty.

        Raises:
            ServerAwayError, PublisherError: as `publish`.
        """
        ...

    def release(self, writer: Writer) -> None:
        """Give up the lease, if the writer holds it."""
        ...

    def close(self) -> None:
        """Let the connection go; a publisher may be closed twice."""
        ...


def stream_key(camera: str) -> str:
    """The stream of one camera; the braces keep it on one slot of a cluster."""
    return f"narrated:{{{camera}}}:changes"


def lease_key(camera: str) -> str:
    """Who writes to the camera's stream; on the same slot as the stream."""
    return f"narrated:{{{camera}}}:writer"
