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

from daemon.questions.question import NoJournalsError

VERSION = 9
"""Of the tables below and of what is in them."""

FILE = "index.sqlite3"
_LEAST_FREE = 64 * 2**20
"""Bytes that an index leaves free on its disk: the journals need them more."""
_WAIT_S = 60.0
_MODE = 0o640  # as private as the journals

_TABLES = """
CREATE TABLE IF NOT EXISTS files (
  id INTEGER PRIMARY KEY, name TEXT, chain TEXT, first INTEGER,
  size INTEGER, mtime INTEGER, offset INTEGER, lines INTEGER, fault TEXT, UNIQUE (chain, first));
CREATE TABLE IF NOT EXISTS records (
  id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER REFERENCES files ON DELETE CASCADE,
  offset INTEGER, length INTEGER, digest BLOB, key BLOB, time INTEGER, camera TEXT, held INTEGER);
CREATE INDEX IF NOT EXISTS records_of_key ON records (key);
CREATE INDEX IF NOT EXISTS records_of_file ON records (file, offset);
CREATE INDEX IF NOT EXISTS records_of_camera ON records (camera, time);
CREATE TABLE IF NOT EXISTS sentences (
  record INTEGER REFERENCES records ON DELETE CASCADE, n INTEGER, time INTEGER, camera TEXT, at INTEGER,
  kind TEXT, action TEXT, object TEXT, colour TEXT, confidence REAL, count INTEGER, counted INTEGER,
  other TEXT, visit INTEGER, text INTEGER, PRIMARY KEY (record, n)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sentences_by_time ON sentences (time);
CREATE INDEX IF NOT EXISTS sentences_of_object ON sentences (object, time);
CREATE INDEX IF NOT EXISTS sentences_of_camera ON sentences (camera, time);
CREATE INDEX IF NOT EXISTS sentences_of_visit ON sentences (visit) WHERE visit IS NOT NULL;
CREATE INDEX IF NOT EXISTS sentences_of_text ON sentences (text);
CREATE INDEX IF NOT EXISTS arrivals ON sentences (camera, object, time / 900000000, visit, count)
  WHERE counted AND kind IN ('appeared', 'more');
CREATE TABLE IF NOT EXISTS visits (
  id INTEGER PRIMARY KEY, camera TEXT, track TEXT, object TEXT, begin INTEGER, end INTEGER, last INTEGER,
  UNIQUE (camera, track));
CREATE INDEX IF NOT EXISTS visits_of_object ON visits (camera, object, begin, end);
CREATE INDEX IF NOT EXISTS visits_open ON visits (camera) WHERE end IS NULL;
CREATE INDEX IF NOT EXISTS visits_by_end ON visits (end);
CREATE TABLE IF NOT EXISTS gaps (
  record INTEGER PRIMARY KEY REFERENCES records ON DELETE CASCADE,
  camera TEXT, begin INTEGER, end INTEGER, reason TEXT);
CREATE TABLE IF NOT EXISTS texts (id INTEGER PRIMARY KEY, text TEXT UNIQUE);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
  text, content='texts', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER IF NOT EXISTS text_added AFTER INSERT ON texts BEGIN
  INSERT INTO words (rowid, text) VALUES (new.id, new.text); END;
CREATE TRIGGER IF NOT EXISTS text_deleted AFTER DELETE ON texts BEGIN
  INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text); END;
CREATE TRIGGER IF NOT EXISTS sentence_deleted AFTER DELETE ON sentences BEGIN
  DELETE FROM texts WHERE id = old.text AND NOT EXISTS (SELECT 1 FROM sentences WHERE text = old.text);
  DELETE FROM visits WHERE id = old.visit
    AND NOT EXISTS (SELECT 1 FROM sentences WHERE visit = old.visit); END;
"""


@dataclass(frozen=True, slots=True)
class Store:
    """An open index; `connection` is in autocommit mode."""

    connection: sqlite3.Connection
    path: Path

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing; other writers wait.

        Raises:
            NoJournalsError: the disk has no room for the index to grow.
        """
        try:
            _check_room(self.path)
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
            except BaseException:
                with suppress(sqlite3.OperationalError):  # a full disk has rolled back already
                    self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise NoJournalsError(f"the index {self.path} cannot be written: {error}") from None


def open_store(folder: Path) -> Store:
    """Open the index of a folder of journals: beside them, or else in the user's cache.

    Raises:
        NoJournalsError: it can be written in neither.
    """
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    cached = user_cache_path("narrated", appauthor=False) / f"index-{name}.sqlite3"
    reasons = []
    for path in (folder / FILE, cached):
        try:
            return Store(_open(path), path)
        except (OSError, sqlite3.OperationalError) as error:
            reasons.append(f"{path}: {getattr(error, 'strerror', None) or error}")
    raise NoJournalsError(f"no index can be written; set XDG_CACHE_HOME ({'; '.join(reasons)})")


def _check_room(path: Path) -> None:
    if shutil.disk_usage(path.parent).free < _LEAST_FREE:
        raise sqlite3.OperationalError(f"less than {_LEAST_FREE >> 20} MB are free on that disk")


def _open(path: Path) -> sqlite3.Connection:
    """Open or make the index at a path; a damaged one, or one of another version, is deleted first.

    Raises:
        OSError, sqlite3.OperationalError: it cannot be written there.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        _check_room(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE))
    connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        # secure_delete: deleted text is not left in free pages.
        for pragma in ("secure_delete = ON", "synchronous = NORMAL", "cache_size = -65536"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("PRAGMA journal_mode = WAL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:  # two may come at the same time: one waits, and finds the tables
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.OperationalError:
        connection.close()
        raise
    except sqlite3.DatabaseError:
        version = None
    if version in (0, VERSION):
        return connection
    connection.close()
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return _open(path)
