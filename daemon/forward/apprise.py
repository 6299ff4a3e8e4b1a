"""The services that Apprise knows: phones, chats, mail, and web hooks that take JSON."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import apprise

from daemon.config.secrets import Secrets
from daemon.config.settings import AppriseSettings
from daemon.digest.digest import SHOWN, Digest
from daemon.forward.target import TIMEOUT_S, AwayError, Message, RefusedError, Target

_STATUS = re.compile(r"error=(\d{3})\b")
_MAY_PASS = frozenset({401, 403, 404, 407, 408, 425, 429})
"""Not the message's fault: a password, an address or the hour is wrong."""


class AppriseTarget(Target):
    """One service."""

    def __init__(self, settings: AppriseSettings, secrets: Secrets, *_: Any) -> None:
        self._settings = settings
        self._service = _load(secrets.reveal(settings.url))
        for each in self._service:
            each.socket_connect_timeout = each.socket_read_timeout = TIMEOUT_S
        self._kind = ", ".join(str(each.service_name) for each in self._service)

    @classmethod
    def check(cls, settings: AppriseSettings, secrets: Secrets) -> str:
        known = _load(secrets.reveal(settings.url))
        return "" if known else "url: Apprise knows no such service; see its list, `apprise --details`"

    def send(self, message: Message) -> None:
        record = message.record
        body = record.line().decode() if self._settings.message == "record" else message.text
        self._notify(record.camera, body, message.picture)

    def send_digest(self, digest: Digest) -> None:
        pictures = digest.pictured[0].pictures if digest.pictured and self._settings.picture != "none" else {}
        body = "\n".join(f"* {each.text}" for each in digest.sentences[:SHOWN])
        self._notify(digest.title, body, pictures.get("overlay") or next(iter(pictures.values()), None))

    def _notify(self, title: str, body: str, path: Path | None) -> None:
        picture = apprise.AppriseAttachment(str(path)) if path else None
        _statuses.last.status = 0
        # Not `Apprise.notify`, which may send in another thread.
        if all(each.notify(body=body, title=title, attach=picture) for each in self._service):
            return
        status = _statuses.last.status
        if 300 <= status < 500 and status not in _MAY_PASS:  # noqa: PLR2004
            raise RefusedError(f"{self._kind} answers {status}")
        reason = f"answers {status}" if status else "cannot be reached, or has not taken the notification"
        raise AwayError(f"{self._kind} {reason}")


class _Statuses(logging.Filter):
    """Reads HTTP statuses from Apprise's log, by thread: `notify` returns no reason.

    Nothing else becomes of the log: it shows addresses, which are secrets.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        if status := _STATUS.search(record.getMessage()):
            self.last.status = int(status[1])
        return False


_statuses = _Statuses()
logging.getLogger("apprise").addFilter(_statuses)


def _load(url: str) -> Any:
    """Apprise with one address, empty where it does not know it."""
    asset = apprise.AppriseAsset(app_id="narrated", async_mode=False, secure_logging=True)
    service = apprise.Apprise(asset=asset)
    if not service.add(url) and url.startswith(("http://", "https://")):
        parts = urlsplit(url)  # Apprise passes on parameters that begin with -
        given = [(f"-{key}", value) for key, value in parse_qsl(parts.query)]
        query, scheme = urlencode([("redirect", "no"), *given]), parts.scheme.replace("http", "json")
        service.add(parts._replace(scheme=scheme, query=query).geturl())
    return service
