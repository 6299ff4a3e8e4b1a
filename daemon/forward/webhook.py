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

from daemon import __version__
from daemon.config.forward import WebhookSettings
from daemon.config.secrets import Secrets
from daemon.config.template import rendered
from daemon.forward.message import Message
from daemon.forward.target import AwayError, RefusedError, needed

_OK, _REDIRECTED, _BAD, _FAILING = 200, 300, 400, 500
_HOLDING = frozenset({401, 403, 404, 407, 408, 425, 429})
"""Not the message's fault: a password, an address or the hour is wrong."""

_PREFIX = "whsec_"


class WebhookTarget:
    """Posts messages; see `Target`."""

    def __init__(self, settings: WebhookSettings, secrets: Secrets) -> None:
        self._httpx = needed("httpx")
        self._settings = settings
        self._url = self._httpx.URL(secrets.reveal(settings.url))
        self._key = signing_key(secrets.reveal(settings.secret)) if settings.secret else None
        headers = {name: secrets.reveal(text) for name, text in settings.headers.items()}
        self._client = self._httpx.Client(
            timeout=settings.timeout,
            follow_redirects=False,  # the key's owner named one address
            verify=ssl.create_default_context(cafile=settings.ca),
            headers={"user-agent": f"narrated/{__version__}", **headers},
        )

    def send(self, message: Message) -> None:
        """Post it; see `Target.send`."""
        settings = self._settings
        body = rendered(settings.body, message.values).encode() if settings.body else self._json(message)
        kind = settings.content_type if settings.body else "application/json"
        identity = message.record.id.replace(".", "_")  # the dot parts what is signed
        headers = {"content-type": kind, "webhook-id": identity, "webhook-timestamp": str(int(time.time()))}
        if self._key is not None:
            headers["webhook-signature"] = signature(self._key, identity, headers["webhook-timestamp"], body)
        try:
            request = self._client.build_request("POST", self._url, content=body, headers=headers)
            answer = self._client.send(request, stream=True)  # the status is all that counts
            answer.close()
        except (self._httpx.TransportError, OSError) as error:
            raise AwayError(
                f"{self._url.host} cannot be reached: {str(error) or type(error).__name__}"
            ) from None
        self._judge(answer)

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()

    def _judge(self, answer: Any) -> None:
        status, words = (
            answer.status_code,
            f"{self._url.host} answers {answer.status_code} {answer.reason_phrase}",
        )
        if _OK <= status < _REDIRECTED:
            return
        if _REDIRECTED <= status < _BAD:
            raise RefusedError(f"{words}: it redirects: give the address that it redirects to")
        if status in _HOLDING or status >= _FAILING:
            raise AwayError(words, _after_s(answer.headers.get("retry-after", "")))
        raise RefusedError(words)

    def _json(self, message: Message) -> bytes:
        values = message.values
        body = {key: values[key] for key in ("id", "camera", "event", "sentences", "objects", "record")}
        body["time"] = message.record.after.time
        body["text"] = rendered(self._settings.template, values)
        if picture := message.picture_bytes():
            body["picture"] = {"type": message.picture_type, "base64": base64.b64encode(picture).decode()}
        return json.dumps(body, ensure_ascii=False).encode()


def signing_key(text: str) -> bytes:
    """The bytes of a key: Base64 behind ``whsec_``, else the text itself."""
    try:
        return (
            base64.b64decode(text.removeprefix(_PREFIX), validate=True) if _PREFIX in text else text.encode()
        )
    except binascii.Error:
        return text.encode()


def signature(key: bytes, identity: str, timestamp: str, body: bytes) -> str:
    """The header ``webhook-signature`` of version 1."""
    signed = hmac.new(key, f"{identity}.{timestamp}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(signed.digest()).decode()


def _after_s(text: str) -> float:
    """Seconds of the header ``Retry-After``: a number, or a date."""
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
