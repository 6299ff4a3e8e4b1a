"""One writer per journal, and by what name it takes the lease of the camera's stream."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from pathlib import Path

from pipeline.disk import make_folder
from pipeline.journal.errors import PASSING, JournalError

_TOKEN = re.compile(r"[0-9a-f]{32}")


class WriterLock:
    """Holds ``<camera>.writer``, whose content names this journal; the next writer of it has the same name.

    So a daemon that was killed takes its own lease up again at once, and two daemons with two journals of one
    camera name are told apart.

    Attributes:
        token: 32 hexadecimal digits.

    Raises:
        JournalError: another writer holds it, or the folder may not be written.
    """

    def __init__(self, path: Path, journal: Path) -> None:
        self.token = secrets.token_hex(16)
        self._path, self._journal = path, journal
        self._file, self._named, self._tried = -1, False, False
        try:
            self.take()
        except OSError as error:
            if error.errno in PASSING or isinstance(error, FileNotFoundError):
                return  # nobody else can write there either
            raise JournalError(
                f"cannot write the journal {journal}: {error.strerror or error}; "
                "choose a folder that this user may write to"
            ) from error
        finally:
            self._tried = True

    def take(self) -> None:
        """Lock and name what could not be while the disk took nothing; nothing to do where that is done.

        Raises:
            JournalError: another writer came first, or there is a journal that was not there before.
            OSError: the folder cannot be written now.
        """
        if self._named:
            return
        self.close()
        make_folder(self._path.parent)
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            if error.errno not in PASSING or not self._path.exists():
                raise
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)  # read-only: locked all the same
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise JournalError(
                f"{self._journal} is being written by another process or thread; stop that one, "
                "or give this one another camera name or another folder"
            ) from error
        self._name()

    def _name(self) -> None:
        known = os.pread(self._file, 33, 0).strip().decode("latin-1")
        if _TOKEN.fullmatch(known):
            if self._tried and known != self.token:
                self.close()
                raise JournalError(
                    f"{self._journal} appeared after this writer had begun, and what it holds does not "
                    "continue it; end the writer and start it again"
                )
            self.token, self._named = known, True
            return
        try:
            os.truncate(self._file, 0)
            os.pwrite(self._file, self.token.encode() + b"\n", 0)
            self._named = True
        except OSError:
            return  # the name lasts as long as this process, or until there is room

    def close(self) -> None:
        """Let others write; closing twice is harmless."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
