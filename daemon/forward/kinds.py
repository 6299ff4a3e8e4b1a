"""Which class a target of the configuration is, and whether it could ever be sent anything."""

from __future__ import annotations

from shutil import which
from urllib.parse import urlsplit

from daemon.config.forward import (
    AppriseSettings,
    CommandSettings,
    MqttSettings,
    TargetSettings,
    WebhookSettings,
)
from daemon.config.secrets import Secrets
from daemon.forward.target import Seen, Target, needed


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
