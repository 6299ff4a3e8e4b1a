"""The interface of targets, and their errors; each kind is the module of its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any

from daemon.config.secrets import Secrets
from daemon.config.settings import TargetSettings
from daemon.forward.message import Message

TIMEOUT_S = 10.0
"""Longest wait for a target."""


class DeliveryError(Exception):
    """The target has not taken a message; the words hold no secret."""


class AwayError(DeliveryError):
    """The target cannot be reached, or takes nothing now: later it will."""


class RefusedError(DeliveryError):
    """The target does not want this message; others it may take."""


class Target(ABC):
    """Takes messages; for one thread."""

    @abstractmethod
    def __init__(self, settings: Any, secrets: Secrets, name: str, cameras: list[str]) -> None:
        """Open it, for messages of these cameras; raises `AwayError`."""

    @classmethod
    @abstractmethod
    def check(cls, settings: Any, secrets: Secrets) -> str:
        """Why nothing can ever be sent as configured, without secrets; empty where it may."""

    @abstractmethod
    def send(self, message: Message) -> None:
        """Deliver: when this returns, the target has taken the message. Raises `DeliveryError`."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Close connections."""


def target_class(settings: TargetSettings) -> type[Target]:
    """The class of the target; raises `ModuleNotFoundError` where its library is not installed."""
    module = import_module(f"daemon.forward.{settings.kind}")
    target: type[Target] = getattr(module, f"{settings.kind.title()}Target")
    return target
