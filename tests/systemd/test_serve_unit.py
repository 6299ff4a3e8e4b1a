"""The page's unit: sound, hardened, and enough for its work."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confined_units import (
    NAMESPACES,
    PROGRAM,
    assert_reads_the_record,
    assert_sound,
    children,
    exposure,
    needs_systemd,
    no_namespaces,
    runnable,
)
from serving_here import ServedHouse, said

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "systemd" / "narrated-serve.service"


@needs_systemd
def test_it_is_sound_and_little_exposed(tmp_path: Path) -> None:
    unit = runnable(UNIT, tmp_path)
    assert_sound(unit)
    assert exposure(unit) <= 1.4


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed")
def test_its_user_reads_what_the_group_of_the_daemon_may(tmp_path: Path) -> None:
    assert_reads_the_record(UNIT, tmp_path)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ServedHouse]:
    made = ServedHouse(tmp_path / "state")
    made.tell(1, said("A person has come."), evidence=made.pictures())
    yield made
    made.close()


def test_it_serves_under_its_restrictions(tmp_path: Path, house: ServedHouse) -> None:
    """The page is there and takes feedback; the record and the pictures are out of its reach."""
    if reason := no_namespaces():
        pytest.skip(reason)
    config = tmp_path / "narrated.yaml"
    config.write_text(
        f"version: 1\nstate: {house.state}\nserve: {{listen: '127.0.0.1:0'}}\n"
        "cameras: {yard: {url: y.mp4}}\n"
    )
    own = [tmp_path / "own", tmp_path / "cache"]
    for folder in own:
        folder.mkdir()
    for path in [*[tmp_path, *tmp_path.parents][:3], house.state, *house.state.rglob("*")]:
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))  # as its group may
    (line,) = [line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart=")]
    words = line.removeprefix(f"ExecStart={PROGRAM} ").split()
    confined = [sys.executable, ROOT / "tests" / "systemd" / "confined.py", UNIT, *own, house.state, config]
    command = [*NAMESPACES, *confined, "--", sys.executable, "-m", "daemon.cli", *words[:-1], config]
    environment = {
        **os.environ,
        "STATE_DIRECTORY": str(own[0]),
        "HOME": str(own[1]),
        "XDG_CACHE_HOME": str(own[1]),
    }
    process = subprocess.Popen(
        [str(word) for word in command],
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        text=True,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr
        address = re.search(r"http://127\.0\.0\.1:\d+", said_at_start := process.stderr.readline())
        assert address, said_at_start + process.stderr.read()
        with httpx.Client(base_url=address[0], trust_env=False, timeout=30) as client:
            page = client.get("/review")
            assert "A person has come." in page.text
            record = f"/record/{house.records['yard'][0].id}"
            sent = client.post(f"{record}/reviewed", data={"reviewed": "yes"}, headers={"Origin": address[0]})
            assert sent.status_code == 303
            assert "Reviewed ✓" in client.get(record).text
        os.kill(*children(process), signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        for child in children(process):
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.communicate(timeout=30)
    assert (own[0] / "feedback.sqlite3").exists()
    assert list(own[1].rglob("index-*.sqlite3"))
    assert not (house.folder / "index.sqlite3").exists()
