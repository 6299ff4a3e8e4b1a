"""Services: what they are sent, and what becomes of their answers."""

import base64
import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import pytest
import redis
from forwarding_here import forwarding, message
from waiting import LIMIT_S, until

from daemon.config.settings import AppriseSettings
from daemon.forward import apprise
from daemon.forward.forwarder import dead_letter_key
from daemon.forward.target import AwayError, RefusedError
from pipeline.evidence import EvidenceStore
from pipeline.record import Evidence

JPEG = b"\xff\xd8\xff\xe0 a picture"


def opened(url: str, **settings: Any) -> apprise.AppriseTarget:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("URL", url)
        return apprise.AppriseTarget(AppriseSettings(url="${env:URL}", **settings))


def test_a_web_hook_gets_title_text_and_picture_as_json(receiver, tmp_path):
    (tmp_path / "picture.jpg").write_bytes(JPEG)
    opened(f"{receiver.url}?token=s3cr3t").send(message(tmp_path / "picture.jpg"))
    path, body = receiver.requests[0][0], json.loads(receiver.requests[0][1])
    assert path == "/hook/s3cr3tpath?token=s3cr3t"
    assert (body["title"], body["message"]) == ("yard", "A car has appeared.")
    assert base64.b64decode(body["attachments"][0]["base64"]) == JPEG
    assert body["attachments"][0]["mimetype"] == "image/jpeg"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, None),
        *((status, RefusedError) for status in (302, 400)),
        *((status, AwayError) for status in (401, 429, 503)),
    ],
)
def test_answers(receiver, status, error):
    receiver.status, receiver.location = status, "http://127.0.0.1:1/elsewhere"
    if error is None:
        opened(receiver.url).send(message())
        return
    with pytest.raises(error, match=f"^JSON answers {status}$"):
        opened(receiver.url).send(message())
    assert len(receiver.requests) == 1  # a redirection is not followed


@contextmanager
def mail_server(**replies: str) -> Iterator[str]:
    """Its address for Apprise; it says to a command what the replies say, and else takes a mail."""
    said = {"EHLO": "250 here", "DATA": "354 go on", ".": "250 taken", **replies}

    def serve() -> None:
        with listening.accept()[0] as connection, connection.makefile("rw", newline="\r\n") as file:
            reply: str | None = said.get("connect", "220 here")
            is_body = False
            while line := _say(file, reply):
                command = line.upper().split()[0] if line.strip() else ""
                is_body = command == "DATA" or (is_body and command != ".")
                reply = None if is_body and command != "DATA" else said.get(command, "250 fine")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"mailto://127.0.0.1:{listening.getsockname()[1]}?from=a@b.example&to=c@d.example&mode=insecure"
        thread.join()


def _say(file: TextIO, reply: str | None) -> str:
    """The line that follows on a reply, or on none."""
    if reply:
        file.write(f"{reply}\n")
        file.flush()
    return file.readline()


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ({}, None),
        ({".": "554 spam"}, RefusedError),
        ({"MAIL": "552 too large"}, RefusedError),
        ({".": "451 later"}, AwayError),
        ({"RCPT": "550 who is that"}, AwayError),
        ({"connect": "554 not you"}, AwayError),
    ],
)
def test_a_mail_that_is_refused_holds_no_other_up(replies, error):
    with mail_server(**replies) as url:
        if error is None:
            opened(url).send(message())
            return
        with pytest.raises(error):
            opened(url).send(message())


def test_a_service_that_says_nothing_is_away(receiver, monkeypatch):
    monkeypatch.setattr(apprise, "TIMEOUT_S", 0.1)
    receiver.delay_s = 5
    with pytest.raises(AwayError, match="JSON cannot be reached") as caught:
        opened(receiver.url).send(message())
    assert "s3cr3tpath" not in str(caught.value)


def test_the_picture_is_the_one_of_the_record(configure, camera, receiver, tmp_path):
    store = EvidenceStore(tmp_path / "state" / "evidence", fsync=False)
    after, overlay = store.put(JPEG, "jpg"), store.put(b"RIFF webp", "webp")
    path = configure(
        f"  apprise:\n    a: {{url: '{receiver.url}', picture: overlay}}\n"
        f"    b: {{url: '{receiver.url}', picture: after}}\n    c: {{url: '{receiver.url}', picture: none}}\n"
        f"    d: {{url: '{receiver.url}', picture: before}}\n"
    )
    with forwarding(path):
        yard = camera()
        yard.narrate(evidence=Evidence(after=after, overlay=overlay))
        until(lambda: len(receiver.taken) == 4)
        sent = sorted(str([each["mimetype"] for each in body["attachments"]]) for body in receiver.taken)
        assert sent == ["['image/jpeg']", "['image/webp']", "['image/webp']", "[]"]
        yard.narrate(evidence=Evidence(after="sha256:" + hashlib.sha256(b"gone").hexdigest()))
        until(lambda: len(receiver.taken) == 8)  # a picture that retention took holds nothing up
    assert not any(body["attachments"] for body in receiver.taken[4:])


def test_secrets_show_nowhere(configure, camera, receiver, forked, narrated, redis_server, monkeypatch):
    """Not in the log, among dead letters, or in the configuration shown."""
    monkeypatch.setenv("HOOK", receiver.url)
    monkeypatch.setenv("PHONE", f"json://me:passw0rd@127.0.0.1:{receiver.port}/t0k3n")
    path = configure(
        "  apprise:\n    office: {url: '${env:HOOK}'}\n    phone: {url: '${env:PHONE}'}\n"
        f"    open: {{url: 'json://127.0.0.1:{receiver.port}/plainkey'}}\n"
    )
    receiver.status = 400
    process = forked("forward", "-c", path, "--from-start")
    camera().narrate()
    until(lambda: len(receiver.requests) >= 3)
    names = ("office", "phone", "open")
    with redis.Redis.from_url(redis_server.url) as client:
        until(lambda: all(client.xlen(dead_letter_key(name)) for name in names))
    dead = narrated("forward", "-c", path, "--dead", "--json").out
    assert len(dead.splitlines()) == len(names)
    process.terminate()
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert "dead letter" in err
    checked = narrated("check-config", "-c", path)
    assert checked.code == 0, checked.err
    for secret in ("s3cr3tpath", "passw0rd", "t0k3n", "plainkey"):
        for where in (out, err, dead, checked.out + checked.err):
            assert secret not in where


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (
            "  apprise: {a: {url: 'https://${env:ABSENT}@h/'}}\n",
            "forward.apprise.a.url: the secret ${env:ABSENT}",
        ),
        ("  mqtt: {a: {url: 'mqtt:///s3cr3t'}}\n", "forward target a: url: write mqtt://host"),
        ("  mqtt: {a: {url: 'mqtts://h', ca: /absent.pem}}\n", "a: ca: /absent.pem cannot be used: No such"),
        ("  apprise: {a: {url: 'carrierpigeon://s3cr3t'}}\n", "forward target a: url: Apprise knows no such"),
        ("  apprise: {}\n", "forward: names no target"),
    ],
)
def test_what_cannot_work_ends_at_once(configure, narrated, targets, expected):
    done = narrated("forward", "-c", configure(targets))
    assert done.code == 78
    assert expected in done.err
    assert "s3cr3t" not in done.err
