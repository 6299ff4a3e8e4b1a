"""Names on the server where edges and workers meet, and the connection to it."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import redis

from daemon.workers.messages import VERSION, EdgeCard, MessageError, WorkerCard, parsed
from pipeline.publisher.connection import RedisServer

GROUP = "workers"
TIMEOUT_S = 5.0
"""A server that says nothing for so long is away."""

CARD_S = 10
"""So long a worker or an edge counts as living after it last said so."""

_ROOT = f"narrated:{{workers}}:{VERSION}"


def asks_key(checkpoint: str) -> str:
    """Stream of the asks for one checkpoint (sha256, hex): who has another one never sees them."""
    return f"{_ROOT}:asks:{checkpoint[:16]}"


def pictures_key(ask: str) -> str:
    """Hash of an ask's pictures; while it is there, somebody still waits for the answer."""
    return f"{_ROOT}:pictures:{ask}"


def answers_key(edge: str) -> str:
    """Stream of the answers to an edge."""
    return f"{_ROOT}:answers:{edge}"


def claims_key(checkpoint: str) -> str:
    """How many asks for a checkpoint were taken over by another worker."""
    return f"{_ROOT}:claims:{checkpoint[:16]}"


def card_key(kind: str, name: str) -> str:
    """What a ``worker`` or ``edge`` says of itself; gone soon after it says nothing more."""
    return f"{_ROOT}:{kind}:{name}"


def own_name() -> str:
    """Of this process, not given twice: host, process, chance."""
    host = "".join(c if c.isalnum() or c in "._-" else "-" for c in socket.gethostname())[:64]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


class Broker(RedisServer):
    """The server where edges and workers meet."""

    def __init__(self, url: Callable[[], str]) -> None:
        super().__init__(url, TIMEOUT_S, text=False)

    def make_group(self, checkpoint: str) -> None:
        """The stream and its group, unless they are there; at the start, and after a server was flushed."""
        with self.asked() as client:
            try:
                client.xgroup_create(asks_key(checkpoint), GROUP, id="0", mkstream=True)
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise


def workers(broker: Broker) -> list[WorkerCard]:
    """The workers that live, by name."""
    return _cards(broker, "worker", WorkerCard)


def edges(broker: Broker) -> list[EdgeCard]:
    """The edges that live, by name."""
    return _cards(broker, "edge", EdgeCard)


def waiting(broker: Broker, checkpoint: str) -> tuple[int, int]:
    """Asks that are not answered, and those of them that a worker has in hand."""
    with broker.asked() as client:
        try:
            pending: Any = client.xpending(asks_key(checkpoint), GROUP)
        except redis.ResponseError:
            return 0, 0  # no stream yet, or no group
        held: Any = client.xlen(asks_key(checkpoint))
    return int(held), int(pending["pending"])


C = TypeVar("C", WorkerCard, EdgeCard)


def _cards(broker: Broker, kind: str, card: type[C]) -> list[C]:
    with broker.asked() as client:
        keys = list(client.scan_iter(card_key(kind, "*"), count=1000))
        texts: Any = client.mget(keys) if keys else []
    found = []
    for text in texts:
        try:
            found.append(parsed(card, text))
        except MessageError:
            continue  # it has gone meanwhile
    return sorted(found, key=lambda each: each.name)
