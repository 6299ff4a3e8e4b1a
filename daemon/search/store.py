"""The index's file: SQLite beside the journals, deleted and built again whenever it does not fit."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

VERSION = 3
"""Of the tables below and of what is in them: a file of another one is built again."""

FILE = "index.sqlite3"
_LEAST_FREE = 64 * 2**20
"""Bytes that an index leaves free on its disk: the journals need them more."""
_WAIT_S = 60.0
_MODE = 0o640

_TABLES = """
CREATE TABLE files (
  id INTEGER PRIMARY KEY, identity BLOB UNIQUE, name TEXT, chain TEXT, first INTEGER,
  inode INTEGER, size INTEGER, mtime INTEGER, offset INTEGER, lines INTEGER, fault TEXT);
CREATE TABLE ends (
  file INTEGER REFERENCES files ON DELETE CASCADE, camera TEXT, first_seq INTEGER, first_prev TEXT,
  last_seq INTEGER, last_hash TEXT, last_time INTEGER, PRIMARY KEY (file, camera)) WITHOUT ROWID;
CREATE TABLE records (
  id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER REFERENCES files ON DELETE CASCADE,
  offset INTEGER, length INTEGER, digest BLOB, key BLOB, time INTEGER, camera TEXT, flags INTEGER);
CREATE INDEX records_of_key ON records (key);
CREATE INDEX records_of_file ON records (file, offset);
CREATE INDEX records_of_camera ON records (camera, time);
CREATE TABLE sentences (
  record INTEGER REFERENCES records ON DELETE CASCADE, n INTEGER, time INTEGER, camera TEXT, kind TEXT,
  action TEXT, object TEXT, colour TEXT, confidence REAL, count INTEGER, counted INTEGER, visit INTEGER,
  text INTEGER, PRIMARY KEY (record, n)) WITHOUT ROWID;
CREATE INDEX sentences_by_time ON sentences (time);
CREATE INDEX sentences_of_object ON sentences (object, time);
CREATE INDEX sentences_of_camera ON sentences (camera, time);
CREATE INDEX sentences_of_visit ON sentences (visit) WHERE visit IS NOT NULL;
CREATE INDEX sentences_of_text ON sentences (text);
CREATE TABLE visits (
  id INTEGER PRIMARY KEY, camera TEXT, track TEXT, begin INTEGER, end INTEGER, last INTEGER,
  UNIQUE (camera, track));
CREATE INDEX visits_open ON visits (camera) WHERE end IS NULL;
CREATE INDEX visits_by_end ON visits (end);
CREATE TABLE gaps (
  record INTEGER PRIMARY KEY REFERENCES records ON DELETE CASCADE,
  camera TEXT, begin INTEGER, end INTEGER, reason TEXT);
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT UNIQUE);
CREATE VIRTUAL TABLE words USING fts5(
  text, content='texts', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER text_added AFTER INSERT ON texts BEGIN
  INSERT INTO words (rowid, text) VALUES (new.id, new.text); END;
CREATE TRIGGER text_deleted AFTER DELETE ON texts BEGIN
  INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text); END;
CREATE TRIGGER sentence_deleted AFTER DELETE ON sentences BEGIN
  DELETE FROM texts WHERE id = old.text AND NOT EXISTS (SELECT 1 FROM sentences WHERE text = old.text);
  DELETE FROM visits WHERE id = old.visit
    AND NOT EXISTS (SELECT 1 FROM sentences WHERE visit = old.visit); END;
"""


@dataclass(frozen=True, slots=True)
class Store:
    """An open index.

    Attributes:
        connection: in autocommit mode.
        path: of its file; None in memory.
        notice: why it is not where, or what, it should be, for people; mostly empty.
    """

    connection: sqlite3.Connection
    path: Path | None
    notice: str = ""

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing; other writers wait."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
        except BaseException:
            with suppress(sqlite3.OperationalError):  # a full disk has rolled back already
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")


def open_store(folder: Path, unwritable: str = "") -> Store:
    """Open the index of a folder of journals: beside them, else in the user's cache, else in memory.

    Args:
        folder: of the journals; only ``index.sqlite3`` and what SQLite puts beside it is written there.
        unwritable: why no file can be written, where that is known.
    """
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    cached = user_cache_path("narrated", appauthor=False) / f"index-{name}.sqlite3"
    reason = unwritable
    for path in () if unwritable else (folder / FILE, cached):
        try:
            connection, notice = _open(path)
        except (OSError, sqlite3.OperationalError) as error:
            reason = reason or str(getattr(error, "strerror", None) or error)
            continue
        if path == cached:
            notice = f"no index can be written beside the journals ({reason}); it is in {path} {notice}"
        return Store(connection, path, notice.strip())
    notice = f"no index can be written ({reason}); it is built in memory, and again at every question"
    return Store(_connect(":memory:")[0], None, notice)


def check_room(path: Path | None) -> None:
    """Raise `sqlite3.OperationalError` where the disk has no room for the index to grow."""
    if path and shutil.disk_usage(path.parent).free < _LEAST_FREE:
        raise sqlite3.OperationalError(f"less than {_LEAST_FREE >> 20} MB are free on that disk")


def _open(path: Path) -> tuple[sqlite3.Connection, str]:
    """Open or make the index at a path, and what should be known of it.

    Raises:
        OSError, sqlite3.OperationalError: it cannot be written there.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        check_room(path)
    try:
        connection, fault = _connect(path)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:  # no index, or a damaged one
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        connection, fault = _connect(path)[0], f"damaged ({error})"
    return connection, f"the index {path} was {fault} and is built again" if fault else ""


def _connect(path: Path | str) -> tuple[sqlite3.Connection, str]:
    """Open a database with the tables of this version; also which other version they were of."""
    if isinstance(path, Path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE))  # as private as the journals
    connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        # What was deleted is not left in free pages.
        for pragma in ("secure_delete = ON", "synchronous = NORMAL", "cache_size = -65536"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")  # two may come at the same time; this one waits
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            sql = (
                "SELECT name FROM sqlite_master WHERE type = 'table' "
                "AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'words_%'"
            )
            for (name,) in connection.execute(sql).fetchall():
                connection.execute(f'DROP TABLE "{name}"')
            for statement in _TABLES.split(";\nCREATE"):
                connection.execute(statement if statement.startswith("\n") else f"CREATE{statement}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("SELECT id FROM files LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection, f"of version {version}, not {VERSION}," if version not in (0, VERSION) else ""
