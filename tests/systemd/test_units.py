"""The unit is sound and hardened, as far as systemd's own tools tell."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "systemd"
UNIT = FOLDER / "narrated.service"
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (Debian: systemd)"
)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that exists, because `verify` looks for it."""
    copy = tmp_path / "narrated.service"
    text = UNIT.read_text()
    assert "/opt/narrated/bin/narrated" in text
    copy.write_text(text.replace("/opt/narrated/bin/narrated", "/bin/true"))
    return copy


@needs_systemd
def test_verify_finds_nothing(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize(("dropped_in", "most"), [("", 1.5), ("gpu.conf", 2.0)])
def test_exposure_is_low(unit: Path, dropped_in: str, most: float) -> None:
    if dropped_in:
        lines = (FOLDER / dropped_in).read_text().split("[Service]\n")[1]
        unit.write_text(unit.read_text().replace("[Install]", f"{lines}\n[Install]"))
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    level = re.search(r"Overall exposure level for narrated\.service: ([\d.]+)", done.stdout)
    assert level is not None, done.stderr
    assert float(level.group(1)) <= most, level.group(0)


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
    assert any(line.startswith("ExecStartPre=") and "check-config" in line for line in lines)
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
    (tmp_path / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
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
