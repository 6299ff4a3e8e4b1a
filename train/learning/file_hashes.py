"""Hashes of files that are not read again while they stay as they are.

Every start of a run asks for the hash of every image; of a large set that is reading it all. A file is taken
for the same while its size, inode and times are; one that has only just been written is hashed again, since
its times may not tell another change.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from pathlib import Path

NAME = "hashes.sqlite"
JUST_NOW_S = 2.0

_Seen = tuple[int, int, int, int]


class FileHashes:
    """The hashes of files, kept in ``hashes.sqlite`` in a folder; without that file all are read."""

    def __init__(self, folder: Path) -> None:
        """Read what is known.

        Args:
            folder: where it cannot be written, nothing is kept.
        """
        self._path = folder / NAME
        self._known: dict[str, tuple[_Seen, bytes]] = {}
        self._new: dict[str, tuple[_Seen, bytes]] = {}
        if not self._path.is_file():
            return
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._open()) as database:
            for path, size, inode, modified, changed, digest in database.execute("SELECT * FROM files"):
                self._known[path] = ((size, inode, modified, changed), digest)

    def sha256(self, path: Path) -> bytes:
        """The digest of a file.

        Raises:
            OSError: it cannot be read.
        """
        name, seen = os.path.abspath(path), _seen(path)  # noqa: PTH100 - links stay links
        known = self._known.get(name)
        if known is not None and known[0] == seen:
            return known[1]
        digest = hashlib.sha256(path.read_bytes()).digest()
        if time.time_ns() - max(seen[2:]) > JUST_NOW_S * 1e9 and _seen(path) == seen:
            self._known[name] = self._new[name] = (seen, digest)
        return digest

    def keep(self) -> None:
        """Write what is new; where that cannot be, the next start reads these files again."""
        rows = [(name, *seen, digest) for name, (seen, digest) in self._new.items()]
        if not rows:
            return
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._open()) as database:
            with database:
                database.executemany("REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._new.clear()

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=30)
        columns = "path TEXT PRIMARY KEY, size INTEGER, inode INTEGER, modified INTEGER, changed INTEGER"
        database.execute(f"CREATE TABLE IF NOT EXISTS files ({columns}, sha256 BLOB)")
        return database


def _seen(path: Path) -> _Seen:
    status = path.stat()
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
