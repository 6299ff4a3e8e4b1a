"""Web hooks, commands and services: what they are sent, and what becomes of their answers."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import narrations
import pytest
import standardwebhooks
from forwarding_here import Camera, Receiver, forwarding
from waiting import until

from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.config.forward import AppriseSettings, WebhookSettings
from daemon.config.secrets import Secrets
from daemon.forward import webhook
from daemon.forward.forwarder import check
from daemon.forward.message import Message
from daemon.forward.target import AwayError, RefusedError, target_class
from pipeline.evidence import EvidenceStore
from pipeline.record import ChainEnd, Evidence, Record, build_record

JPEG = b"\xff\xd8\xff\xe0 a picture"
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


def record(**changed: Any) -> Record:
    return build_record(narrations.narration(**changed), ChainEnd())


def message(picture: Path | None = None, **changed: Any) -> Message:
    told = record(**changed)
    return Message(told, told.sentences, picture)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.jpg"
    path.write_bytes(JPEG)
    return path


def opened(settings: Any, **environment: str) -> Any:
    return target_class(settings)(settings, Secrets(environment), "it", dict)


def test_a_web_hook_gets_everything_and_a_signature_that_others_can_check(
    receiver: Receiver, picture: Path
) -> None:
    settings = WebhookSettings(
        url=receiver.url,
        secret="${env:KEY}",
        template="{{ camera }}: {{ text }}",
        headers={"Authorization": "Bearer ${env:TOKEN}"},
    )
    opened(settings, KEY=SECRET, TOKEN="t0k3n").send(message(picture, id="yard-1.000Z"))
    headers, body = receiver.requests[0]
    told = standardwebhooks.Webhook(SECRET).verify(body, headers)
    assert told["text"] == "yard: A car has appeared."
    assert told["id"] == "yard-1.000Z"
    assert headers["webhook-id"] == "yard-1_000Z"
    assert headers["authorization"] == "Bearer t0k3n"
    assert told["picture"] == {"type": "image/jpeg", "base64": base64.b64encode(JPEG).decode()}
    assert told["record"]["hash"] == record(id="yard-1.000Z").hash
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(SECRET).verify(body.replace(b"car", b"cat"), headers)


def test_a_key_may_be_any_text() -> None:
    assert webhook.signing_key("plain text") == b"plain text"
    assert webhook.signing_key("whsec_no base64") == b"whsec_no base64"


def test_a_body_of_ones_own(receiver: Receiver) -> None:
    settings = WebhookSettings(url=receiver.url, body='{"content": {{ text | tojson }}}')
    told = message(
        sentences=(narrations.narration().sentences[0].__class__('"Hi" \\', "moved", "car", None, 1, 1),)
    )
    opened(settings).send(told)
    headers, body = receiver.requests[0]
    assert json.loads(body) == {"content": '"Hi" \\'}
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, None),
        (299, None),
        (302, RefusedError),
        (400, RefusedError),
        (413, RefusedError),
        (401, AwayError),
        (404, AwayError),
        (429, AwayError),
        (500, AwayError),
        (503, AwayError),
    ],
)
def test_answers(receiver: Receiver, status: int, error: type[Exception] | None) -> None:
    hook = opened(WebhookSettings(url=receiver.url))
    receiver.status, receiver.answers = status, {"location": "http://127.0.0.1:1/elsewhere"}
    if error is None:
        hook.send(message())
        return
    with pytest.raises(error, match=f"^127.0.0.1 answers {status} ") as caught:
        hook.send(message())
    assert "s3cr3tpath" not in str(caught.value)
    assert len(receiver.requests) == 1  # a redirection is not followed


def test_the_hour_to_come_again() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100))
    assert 90 < webhook._retry_after_s(soon) <= 100
    assert [webhook._retry_after_s(text) for text in ("7", "", "soon")] == [7.0, 0.0, 0.0]


def test_a_web_hook_that_says_nothing(receiver: Receiver) -> None:
    receiver.delay_s = 5
    with pytest.raises(AwayError, match="cannot be reached: timed out"):
        opened(WebhookSettings(url=receiver.url, timeout="100ms")).send(message())
    receiver.stop()
    with pytest.raises(AwayError, match=r"127\.0\.0\.1 cannot be reached") as caught:
        opened(WebhookSettings(url=receiver.url)).send(message())
    assert "s3cr3tpath" not in str(caught.value)


def test_apprise_sends_title_text_and_picture(receiver: Receiver, picture: Path) -> None:
    """Its own web hook stands for the hundred services: what arrives has gone through Apprise."""
    settings = AppriseSettings(
        url="${env:PHONE}", title="{{ camera }} at {{ time.strftime('%H:%M') }}", template="{{ text }}"
    )
    phone = opened(settings, PHONE=f"json://127.0.0.1:{receiver.port}/s3cr3t")
    told = record()
    phone.send(Message(told, told.sentences, picture, UTC))
    body = json.loads(receiver.requests[0][1])
    assert (body["title"], body["message"]) == ("yard at 00:00", "A car has appeared.")
    assert base64.b64decode(body["attachments"][0]["base64"]) == JPEG
    receiver.status = 500
    with pytest.raises(AwayError, match="JSON has not taken the notification"):
        phone.send(message())


def test_the_picture_is_the_one_of_the_record(
    configure: Callable[..., Path], camera: Callable[..., Camera], receiver: Receiver, tmp_path: Path
) -> None:
    store = EvidenceStore(tmp_path / "state" / "evidence", fsync=False)
    after, overlay = store.put(JPEG, "jpg"), store.put(b"RIFF webp", "webp")
    path = configure(
        f"  webhook:\n    a: {{url: '{receiver.url}', picture: overlay}}\n"
        f"    b: {{url: '{receiver.url}', picture: after}}\n    c: {{url: '{receiver.url}', picture: none}}\n"
        f"    d: {{url: '{receiver.url}', picture: before}}\n"
    )
    with forwarding(path):
        yard = camera()
        yard.tell(evidence=Evidence(after=after, overlay=overlay))
        until(lambda: len(receiver.taken) == 4)
        found = sorted(json.dumps(body.get("picture", {}).get("type")) for body in receiver.taken)
        assert found == ['"image/jpeg"', '"image/webp"', '"image/webp"', "null"]
        yard.tell(evidence=Evidence(after="sha256:" + hashlib.sha256(b"gone").hexdigest()))
        until(lambda: len(receiver.taken) == 8)  # a picture that retention took holds nothing up
    assert all("picture" not in body for body in receiver.taken[4:])


def test_secrets_show_nowhere(
    configure: Callable[..., Path],
    camera: Callable[..., Camera],
    receiver: Receiver,
    start_forward: Callable[..., subprocess.Popen[str]],
    narrated: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not in the log at its most talkative, in `ps`, among dead letters, or in the configuration shown."""
    monkeypatch.setenv("HOOK", receiver.url)
    monkeypatch.setenv("KEY", "hunter2hunter2")
    monkeypatch.setenv("PHONE", f"json://me:passw0rd@127.0.0.1:{receiver.port}/t0k3n")
    path = configure(
        "  webhook:\n    office: {url: '${env:HOOK}', secret: '${env:KEY}', attempts: 1}\n"
        f"    open: {{url: '{receiver.url}', headers: {{X: plainkey}}, attempts: 1}}\n"
        "  apprise:\n    phone: {url: '${env:PHONE}'}\n"
    )
    receiver.status = 400
    process = start_forward(path, "-v", "--from-start")
    camera().tell()
    until(lambda: len(receiver.requests) >= 3)
    dead: list[dict[str, Any]] = []

    def buried() -> bool:
        dead[:] = [
            json.loads(line) for line in narrated("forward", "-c", path, "--dead", "--json").out.splitlines()
        ]
        return len(dead) == 2

    until(buried)
    arguments = Path(f"/proc/{process.pid}/cmdline").read_text()
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "dead letter" in err
    checked = narrated("check-config", "-c", path)
    assert checked.code == 0, checked.err
    for secret in ("s3cr3tpath", "hunter2", "passw0rd", "t0k3n", "plainkey"):
        for where in (out, err, arguments, json.dumps(dead), checked.out + checked.err):
            assert secret not in where


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        (
            "  webhook: {a: {url: 'https://${env:ABSENT}@h/'}}\n",
            "forward.webhook.a.url: the secret ${env:ABSENT}",
        ),
        ("  webhook: {a: {url: 'ftp://h/s3cr3t'}}\n", "forward target a: url: write https://host"),
        ("  mqtt: {a: {url: 'mqtt:///s3cr3t'}}\n", "forward target a: url: write mqtt://host"),
        ("  apprise: {a: {url: 'carrierpigeon://s3cr3t'}}\n", "forward target a: url: Apprise knows no such"),
        ("  webhook: {}\n", "forward: names no target"),
    ],
)
def test_what_cannot_work_ends_at_once(
    configure: Callable[..., Path], narrated: Callable[..., Any], targets: str, told: str
) -> None:
    done = narrated("forward", "-c", configure(targets))
    assert done.code == 78
    assert told in done.err
    assert "s3cr3t" not in done.err


def test_an_embedded_server_cannot_be_read(configure: Callable[..., Path], receiver: Receiver) -> None:
    path = configure(f"  webhook: {{a: {{url: '{receiver.url}'}}}}\n")
    path.write_text(re.sub(r"url: 'unix.*?'", "url: embedded", path.read_text()))
    with pytest.raises(ConfigurationError, match=r"redis\.url: forwarding reads the streams of a server"):
        check(load_configuration(path), Secrets())
