"""What every kind of target does, and how it fails."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from shutil import which
from typing import Any, Protocol
from urllib.parse import urlsplit

from daemon.config.forward import (
    AppriseSettings,
    CommandSettings,
    MqttSettings,
    TargetSettings,
    WebhookSettings,
)
from daemon.config.secrets import Secrets
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


def open_target(name: str, settings: TargetSettings, secrets: Secrets, seen: Seen) -> Target:
    """The target that the settings describe; secrets are read anew, so that a changed one is found.

    Raises:
        SecretError: a secret cannot be had.
        MissingExtraError: its library is not installed.
        AwayError: it cannot be opened now.
        RefusedError: its address is of no use.
    """
    match settings:
        case MqttSettings():
            from daemon.forward.mqtt import MqttTarget  # noqa: PLC0415 - each kind loads its own library

            return MqttTarget(name, settings, secrets, seen)
        case WebhookSettings():
            from daemon.forward.webhook import WebhookTarget  # noqa: PLC0415

            return WebhookTarget(settings, secrets)
        case CommandSettings():
            from daemon.forward.command import CommandTarget  # noqa: PLC0415

            return CommandTarget(settings, secrets)
        case AppriseSettings():
            from daemon.forward.apprise import AppriseTarget  # noqa: PLC0415

            return AppriseTarget(settings, secrets)
    raise TypeError(type(settings))


def fault(settings: TargetSettings, secrets: Secrets) -> str:
    """Why the target can never be sent anything, as it is configured; empty where it may.

    Nothing is connected to.

    Raises:
        MissingExtraError: its library is not installed.
    """
    match settings:
        case MqttSettings():
            needed("paho.mqtt.client")
            return _url_fault(secrets.reveal(settings.url), ("mqtt", "mqtts"))
        case WebhookSettings():
            needed("httpx")
            return _url_fault(secrets.reveal(settings.url), ("https", "http"))
        case CommandSettings():
            program = settings.run[0]
            return "" if which(program) else f"run: there is no program {program} that this user may run"
        case AppriseSettings():
            from daemon.forward.apprise import service  # noqa: PLC0415 - see above

            known = service(secrets.reveal(settings.url))
            return "" if known else "url: Apprise knows no such service; see its list, `apprise --details`"
    return ""


def _url_fault(url: str, schemes: tuple[str, ...]) -> str:
    """What is wrong with an address, without the address."""
    try:
        address = urlsplit(url)
        usable = address.scheme in schemes and address.hostname and (address.port is None or address.port)
    except ValueError:
        usable = False
    return "" if usable else f"url: write {schemes[0]}://host or {schemes[1]}://host, with a port if need be"


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
