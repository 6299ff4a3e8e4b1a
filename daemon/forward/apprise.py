"""The services that Apprise knows: phones, chats, mail."""

from __future__ import annotations

import logging
from typing import Any

import apprise

from daemon.config.forward import AppriseSettings
from daemon.config.secrets import Secrets
from daemon.config.template import render
from daemon.forward.message import Message
from daemon.forward.target import AwayError, RefusedError, Target


class AppriseTarget(Target):
    """Notifies one service. Apprise does not say why it failed: every failure may pass."""

    def __init__(self, settings: AppriseSettings, secrets: Secrets, *_: Any) -> None:
        self._settings = settings
        self._service = _load(secrets.reveal(settings.url))
        for each in self._service:
            each.socket_connect_timeout = each.socket_read_timeout = settings.timeout
        self._kind = ", ".join(str(each.service_name) for each in self._service)

    @classmethod
    def check(cls, settings: AppriseSettings, secrets: Secrets) -> str:
        """See `Target.check`."""
        known = _load(secrets.reveal(settings.url))
        return "" if known else "url: Apprise knows no such service; see its list, `apprise --details`"

    def send(self, message: Message) -> None:
        """Notify; see `Target.send`."""
        values = message.values
        title, body = render(self._settings.title, values), render(self._settings.template, values)
        if not body.strip():
            raise RefusedError("the template is empty for this record")
        picture = str(message.picture) if message.picture else None
        if not self._service.notify(body=body, title=title, attach=picture):
            raise AwayError(f"{self._kind} has not taken the notification")


def _load(url: str) -> Any:
    """Apprise with one address, empty where it does not know it; its log, which shows it, is silenced."""
    logging.getLogger("apprise").disabled = True
    asset = apprise.AppriseAsset(app_id="narrated", async_mode=False, secure_logging=True)
    service = apprise.Apprise(asset=asset)
    service.add(url)
    return service
