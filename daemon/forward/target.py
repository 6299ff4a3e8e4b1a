"""What every kind of target does, and how it fails."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from daemon.forward.message import Message

EXTRA = "pip install 'narrated[forward]'"


class DeliveryError(Exception):
    """The target has not taken a message; the words hold no secret."""


class AwayError(DeliveryError):
    """The target cannot be reached, or takes nothing now: later it will.

    Attributes:
        after_s: seconds after which the target asks to be tried again; 0 where it does not say.
    """

    def __init__(self, words: str, after_s: float = 0.0) -> None:
        super().__init__(words)
        self.after_s = after_s


class RefusedError(DeliveryError):
    """The target does not want this message; others it may take."""


class MissingExtraError(Exception):
    """A library that a kind of target needs is not installed."""


class Target(Protocol):
    """Takes messages; for one thread."""

    def send(self, message: Message) -> None:
        """Deliver; when this returns, the target has taken the message.

        Raises:
            AwayError: nothing can be delivered now.
            RefusedError: this message cannot.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


Seen = Callable[[], dict[str, list[str]]]
"""Cameras of which a target has been sent something, each with the objects it was told of."""


def needed(module: str) -> Any:
    """A library of the extra.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtraError(f"forwarding needs {package}: {EXTRA}") from None
