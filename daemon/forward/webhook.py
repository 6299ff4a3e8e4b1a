"""A POST to an address, signed as Standard Webhooks has it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import ssl
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from daemon import __version__
from daemon.config.forward import WebhookSettings
from daemon.config.secrets import Secrets
from daemon.config.template import render
from daemon.forward.message import Message
from daemon.forward.target import AwayError, RefusedError, Target

_HOLDING = frozenset({401, 403, 404, 407, 408, 425, 429})
"""Not the message's fault: a password, an address or the hour is wrong."""

_PREFIX = "whsec_"


class WebhookTarget(Target):
    """Posts messages."""

    schemes = ("https", "http")

    def __init__(self, settings: WebhookSettings, secrets: Secrets, *_: Any) -> None:
        self._settings = settings
        self._url = httpx.URL(secrets.reveal(settings.url))
        self._key = signing_key(secrets.reveal(settings.secret)) if settings.secret else None
        headers = {name: secrets.reveal(text) for name, text in settings.headers.items()}
        self._client = httpx.Client(
            timeout=settings.timeout,
            follow_redirects=False,  # the key's owner named one address
            verify=ssl.create_default_context(cafile=settings.ca),
            headers={"user-agent": f"narrated/{__version__}", **headers},
        )

    def send(self, message: Message) -> None:
        """Post it; see `Target.send`."""
        settings = self._settings
        body = render(settings.body, message.values).encode() if settings.body else self._json(message)
        kind = settings.content_type if settings.body else "application/json"
        identity = message.record.id.replace(".", "_")  # the dot parts what is signed
        headers = {"content-type": kind, "webhook-id": identity, "webhook-timestamp": str(int(time.time()))}
        if self._key is not None:
            signed = f"{identity}.{headers['webhook-timestamp']}.".encode() + body
            digest = hmac.new(self._key, signed, hashlib.sha256).digest()
            headers["webhook-signature"] = "v1," + base64.b64encode(digest).decode()
        try:
            with self._client.stream("POST", self._url, content=body, headers=headers) as response:
                self._check_status(response)  # the body is not read
        except (httpx.TransportError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise AwayError(f"{self._url.host} cannot be reached: {reason}") from None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _check_status(self, response: httpx.Response) -> None:
        words = f"{self._url.host} answers {response.status_code} {response.reason_phrase}"
        if response.status_code in _HOLDING or response.is_server_error:
            raise AwayError(words, _retry_after_s(response.headers.get("retry-after", "")))
        if response.is_redirect:
            raise RefusedError(f"{words}: it redirects: give the address that it redirects to")
        if not response.is_success:
            raise RefusedError(words)

    def _json(self, message: Message) -> bytes:
        values = message.values
        body = {key: values[key] for key in ("id", "camera", "event", "sentences", "objects", "record")}
        body["time"] = message.record.after.time
        body["text"] = render(self._settings.template, values)
        if picture := message.picture_bytes():
            body["picture"] = {"type": message.picture_type, "base64": base64.b64encode(picture).decode()}
        return json.dumps(body, ensure_ascii=False).encode()


def signing_key(text: str) -> bytes:
    """The bytes of a key: Base64 behind ``whsec_``, else the text itself."""
    try:
        if text.startswith(_PREFIX):
            return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        pass
    return text.encode()


def _retry_after_s(text: str) -> float:
    """Seconds of the header ``Retry-After``: a number, or a date."""
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
