"""Durations, rates, moments, secrets and devices, as the file and the command line have them."""

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch
import typer

from daemon.commands.options import choose_captioner
from daemon.config import device
from daemon.config.device import DeviceError, choose_device
from daemon.config.plan import CameraPlan
from daemon.config.secrets import CREDENTIALS, SecretError, hide_secrets, reveal, secret_file
from daemon.config.units import parse_duration, parse_moment, parse_rate, parse_time


def test_durations_and_moments():
    texts = ("5s", "500ms", "2m", "2min", "1.5h", "1d", "0s")
    assert [*map(parse_duration, texts)] == [5, 0.5, 120, 120, 5400, 86400, 0]
    for text, moment in (
        ("90s", timedelta(seconds=90)),
        ("01:30", timedelta(seconds=90)),
        ("1:00:00.5", timedelta(hours=1, milliseconds=500)),
        ("2026-05-01T12:00:00+02:00", datetime(2026, 5, 1, 10, tzinfo=UTC)),
        ("2026-05-01 12:00", datetime(2026, 5, 1, 12, tzinfo=UTC)),
    ):
        assert parse_moment(text) == moment


@pytest.mark.parametrize(
    ("parse", "texts", "example"),
    [
        (parse_duration, ["999999d", "9" * 400 + "d"], "longer than a century"),
        (parse_duration, ["5", 5, 0.5, "-5s", "5 s", "s", "5S", "", None, "nan s", "1e3s"], "unit"),
        (parse_rate, ["2", 2, "2/day", "0/s", "-1/s", "two/s", "1001/s"], "2/s"),
        (parse_moment, ["noon"], "is not a time: write 2026-05-01T12:00:00Z, or 90s or 00:01:30"),
        (parse_time, ["90s", "noon"], "is not a time: write 2026-05-01T12:00:00Z$"),
    ],
)
def test_what_lacks_its_unit_is_refused(parse, texts, example):
    for text in texts:
        with pytest.raises(ValueError, match=example):
            parse(text)


def test_secrets_have_three_places_and_show_nowhere(tmp_path, monkeypatch):
    (tmp_path / "door").write_text("me:pass word/@\n")
    (tmp_path / "key").write_text("from file\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("WHO", "hersecret")
    url = reveal("rtsp://${cred:door}@h/s?x=${env:WHO}")
    assert url == "rtsp://me:pass%20word%2F%40@h/s?x=hersecret"
    assert reveal("${env:WHO}.mp4") == "hersecret.mp4"
    (tmp_path / "latin-1").write_bytes(b"caf\xe9\n")
    monkeypatch.setenv("LATIN_1", os.fsdecode(b"caf\xe9"))
    for secret in ("${cred:latin-1}", "${env:LATIN_1}"):
        assert reveal(f"rtsp://me:{secret}@h/s") == "rtsp://me:caf%E9@h/s"
    assert reveal(f"${{file:{tmp_path}/key}}") == "from file"
    assert reveal("rtsp://plain@h/s") == "rtsp://plain@h/s"
    assert hide_secrets(f"no answer from {url}, pass word/@") == "no answer from rtsp://***@h/s?x=***, ***"
    assert "pass" not in repr(CameraPlan("a", url))
    reveal("rtsp://me:my own@h/s?mail=a@b.c")
    assert hide_secrets("rtsp://me:my own@h/s") == "rtsp://me:***@h/s"


@pytest.mark.parametrize(
    "text",
    [
        "${env:ABSENT}",
        "${file:/absent/file}",
        "${cred:door}",
        "${vault:x}",
        "${}",
        "${PASSWORD}",
        "${env:PASSWORD",
        "$PASSWORD",
        "$(env:PASSWORD)",
    ],
)
def test_an_absent_secret_is_named(text):
    with pytest.raises(SecretError) as caught:
        reveal(f"rtsp://{text}@h/")
    assert text in str(caught.value)


@pytest.mark.parametrize("text", ["${env:}", "${file:}", "${cred:}"])
def test_a_secret_without_a_name_is_refused(text):
    with pytest.raises(SecretError, match="is not a secret: write"):
        reveal(text)


def test_outside_a_unit_credentials_lie_where_the_units_find_them(tmp_path, monkeypatch):
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    for unit in (Path(__file__).parents[3] / "systemd").glob("*.service"):
        for name, path in re.findall(r"LoadCredential=(\w+):(\S+)", unit.read_text()):
            assert unit.stem in {"narrated-worker", "narrated-collect"} or path == f"{CREDENTIALS}/{name}"
    monkeypatch.setattr("daemon.config.secrets.CREDENTIALS", str(tmp_path))
    (tmp_path / "door").write_text("me:hers\n")
    assert reveal("rtsp://${cred:door}@h/s") == "rtsp://me:hers@h/s"


def test_a_credential_stays_in_its_folder(tmp_path, monkeypatch):
    (tmp_path / "outside").write_text("x")
    (tmp_path / "in").mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "in"))
    with pytest.raises(SecretError, match="letters"):
        reveal("${cred:../outside}")


def test_a_gpu_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setattr(device, "_DRIVERS", (Path("/dev/null"),))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [*map(choose_device, ("auto", "cuda:1", "cpu"))] == ["cuda", "cuda:1", "cpu"]
    with pytest.raises(DeviceError, match="there is no cuda:2"):
        choose_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert choose_device("auto") == "cpu"
    monkeypatch.setitem(sys.modules, "torch", None)
    assert choose_device("auto") == "cpu"
    with pytest.raises(DeviceError, match=r"cuda needs torch: pip install 'narrated\[gpu\]'"):
        choose_device("cuda")


@pytest.mark.parametrize("name", ["gpu0", "mps", "cuda:", "cuda:-1", "CUDA"])
def test_what_is_no_device_is_told(name):
    with pytest.raises(typer.BadParameter, match="write auto, cpu, cuda or cuda:1"):
        choose_captioner(None, name)


def test_passwords_come_from_a_credential(tmp_path, monkeypatch):
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert secret_file("${cred:page}") == tmp_path / "page"
