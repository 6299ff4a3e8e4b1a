"""The units are sound and hardened, as far as systemd's own tools tell."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from confined_units import analyzed, exposure, needs_systemd, runnable

from daemon.config.configuration import load_configuration
from daemon.threads.narrator_thread import BATCH_LIMIT_S

FOLDER = Path(__file__).parents[2] / "systemd"
UNIT = FOLDER / "narrated.service"


@needs_systemd
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("narrated", 1.5),
        ("narrated-collect", 1.3),
        ("narrated-forward", 1.5),
        ("narrated-serve", 1.4),
        ("narrated-worker", 1.5),
        ("narrated gpu.conf", 2.0),
    ],
)
def test_systemd_finds_nothing_and_exposure_is_low(tmp_path: Path, name: str, most: float) -> None:
    name, *dropped_in = name.split()
    unit = runnable(FOLDER / f"{name}.service", tmp_path)
    done = analyzed("verify", "--man=no", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    for each in dropped_in:
        lines = (FOLDER / each).read_text().split("[Service]\n")[1]
        unit.write_text(unit.read_text().replace("[Install]", f"{lines}\n[Install]"))
    assert exposure(unit) <= most


def test_what_the_program_relies_on() -> None:
    lines = UNIT.read_text().splitlines()
    for line in (
        "Type=notify",
        "NotifyAccess=main",
        "WatchdogSec=30",
        "StateDirectory=narrated",
        "Environment=NUMBA_CACHE_DIR=%C/narrated/numba",
        "CacheDirectory=narrated",
    ):
        assert line in lines
    assert "ExecReload=/bin/kill -HUP $MAINPID" in lines
    assert not any(line.startswith("MemoryDenyWriteExecute") for line in lines)  # numba cannot run under it


def test_what_collects_loads_nothing_that_compiles_at_run_time() -> None:
    """Its unit allows no memory that is both written and run."""
    script = "import sys, daemon.collect.collector, daemon.collect.pictures; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numba", "llvmlite", "onnxruntime", "torch", "cv2"} & set(shown.stdout.split())


def test_the_workers_watchdog_waits_for_the_longest_batch() -> None:
    text = (FOLDER / "narrated-worker.service").read_text()
    (seconds,) = re.findall(r"^WatchdogSec=(\d+)$", text, re.MULTILINE)
    assert int(seconds) >= 2 * BATCH_LIMIT_S


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed")
def test_users_can_be_made_and_readers_are_of_the_group_of_the_record(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    made = ["systemd-sysusers", f"--root={tmp_path}", FOLDER / "narrated.sysusers"]
    subprocess.run(made, capture_output=True, timeout=30, check=True)
    assert "narrated:" in (tmp_path / "etc" / "passwd").read_text()
    groups = dict(line.split(":", 1) for line in (tmp_path / "etc" / "group").read_text().splitlines())
    for name in ("narrated-forward", "narrated-serve"):
        assert name in groups["narrated"].rpartition(":")[2].split(",")
        lines = {f"User={name}", "SupplementaryGroups=narrated", f"StateDirectory={name}"}
        assert lines <= {*(FOLDER / f"{name}.service").read_text().splitlines()}


BROKEN = {
    "a misspelt key": "version: 1\ncameras:\n  yard: {urk: yard.mp4}\n",
    "no YAML": "version: [\n",
    "a secret that is not there": "version: 1\ncameras:\n  yard: {url: 'rtsp://${cred:yard}@127.0.0.1:1/x'}\n",
    "a signing key that is none": "version: 1\nsigning: {key: hunter2}\ncameras:\n  yard: {url: yard.mp4}\n",
}


def ended(unit: Path, words: list[str], folder: Path) -> str:
    """What the unit's command says, whose end must be final for the unit."""
    (final,) = re.findall(r"^RestartPreventExitStatus=(.*)$", unit.read_text(), re.MULTILINE)
    environment = {k: v for k, v in os.environ.items() if k != "CREDENTIALS_DIRECTORY"}
    command = [sys.executable, "-m", "daemon.cli", *words]
    environment["STATE_DIRECTORY"] = str(folder)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=500, check=False)
    assert str(done.returncode) in final.split(), done.stderr
    return done.stderr


@pytest.mark.parametrize("content", [*BROKEN.values(), None], ids=[*BROKEN, "no file"])
def test_a_broken_configuration_ends_the_service_and_is_not_tried_again(
    tmp_path: Path, content: str | None
) -> None:
    """systemd asks `RestartPreventExitStatus=` of the main process alone, so no other one may fail by it."""
    commands = re.findall(r"^Exec(?:Condition|StartPre|Start)=(.*)$", UNIT.read_text(), re.MULTILINE)
    (program, *words) = " ".join(commands).split()
    assert program == "/opt/narrated/bin/narrated"
    config = tmp_path / "narrated.yaml"
    if content:
        config.write_text(content)
    words = [str(config) if word == "/etc/narrated/narrated.yaml" else word for word in words]
    assert "narrated" in ended(UNIT, words, tmp_path)


def test_a_worker_without_its_credential_ends_and_is_not_tried_again(tmp_path: Path) -> None:
    """As systemd runs it: `$$` is a dollar sign."""
    unit = FOLDER / "narrated-worker.service"
    (line,) = re.findall(r"^ExecStart=\S+ (.*)$", unit.read_text(), re.MULTILINE)
    assert "LoadCredential=redis:" in ended(unit, line.replace("$$", "$").split(), tmp_path)


def test_the_sample_names_the_redis_that_debian_installs() -> None:
    assert (
        load_configuration(FOLDER.parent / "configs" / "narrated.yaml").redis.url == "redis://127.0.0.1:6379"
    )
    installed = Path("/etc/redis/redis.conf")
    if not installed.exists():
        pytest.skip("redis-server is not installed")
    lines = installed.read_text().splitlines()
    assert "port 6379" in lines
    assert any(line.split()[:2] == ["bind", "127.0.0.1"] for line in lines)
    assert not any(line.startswith("unixsocket ") for line in lines)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd is not installed")
def test_installed_into_an_empty_root_only_the_service_reads_the_configuration(tmp_path: Path) -> None:
    """The README's steps, but for pip's and systemctl's."""
    root = tmp_path / "root"
    for folder in ("etc/systemd/system", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
        (root / folder).mkdir(parents=True)
    shutil.copy(UNIT, root / "etc/systemd/system")
    for kind, where in (("sysusers", "sysusers.d"), ("tmpfiles", "tmpfiles.d")):
        shutil.copy(FOLDER / f"narrated.{kind}", root / "usr/lib" / where / "narrated.conf")
    subprocess.run(["systemd-sysusers", f"--root={root}"], capture_output=True, timeout=60, check=True)
    create = ["systemd-tmpfiles", "--create", f"--root={root}", "narrated.conf"]
    subprocess.run(create, capture_output=True, timeout=60, check=True)
    assert (root / "etc/narrated").is_dir()
    users = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    (user,) = [line for line in users if line[0] == "narrated"]
    config = root / "etc/narrated/narrated.yaml"
    install = ["install", "-m", "640", "-g", user[3], FOLDER.parent / "configs" / "narrated.yaml", config]
    subprocess.run(install, timeout=60, check=True)
    for path, mode in ((config.parent, 0o750), (config, 0o640)):
        assert (path.stat().st_uid, str(path.stat().st_gid)) == (0, user[3])
        assert stat.S_IMODE(path.stat().st_mode) == mode
