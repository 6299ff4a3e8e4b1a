"""The restrictions of units, as tests build them again."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAM = "/opt/narrated/bin/narrated"
NAMESPACES = (
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--ipc",
    "--uts",
    "--propagation",
    "private",
)
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (Debian: systemd)"
)


def analyzed(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


def runnable(unit: Path, folder: Path) -> Path:
    """A copy of the unit with a program that exists, because `verify` looks for it."""
    text, copy = unit.read_text(), folder / unit.name
    assert PROGRAM in text
    copy.write_text(text.replace(PROGRAM, "/bin/true"))
    return copy


def assert_sound(unit: Path) -> None:
    done = analyzed("verify", "--man=no", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def exposure(unit: Path) -> float:
    """How much of the machine the unit can reach, as systemd rates it, 0 to 10."""
    done = analyzed("security", "--offline=true", "--no-pager", unit)
    level = re.search(rf"Overall exposure level for {re.escape(unit.name)}: ([\d.]+)", done.stdout)
    assert level is not None, done.stderr
    return float(level.group(1))


def assert_reads_the_record(unit: Path, root: Path) -> None:
    """The unit's user is made, and is of the group that may read what the daemon writes."""
    (root / "etc").mkdir()
    made = ["systemd-sysusers", f"--root={root}", unit.parent / "narrated.sysusers"]
    subprocess.run(made, capture_output=True, timeout=30, check=True)
    groups = dict(line.split(":", 1) for line in (root / "etc" / "group").read_text().splitlines())
    assert unit.stem in groups["narrated"].rpartition(":")[2].split(",")
    lines = {f"User={unit.stem}", "SupplementaryGroups=narrated", f"StateDirectory={unit.stem}"}
    assert lines <= {*unit.read_text().splitlines()}


def no_namespaces() -> str:
    """Why this machine cannot build the restrictions; empty where it can."""
    if os.getuid() != 0:
        return "needs root"
    tools = shutil.which("unshare") and shutil.which("systemd-analyze")
    if not (tools and ctypes.util.find_library("seccomp")):
        return "needs unshare, systemd-analyze and libseccomp (Debian: util-linux, systemd)"
    mount = [*NAMESPACES, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    tried = subprocess.run(mount, capture_output=True, check=False)
    return "may not mount in a namespace of its own" if tried.returncode else ""


def children(process: subprocess.Popen[str]) -> list[int]:
    """What runs in the namespaces."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(word) for word in path.read_text().split()] if process.poll() is None else []
