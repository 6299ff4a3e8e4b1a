"""The services that Apprise knows: phones, chats, mail."""

from __future__ import annotations

import logging
from typing import Any

from daemon.config.forward import AppriseSettings
from daemon.config.secrets import Secrets
from daemon.config.template import rendered
from daemon.forward.message import Message
from daemon.forward.target import AwayError, RefusedError, needed


class AppriseTarget:
    """Notifies one service; see `Target`. Apprise does not say why it failed: every failure may pass."""

    def __init__(self, settings: AppriseSettings, secrets: Secrets) -> None:
        self._settings = settings
        self._service = service(secrets.reveal(settings.url))
        if self._service is None:
            raise AwayError("Apprise does not know this address: see its list of services")
        for each in self._service:
            each.socket_connect_timeout = each.socket_read_timeout = settings.timeout
        self._kind = ", ".join(str(each.service_name) for each in self._service)

    def send(self, message: Message) -> None:
        """Notify; see `Target.send`."""
        values = message.values
        title, body = rendered(self._settings.title, values), rendered(self._settings.template, values)
        if not body.strip():
            raise RefusedError("the template is empty for this record")
        picture = str(message.picture) if message.picture else None
        if not self._service.notify(body=body, title=title, attach=picture):
            raise AwayError(f"{self._kind} has not taken the notification")

    def close(self) -> None:
        """Nothing is open between two messages."""


def service(url: str) -> Any:
    """Apprise with one address; None where it does not know what that is.

    Its own log is silenced: it shows addresses, which are secrets here.
    """
    apprise = needed("apprise")
    logging.getLogger("apprise").disabled = True
    asset = apprise.AppriseAsset(app_id="narrated", async_mode=False, secure_logging=True)
    made = apprise.Apprise(asset=asset)
    return made if made.add(url) and len(made) == 1 else None
