"""A program of the administrator's, started once for each message."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from typing import IO

from daemon.config.forward import CommandSettings
from daemon.config.secrets import Secrets
from daemon.config.template import rendered
from daemon.forward.message import Message
from daemon.forward.target import AwayError, RefusedError

TRY_AGAIN = 75
"""Exit code of a program that wants to be tried later (EX_TEMPFAIL)."""

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
_SHOWN = 200


class CommandTarget:
    """Starts the program; see `Target`. The record is its standard input, one line of JSON.

    It gets none of our environment but the path, home, language and time zone, so none of our secrets.

    Args:
        settings: which program.
        secrets: put into its environment, which `ps` shows to nobody else.
    """

    def __init__(self, settings: CommandSettings, secrets: Secrets) -> None:
        self._settings = settings
        self._environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._environment |= {name: secrets.reveal(text) for name, text in settings.environment.items()}

    def send(self, message: Message) -> None:
        """Run it; see `Target.send`."""
        told = {
            "NARRATED_ID": message.record.id,
            "NARRATED_CAMERA": message.record.camera,
            "NARRATED_TIME": message.record.after.time,
            "NARRATED_EVENT": message.record.event,
            "NARRATED_TEXT": rendered(self._settings.template, message.values).replace("\0", ""),
            "NARRATED_PICTURE": str(message.picture or ""),
        }
        program = self._settings.run[0]
        with tempfile.TemporaryFile() as said:
            try:
                process = subprocess.Popen(  # noqa: S603 - the administrator's program, no shell
                    self._settings.run,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    env=self._environment | told,
                    start_new_session=True,
                )
            except OSError as error:
                raise AwayError(f"{program} cannot be started: {error.strerror or error}") from None
            code = self._wait(process, message.record.line() + b"\n")
            if code:
                words = f"{program} ended with {code}{_last_line(said)}"
                raise AwayError(words) if code == TRY_AGAIN else RefusedError(words)

    def close(self) -> None:
        """Nothing is open between two messages."""

    def _wait(self, process: subprocess.Popen[bytes], line: bytes) -> int:
        try:
            process.communicate(line, timeout=self._settings.timeout)
        except subprocess.TimeoutExpired:
            words = (
                f"{self._settings.run[0]} has not ended within {self._settings.timeout:g} s and was killed"
            )
            raise AwayError(words) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # whatever it has left behind
            process.communicate()
        return process.returncode


def _last_line(said: IO[bytes]) -> str:
    said.seek(max(0, said.seek(0, os.SEEK_END) - 4096))
    lines = said.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1][:_SHOWN]}" if lines else ""
