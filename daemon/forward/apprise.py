"""The services that Apprise knows: phones, chats, mail, and web hooks that take JSON."""

import logging
import re
from pathlib import Path
from threading import get_ident
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import apprise

from daemon.config.secrets import reveal
from daemon.config.settings import AppriseSettings
from daemon.digest.digest import SHOWN, Digest
from daemon.forward.target import TIMEOUT_S, AwayError, Message, RefusedError, Target

_MAY_PASS = frozenset({401, 403, 404, 407, 408, 425, 429})
"""Not the message's fault: a password, an address or the hour is wrong."""

# Its errors are about addresses that it does not know, which may hold secrets.
logging.getLogger("apprise").addFilter(lambda record: record.levelno < logging.ERROR)


class AppriseTarget(Target):
    def __init__(self, settings: AppriseSettings, *_: Any) -> None:
        self._settings = settings
        self._service = _load(reveal(settings.url))
        self._service.socket_connect_timeout = self._service.socket_read_timeout = TIMEOUT_S

    @classmethod
    def check(cls, settings: AppriseSettings) -> str:
        known = _load(reveal(settings.url))
        return "" if known else "url: Apprise knows no such service; see its list, `apprise --details`"

    def send(self, message: Message) -> None:
        record = message.record
        if record.continues:  # no service changes a message that was sent
            return
        body = record.line().decode() if self._settings.message == "record" else message.text
        self._notify(record.camera, body, message.picture)

    def send_digest(self, digest: Digest) -> None:
        shown = digest.pictured if self._settings.picture != "none" else ()
        pictures = [each.pictures.get("overlay") or next(iter(each.pictures.values())) for each in shown]
        sentences = (f"* {each.text} ({each.named})".removesuffix(" ()") for each in digest.sentences[:SHOWN])
        lines = [*sentences, *digest.noted]
        self._notify(digest.title, "\n".join(lines), *pictures)

    def _notify(self, title: str, body: str, *pictures: Path | None) -> None:
        paths = [str(path) for path in pictures if path]
        attached = apprise.AppriseAttachment(paths) if paths else None
        fmt, own = "%(thread)d %(levelname)s %(message)s", f"^{get_ident()}"
        with apprise.LogCapture(level=logging.DEBUG, fmt=fmt) as log:
            if self._service.notify(body=body, title=title, attach=attached):
                return
        # `notify` gives no reason, and other targets log at the same time.
        statuses = re.findall(rf"{own} WARNING .*error=(\d{{3}})\b", log.getvalue(), re.MULTILINE)
        status = int(statuses[-1]) if statuses else 0
        # What a mail server says of this mail, and not of a login or an address.
        said = rf"{own} DEBUG Socket Exception: \((5\d\d), .*\n\d+ WARNING Sending email"
        if mail := re.search(said, log.getvalue(), re.MULTILINE):
            raise RefusedError(f"{self._service.service_name} answers {mail[1]}")
        if 300 <= status < 500 and status not in _MAY_PASS:  # noqa: PLR2004
            raise RefusedError(f"{self._service.service_name} answers {status}")
        reason = f"answers {status}" if status else "cannot be reached, or has not taken the notification"
        raise AwayError(f"{self._service.service_name} {reason}")


def _load(url: str) -> Any:
    """The service of an address; None where Apprise does not know it."""
    asset = apprise.AppriseAsset(app_id="narrated", async_mode=False, secure_logging=True)
    service = apprise.Apprise.instantiate(url, asset=asset)
    if service is None and url.startswith(("http://", "https://")):
        parts = urlsplit(url)  # Apprise passes on parameters that begin with -
        given = [(f"-{key}", value) for key, value in parse_qsl(parts.query)]
        query, scheme = urlencode([("redirect", "no"), *given]), parts.scheme.replace("http", "json")
        url = parts._replace(scheme=scheme, query=query).geturl()
        service = apprise.Apprise.instantiate(url, asset=asset)
    return service
