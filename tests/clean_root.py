"""A machine with nothing on it: a fresh Debian in a folder, entered by chroot in namespaces of its own."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

LIMIT_S = 1500.0
"""Longest wait for a command; a calm machine needs a minute for the longest."""

RECORDED = Path("usr/local/sbin/systemctl")
RECORDER = """#!/bin/sh
# No systemd runs here: what it is asked for is written down; `enable` and `disable` are done in the files.
echo "$*" >> /systemctl.log
case "$*" in *able*) exec /usr/bin/systemctl --root=/ $(echo "$*" | sed s/--now//);; esac
"""


def no_roots() -> str:
    """Why this machine cannot make such a folder; empty where it can."""
    if os.getuid() != 0:
        return "needs root"
    if not (shutil.which("debootstrap") and shutil.which("unshare")):
        return "needs debootstrap and unshare (Debian: apt-get install debootstrap)"
    return ""


def bootstrap(folder: Path, packages: list[str]) -> str:
    """A smallest Debian with these packages.

    Returns:
        Why there is none; empty where there is.
    """
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if line)
    suite = release.get("VERSION_CODENAME", "").strip('"')
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return "" if done.returncode == 0 else f"debootstrap: {done.stdout[-300:]}"


def pip_settings() -> dict[str, str]:
    """The options of this machine's pip, as environment variables."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    pairs = [line.partition("=")[::2] for line in listed.stdout.splitlines()]
    names = {key: "PIP_" + key.rpartition(".")[2].upper().replace("-", "_") for key, _ in pairs}
    return {names[key]: str(ast.literal_eval(value)) for key, value in pairs}


def pip_paths() -> list[Path]:
    """What this machine's pip takes from its disk."""
    words = " ".join(pip_settings().values()).replace("file://", "").split()
    paths = {Path(word) for word in words if word.startswith("/")}
    # Links of an index on the disk lead to the folder `files` beside it.
    return sorted({kept for path in paths for kept in (path, path.parent / "files") if kept.exists()})


class CleanRoot:
    """The folder of such a machine.

    Args:
        folder: made by `bootstrap`.
        booted: packages find a systemd that seems to run; what they ask of it is written down.
    """

    def __init__(self, folder: Path, *, booted: bool = False) -> None:
        self.folder = folder
        self.binds: dict[Path, str] = {}
        if booted:
            recorder = folder / RECORDED
            recorder.write_text(RECORDER)
            recorder.chmod(0o755)
            (folder / "run/systemd/system").mkdir(parents=True, exist_ok=True)

    def bind(self, path: Path, where: str) -> None:
        """Shows a folder or file of this machine in there, read-only."""
        self.binds[path] = where

    def bind_pip(self) -> None:
        """Shows what this machine's pip takes from its disk, see `pip_paths`."""
        for path in pip_paths():
            self.bind(path, str(path))

    def start(self, *command: object, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts a command in there, as root, with nothing of this process's environment."""
        lines = [f"mount --bind '{self.folder}' '{self.folder}'", f"mount -t proc proc '{self.folder}/proc'"]
        for path, where in self.binds.items():
            inside = self.folder / where.lstrip("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.mkdir(exist_ok=True) if path.is_dir() else inside.touch()
            lines.append(f"mount --bind -o ro '{path}' '{inside}'")
        lines.append(f"exec chroot '{self.folder}' \"$@\"")
        spaces = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        shell = [*spaces, "--propagation", "private", "sh", "-ec", "\n".join(lines), "sh"]
        path = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        return subprocess.Popen(
            [*shell, *map(str, command)],
            env={**path, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *command: object, code: int = 0, environment: dict[str, str] | None = None) -> str:
        """What a command prints that must end with `code`."""
        process = self.start(*command, environment=environment)
        try:
            printed, _ = process.communicate(timeout=LIMIT_S)
        except BaseException:
            process.kill()  # and with it, as the first process of its namespace, all that it started
            process.communicate()
            raise
        assert process.returncode == code, f"{command}: {process.returncode}\n{printed}"
        return printed

    def asked_of_systemd(self) -> list[str]:
        """How systemctl was called since the last time, by line."""
        log = self.folder / "systemctl.log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines
