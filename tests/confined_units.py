"""The restrictions of units, as tests build them again."""

from __future__ import annotations

import ctypes.util
import os
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
