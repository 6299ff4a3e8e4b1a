"""One writer per journal, and by what name it takes the lease of the camera's stream."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from pathlib import Path

from pipeline.journal.errors import PASSING, JournalError

_TOKEN = re.compile(rb"[0-9a-f]{32}")


class WriterLock:
    """Holds ``<camera>.writer``, whose content names this journal; the next writer of it has the same name.

    So a daemon that was killed takes its own lease up again at once, and two daemons with two journals of one
    camera name are told apart.

    Args:
        path: of the lock.
        journal: named in errors.

    Attributes:
        token: 32 hexadecimal digits.

    Raises:
        JournalError: another writer holds it, or the folder may not be written.
    """

    def __init__(self, path: Path, journal: Path) -> None:
        self.token = secrets.token_hex(16)
        self._file = -1
        try:
            try:
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
            except OSError as error:
                if error.errno not in PASSING or not path.exists():
                    raise
                self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # read-only: locked all the same
        except OSError as error:
            if error.errno in PASSING or isinstance(error, FileNotFoundError):
                return  # nobody else can write there either
            raise JournalError(
                f"cannot write the journal {journal}: {error.strerror or error}; "
                "choose a folder that this user may write"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise JournalError(
                f"{journal} is being written by another process or thread; stop that one, "
                "or give this one another camera name or another folder"
            ) from error
        self._name()

    def _name(self) -> None:
        known = os.pread(self._file, 33, 0).strip()
        if _TOKEN.fullmatch(known):
            self.token = known.decode()
            return
        try:
            os.truncate(self._file, 0)
            os.pwrite(self._file, self.token.encode() + b"\n", 0)
        except OSError:
            return  # the name lasts as long as this process

    def close(self) -> None:
        """Let others write; closing twice is harmless."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
