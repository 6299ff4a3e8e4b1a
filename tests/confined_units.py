"""The restrictions of units, as tests build them again."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

Process = subprocess.Popen[str]
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


def exposure(unit: Path) -> float:
    """How much of the machine the unit can reach, as systemd rates it, 0 to 10."""
    done = analyzed("security", "--offline=true", "--no-pager", unit)
    level = re.search(rf"Overall exposure level for {re.escape(unit.name)}: ([\d.]+)", done.stdout)
    assert level is not None, done.stderr
    return float(level.group(1))


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


def command_of(unit: Path, config: Path) -> list[object]:
    """The unit's own command on another configuration, for Python."""
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    return ["-m", "daemon.cli", *line.removeprefix(f"ExecStart={PROGRAM} ").split()[:-1], config]


def open_to_group(folder: Path, *states: Path) -> None:
    """As the group of the record's folders may read them."""
    for path in [*[folder, *folder.parents][:3], *(each for s in states for each in (s, *s.rglob("*")))]:
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))


@contextmanager
def confined(unit: Path, folder: Path, seen: Sequence[Path], *command: object) -> Iterator[Process]:
    """A command of Python's under the restrictions of a unit, which sees these paths besides.

    Only `own` and `cache` in the folder can be written.
    """
    if reason := no_namespaces():
        pytest.skip(reason)
    own, cache = folder / "own", folder / "cache"
    for each in (own, cache):
        each.mkdir(exist_ok=True)
    script = Path(__file__).parent / "systemd" / "confined.py"
    words = [*NAMESPACES, sys.executable, script, unit, own, cache, *seen, "--", sys.executable, *command]
    ours = {"STATE_DIRECTORY": str(own), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    ours |= {"HOME": str(cache), "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": f"{cache}/numba"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(list(map(str, words)), env={**os.environ, **ours}, text=True, **pipes)
    try:
        yield process
    finally:
        for child in children(process):  # the signal at its parent's death went with its privileges
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.communicate(timeout=30)


def children(process: Process) -> list[int]:
    """What runs in the namespaces."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(word) for word in path.read_text().split()] if process.poll() is None else []
