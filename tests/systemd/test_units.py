"""The unit is sound and hardened, as far as systemd's own tools tell."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from confined_units import assert_sound, exposure, needs_systemd, runnable

from daemon.config.configuration import load_configuration

FOLDER = Path(__file__).parents[2] / "systemd"
UNIT = FOLDER / "narrated.service"


@needs_systemd
def test_verify_finds_nothing(tmp_path: Path) -> None:
    assert_sound(runnable(UNIT, tmp_path))


@needs_systemd
@pytest.mark.parametrize(("dropped_in", "most"), [("", 1.5), ("gpu.conf", 2.0)])
def test_exposure_is_low(tmp_path: Path, dropped_in: str, most: float) -> None:
    unit = runnable(UNIT, tmp_path)
    if dropped_in:
        lines = (FOLDER / dropped_in).read_text().split("[Service]\n")[1]
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


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed")
def test_the_user_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    done = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", FOLDER / "narrated.sysusers"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "narrated:" in (tmp_path / "etc" / "passwd").read_text()


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="systemd-tmpfiles is not installed")
def test_the_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\nnarrated:x:0:0::/:/bin/sh\n")
    (tmp_path / "etc" / "group").write_text("root:x:0:\nnarrated:x:0:\n")
    done = subprocess.run(
        ["systemd-tmpfiles", "--create", f"--root={tmp_path}", FOLDER / "narrated.tmpfiles"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "etc" / "narrated").is_dir()


BROKEN = {
    "a misspelt key": "version: 1\ncameras:\n  yard: {urk: yard.mp4}\n",
    "no YAML": "version: [\n",
    "a secret that is not there": "version: 1\ncameras:\n  yard: {url: 'rtsp://${cred:yard}@127.0.0.1:1/x'}\n",
    "a signing key that is none": "version: 1\nsigning: {key: hunter2}\ncameras:\n  yard: {url: yard.mp4}\n",
}


@pytest.mark.parametrize("content", [*BROKEN.values(), None], ids=[*BROKEN, "no file"])
def test_a_broken_configuration_ends_the_service_and_is_not_tried_again(
    tmp_path: Path, content: str | None
) -> None:
    """systemd asks `RestartPreventExitStatus=` of the main process alone, so no other one may fail by it."""
    settings = [line.partition("=") for line in UNIT.read_text().splitlines() if not line.startswith("#")]
    commands = [value for key, _, value in settings if key in {"ExecCondition", "ExecStartPre", "ExecStart"}]
    (final,) = [value.split() for key, _, value in settings if key == "RestartPreventExitStatus"]
    (main,) = commands
    program, *words = main.split()
    assert program == "/opt/narrated/bin/narrated"
    config = tmp_path / "narrated.yaml"
    if content:
        config.write_text(content)
    words = [str(config) if word == "/etc/narrated/narrated.yaml" else word for word in words]
    environment = {k: v for k, v in os.environ.items() if k != "CREDENTIALS_DIRECTORY"}
    done = subprocess.run(
        [sys.executable, "-m", "daemon.cli", *words],
        capture_output=True,
        text=True,
        env={**environment, "STATE_DIRECTORY": str(tmp_path)},
        timeout=500,
        check=False,
    )
    assert str(done.returncode) in final, done.stderr
    assert "narrated" in done.stderr


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
