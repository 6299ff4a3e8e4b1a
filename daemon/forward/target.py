"""The interface of targets, and their errors; each kind is the module of its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ClassVar
from urllib.parse import urlsplit

from daemon.config.forward import TargetSettings
from daemon.config.secrets import Secrets
from daemon.forward.message import Message

Objects = Callable[[], Mapping[str, list[str]]]
"""Kinds of objects that a target was sent, by camera."""


class DeliveryError(Exception):
    """The target has not taken a message; the words hold no secret."""


class AwayError(DeliveryError):
    """The target cannot be reached, or takes nothing now: later it will.

    Attributes:
        retry_after_s: seconds after which the target asks to be tried again; 0 where it does not say.
    """

    def __init__(self, words: str, retry_after_s: float = 0.0) -> None:
        super().__init__(words)
        self.retry_after_s = retry_after_s


class RefusedError(DeliveryError):
    """The target does not want this message; others it may take."""


class Target(ABC):
    """Takes messages; for one thread.

    Attributes:
        updates: it shows the last message, and one that completes it can take its place.
        schemes: of its address.
    """

    updates: ClassVar[bool] = False
    schemes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def __init__(self, settings: Any, secrets: Secrets, name: str, objects: Objects) -> None:
        """Open it; raises `AwayError`."""

    @classmethod
    def check(cls, settings: Any, secrets: Secrets) -> str:
        """Why nothing can ever be sent as configured, without secrets; empty where it may."""
        try:
            address = urlsplit(secrets.reveal(settings.url))
            usable = address.scheme in cls.schemes and address.hostname and address.port != 0
        except ValueError:
            usable = False
        written = " or ".join(f"{scheme}://host" for scheme in cls.schemes)
        return "" if usable else f"url: write {written}, with a port if need be"

    @abstractmethod
    def send(self, message: Message) -> None:
        """Deliver: when this returns, the target has taken the message. Raises `DeliveryError`."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Close connections."""


def target_class(settings: TargetSettings) -> type[Target]:
    """The class of the target; raises `ModuleNotFoundError` where its library is not installed."""
    module = import_module(f"daemon.forward.{settings.kind}")
    found: type[Target] = getattr(module, f"{settings.kind.title()}Target")
    return found
