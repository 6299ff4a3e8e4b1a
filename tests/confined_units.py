"""The restrictions of units, as tests build them again."""

import ctypes.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
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


def unit_words(unit: Path, config: Path, *more: str) -> list[object]:
    """The unit's own command for this tree's Python, with another configuration and further words."""
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    *words, _ = line.removeprefix(f"ExecStart={PROGRAM} ").split()
    return ["-m", "daemon.cli", *words, config, *more]


def start_confined(
    unit: Path, own: Path, seen: Iterable[Path], words: Iterable[object]
) -> subprocess.Popen[str]:
    """Python under the unit's restrictions.

    Args:
        own: folder whose `state` and `cache` alone it can write.
        seen: what it may read besides.
        words: its arguments.
    """
    if reason := no_namespaces():
        pytest.skip(reason)
    state, cache = own / "state", own / "cache"
    for folder in (state, cache):
        folder.mkdir(parents=True, exist_ok=True)
    script = Path(__file__).parent / "systemd" / "confined.py"
    confined = [sys.executable, script, unit, state, cache, *seen]
    environment = {
        "NUMBA_CACHE_DIR": f"{cache}/numba",
        "HOME": str(cache),
        "XDG_CACHE_HOME": str(cache),
        "STATE_DIRECTORY": str(state),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [str(word) for word in [*NAMESPACES, *confined, "--", sys.executable, *words]],
        env={**os.environ, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def open_to_its_group(*places: Path) -> None:
    """Let others read places and enter the folders above them, as the unit's group may."""
    for place in places:
        for path in [place, *place.rglob("*")]:
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
        for path in [*place.parents][:4]:
            path.chmod(path.stat().st_mode | 0o055)


def kill_confined(process: subprocess.Popen[str]) -> None:
    for child in children(process):  # the signal at its parent's death went with its privileges
        os.kill(child, signal.SIGKILL)
    process.kill()
    process.communicate(timeout=30)
