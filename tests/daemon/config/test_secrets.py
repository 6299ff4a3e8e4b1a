"""Secrets come from elsewhere, go into URLs encoded, and never come out."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from daemon.config.plan import CameraPlan
from daemon.config.secrets import SecretError, Secrets
from daemon.service.log import HidingFormatter


def test_three_places(tmp_path: Path) -> None:
    (tmp_path / "door").write_text("me:pass word/@\n")
    (tmp_path / "key").write_text("from file\n")
    secrets = Secrets({"CREDENTIALS_DIRECTORY": str(tmp_path), "WHO": "her"})
    assert secrets.reveal("rtsp://${cred:door}@h/s") == "rtsp://me:pass%20word%2F%40@h/s"
    assert secrets.reveal("${env:WHO}.mp4") == "her.mp4"
    assert secrets.reveal(f"${{file:{tmp_path}/key}}") == "from file"
    assert secrets.reveal("rtsp://plain@h/s") == "rtsp://plain@h/s"


@pytest.mark.parametrize(
    "text", ["${env:ABSENT}", "${file:/absent/file}", "${cred:door}", "${vault:x}", "${}", "${PASSWORD}"]
)
def test_an_absent_secret_is_named(text: str) -> None:
    with pytest.raises(SecretError) as caught:
        Secrets({}).reveal(f"rtsp://{text}@h/")
    assert text in str(caught.value)


def test_a_credential_stays_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    (tmp_path / "in").mkdir()
    with pytest.raises(SecretError, match="letters"):
        Secrets({"CREDENTIALS_DIRECTORY": str(tmp_path / "in")}).reveal("${cred:../outside}")


def test_the_log_hides_them() -> None:
    secrets = Secrets({"S": "me:p@ssword", "T": "token-of-mine"})
    url = secrets.reveal("rtsp://${env:S}@h/s?x=${env:T}")
    formatter = HidingFormatter(journal=True)
    record = logging.LogRecord("n", logging.ERROR, "f", 1, "no answer from %s, p@ssword", (url,), None)
    line = formatter.format(record)
    assert line.startswith("<3>no answer from rtsp://***@h/s")
    assert "ssword" not in line
    assert "token" not in line
    assert "p%40" not in repr(CameraPlan("a", url))
