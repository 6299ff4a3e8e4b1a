"""The forwarder's unit: sound, hardened, and enough for its work."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

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
from embedded_redis import EmbeddedServer
from forwarding_here import Camera, Receiver, until

from pipeline.evidence import EvidenceStore
from pipeline.record import Evidence

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "systemd" / "narrated-forward.service"


@needs_systemd
def test_it_is_sound_and_little_exposed(tmp_path: Path) -> None:
    unit = runnable(UNIT, tmp_path)
    assert_sound(unit)
    assert exposure(unit) <= 1.5


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed")
def test_its_user_reads_what_the_group_of_the_daemon_may(tmp_path: Path) -> None:
    assert_reads_the_record(UNIT, tmp_path)


@pytest.fixture
def confined(tmp_path: Path) -> Iterator[Callable[[Path, list[Path]], subprocess.Popen[str]]]:
    """Starts the unit's own command under its restrictions; only `state` can be written."""
    if reason := no_namespaces():
        pytest.skip(reason)
    started: list[subprocess.Popen[str]] = []

    def start(config: Path, seen: list[Path]) -> subprocess.Popen[str]:
        (line,) = [line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart=")]
        words = line.removeprefix(f"ExecStart={PROGRAM} ").split()
        command = [sys.executable, "-m", "daemon.cli", *words[:-1], config, "--from-start"]
        ours = [tmp_path / "own", tmp_path / "cache"]
        for folder in ours:
            folder.mkdir()
        confined = [sys.executable, ROOT / "tests" / "systemd" / "confined.py", UNIT, *ours, *seen, config]
        environment = {**os.environ, "STATE_DIRECTORY": str(ours[0]), "HOME": str(ours[0])}
        started.append(
            subprocess.Popen(
                [str(word) for word in [*NAMESPACES, *confined, "--", *command]],
                env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return started[-1]

    yield start
    for process in started:
        for child in children(process):  # the signal at its parent's death went with its privileges
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.communicate(timeout=30)


def test_it_forwards_under_its_restrictions(
    tmp_path: Path, confined: Callable[[Path, list[Path]], subprocess.Popen[str]]
) -> None:
    """To a web hook with the picture; only its own folder is written."""
    receiver, state = Receiver(), tmp_path / "state"
    with EmbeddedServer(settings={"unixsocketperm": "777"}) as server:
        server.folder.chmod(0o755)
        config = tmp_path / "narrated.yaml"
        config.write_text(
            f"version: 1\nstate: {state}\nredis: {{url: '{server.url}'}}\ncameras: {{yard: {{url: y.mp4}}}}\n"
            f"forward:\n  apprise: {{office: {{url: '{receiver.url}'}}}}\n"
        )
        picture = EvidenceStore(state / "evidence", fsync=False).put(b"\xff\xd8", "jpg")
        yard = Camera(state / "journal", "yard", server.url)
        try:
            yard.narrate(evidence=Evidence(overlay=picture))
            for path in [tmp_path, *tmp_path.parents][:3]:
                path.chmod(path.stat().st_mode | 0o055)
            for path in [state, *state.rglob("*")]:  # as its group may
                path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
            process = confined(config, [state, server.folder])
            until(lambda: receiver.taken or process.poll() is not None)
            assert process.poll() is None, process.communicate()[1]
            os.kill(*children(process), signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            yard.close()
            receiver.stop()
    assert receiver.taken[0]["attachments"][0]["mimetype"] == "image/jpeg"
    assert (tmp_path / "own" / "office.json").exists()
