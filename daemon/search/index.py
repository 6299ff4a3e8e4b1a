"""The index of a folder of journals, in SQLite: kept up from their ends, never the truth itself.

It lies beside the journals, and is deleted and built again whenever it does not fit. A file of a journal is
known by its chain and its first record, as a segment is renamed when it is full. The index remembers how far
each was read: one whose last record is another now, that is shorter, or that was written again at the same
length, is read again from its start.
"""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from platformdirs import user_cache_path

from daemon.questions.facts import ARRIVALS, DEPARTURES, UNTIL_THE_NEXT, facts_of, gap_of, time_of
from daemon.questions.question import NoJournalsError
from pipeline.disk import PRIVATE_FOLDER, make_folder
from pipeline.record_format import RecordError, closed_name, hash_holds

Row = tuple[object, ...]

VERSION = 16  # of the tables below and of what is in them
FILE = "index.sqlite3"
BLOCK = 8192  # lines that are read, and written into the index, in one go

INSTALLED = Path("/var/lib/narrated")  # where the service's unit keeps its state
_LISTINGS = 20  # how often files are listed again while segments are closed faster than they are read
_LONGEST_LINE = 16 * 2**20
_LEAST_FREE = 64 * 2**20  # bytes that an index leaves free on its disk: the journals need them more
_WAIT_S = 60.0
_MODE = 0o640  # as private as the journals

_TABLES = """
CREATE TABLE IF NOT EXISTS files (
  id INTEGER PRIMARY KEY, name TEXT, chain TEXT, first INTEGER,
  size INTEGER, mtime INTEGER, offset INTEGER, lines INTEGER, fault TEXT, UNIQUE (chain, first));
CREATE TABLE IF NOT EXISTS records (
  id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER REFERENCES files ON DELETE CASCADE,
  offset INTEGER, length INTEGER, digest BLOB, identity TEXT, time INTEGER, camera TEXT, held INTEGER,
  pictured INTEGER);
CREATE INDEX IF NOT EXISTS records_by_identity ON records (identity);
CREATE INDEX IF NOT EXISTS records_of_file ON records (file, offset);
CREATE INDEX IF NOT EXISTS records_of_camera ON records (camera, time);
CREATE INDEX IF NOT EXISTS records_with_pictures ON records (camera, time) WHERE pictured;
CREATE TABLE IF NOT EXISTS sentences (
  record INTEGER REFERENCES records ON DELETE CASCADE, n INTEGER, time INTEGER, camera TEXT, at INTEGER,
  kind TEXT, action TEXT, object TEXT, colour TEXT, confidence REAL, count INTEGER, counted INTEGER,
  other TEXT, visit INTEGER, text INTEGER, PRIMARY KEY (record, n)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sentences_by_time ON sentences (time);
CREATE INDEX IF NOT EXISTS sentences_of_object ON sentences (object, time, visit);
CREATE INDEX IF NOT EXISTS sentences_of_camera ON sentences (camera, time);
CREATE INDEX IF NOT EXISTS sentences_of_visit ON sentences (visit) WHERE visit IS NOT NULL;
CREATE INDEX IF NOT EXISTS sentences_of_text ON sentences (text, object, visit);
CREATE INDEX IF NOT EXISTS sentences_of_rules ON sentences (text) WHERE kind = 'rule';
CREATE INDEX IF NOT EXISTS arrivals ON sentences (camera, object, time / 900000000, visit, count)
  WHERE counted AND kind IN ('appeared', 'more');
CREATE TABLE IF NOT EXISTS visits (
  id INTEGER PRIMARY KEY, camera TEXT, track TEXT, object TEXT, begin INTEGER, end INTEGER, last INTEGER,
  lost INTEGER, UNIQUE (camera, track));
CREATE INDEX IF NOT EXISTS visits_of_object ON visits (camera, object, begin, end);
CREATE INDEX IF NOT EXISTS visits_open ON visits (camera) WHERE end IS NULL;
CREATE INDEX IF NOT EXISTS visits_by_end ON visits (end);
CREATE TABLE IF NOT EXISTS gaps (
  record INTEGER PRIMARY KEY REFERENCES records ON DELETE CASCADE,
  camera TEXT, begin INTEGER, end INTEGER, reason TEXT);
-- From one camera, or object, to the next by an index, in place of reading a million rows.
CREATE VIEW IF NOT EXISTS cameras AS WITH RECURSIVE names (name) AS (
    SELECT min(camera) FROM records UNION ALL
    SELECT (SELECT min(camera) FROM records WHERE camera > name) FROM names WHERE name IS NOT NULL)
  SELECT name AS camera, (SELECT min(time) FROM records WHERE camera = name) AS first,
    (SELECT max(time) FROM records WHERE camera = name) AS newest FROM names WHERE name IS NOT NULL;
CREATE VIEW IF NOT EXISTS objects AS WITH RECURSIVE names (name) AS (
    SELECT min(object) FROM sentences UNION ALL
    SELECT (SELECT min(object) FROM sentences WHERE object > name) FROM names WHERE name IS NOT NULL)
  SELECT name AS object FROM names WHERE name != '';
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


_ADD_VISIT = (
    "INSERT INTO visits (camera, track, object, begin, end, last, lost) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (camera, track) DO UPDATE SET object = excluded.object, begin = min(begin, excluded.begin), "
    "end = coalesce(excluded.end, end), last = max(last, excluded.last), "
    "lost = iif(excluded.end IS NULL, lost, excluded.lost) RETURNING id"
)
_ADD_TEXT = "INSERT INTO texts (text) VALUES (?) ON CONFLICT DO UPDATE SET text = text RETURNING id"
_ADD_SENTENCE = f"INSERT INTO sentences VALUES ({', '.join('?' * 15)})"
_END_MASK = "UPDATE gaps SET end = ? WHERE camera = ? AND reason = 'mask' AND end = ?"


class JournalFile(NamedTuple):
    name: str
    chain: str  # the name that the files of one chain share; a camera, but for merged files
    first: int | None  # number of a closed segment's first record; None for the file that is being written


def journal_folder(path: Path) -> Path:
    """The folder of journals that a path means: itself, or the ``journal`` in a state or replay folder."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 - holds and pictures lie beside a link, not where it leads
    if (path / "journal").is_dir():
        return path / "journal"
    if not path.is_dir():
        raise NoJournalsError(f"there is no folder {path}: give a folder of journals, or a replay's --out")
    return path


def make_journal_folder(state: Path) -> None:
    folder = state / "journal"
    try:
        if not folder.is_dir():
            make_folder(folder, PRIVATE_FOLDER)
    except OSError as error:
        raise NoJournalsError(f"{folder} is missing and cannot be made: {error.strerror}") from error


def default_state(configured: Path) -> Path:
    """The state folder to search where none is named: what is usual here, else the installed service's."""
    places = [configured] if os.environ.get("STATE_DIRECTORY") else [configured, INSTALLED]
    return next((place for place in places if (place / "journal").is_dir()), configured)


def journal_files(folder: Path) -> list[JournalFile]:
    """The files of journals in a folder, by name; NoJournalsError where it cannot be read."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".jsonl"))
    except OSError as error:
        raise NoJournalsError(f"cannot read {folder}: {error.strerror or error}") from None
    return [
        JournalFile(name, *(closed_name(name) or (name.removesuffix(".jsonl"), None)))
        for name in names
        if not name.startswith(".")
    ]


class Index:
    """The records of a folder's journals, in a file beside them or in the user's cache; for one thread.

    Any method raises NoJournalsError where the journals cannot be read, or the index not written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
        cached = user_cache_path("narrated", appauthor=False) / f"index-{name}.sqlite3"
        reasons = []
        for self.path in (folder / FILE, cached):
            try:
                self.connection = _open(self.path)
                break
            except (OSError, sqlite3.OperationalError) as error:
                reasons.append(f"{self.path}: {getattr(error, 'strerror', None) or error}")
        else:
            raise NoJournalsError(f"no index can be written; set XDG_CACHE_HOME ({'; '.join(reasons)})")

    def update(self) -> dict[str, str]:
        """Read what was appended to the journals, and drop what was deleted from them.

        Gives the files that were not read, with the reason. A segment that is closed meanwhile changes the
        list of files; they are read until it is the same before and after, so that nothing is passed over.
        """
        left_out: dict[str, str] = {}
        for _ in range(_LISTINGS):
            files = journal_files(self.folder)
            left_out.clear()
            done = set[int]()
            for file in files:
                try:
                    reason = self._read_file(file, {each.name for each in files}, done)
                except FileNotFoundError:
                    continue  # renamed or deleted since it was listed: the list has changed
                except OSError as error:
                    reason = f"it cannot be read: {error.strerror or error}"
                if reason:
                    left_out[file.name] = reason
            if journal_files(self.folder) == files:
                for (known,) in self.connection.execute("SELECT id FROM files").fetchall():
                    if known not in done:
                        self._forget(known)
                break
        return left_out

    def close(self) -> None:
        self.connection.close()

    def delete(self) -> None:
        self.close()
        _delete(self.path)

    def faults(self) -> list[str]:
        """The first line of each file that does not hold; `narrated verify` checks everything."""
        sql = "SELECT name, fault FROM files WHERE fault != '' ORDER BY name"
        return [f"{self.folder / name}:{fault}" for name, fault in self.connection.execute(sql)]

    def _forget(self, file: int) -> None:
        """Remove all that was read of a file, with texts and visits that no other file names."""
        with self._transaction() as db:
            db.execute("DELETE FROM files WHERE id = ?", (file,))
            db.execute("INSERT INTO words (words) VALUES ('optimize')")  # else deleted words stay in it

    def newest(self) -> int:
        """The number of the record that was read last, by whichever process."""
        sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'records'"
        return int(self.connection.execute(sql).fetchone()[0])

    def _read_file(self, file: JournalFile, names: set[str], done: set[int]) -> str:
        """Read on in a file; why not, where it is left out."""
        path = self.folder / file.name
        state = path.stat()
        sql = "SELECT id FROM files WHERE name = ? AND size = ? AND mtime = ?"
        values = file.name, state.st_size, state.st_mtime_ns
        if same := self.connection.execute(sql, values).fetchone():
            done.add(same[0])
            return ""
        with path.open("rb") as lines:
            state = os.fstat(lines.fileno())  # what is appended from now on is for the next update
            first = lines.readline(_LONGEST_LINE)
            if not first.endswith(b"\n") or lines.tell() > state.st_size:
                return ""  # its first line is being written
            camera, seq = file.chain, file.first or 0
            with suppress(ValueError, KeyError, TypeError):
                members = json.loads(first)
                camera, seq = str(members["camera"]), int(members["seq"])
            if camera != file.chain and f"{camera}.jsonl" in names:
                return f"it is a copy of {camera}.jsonl, or merged of journals that are here, too"
            if file.first is None and {each.name for each in journal_files(self.folder)} != names:
                return ""  # a segment closed since has records before this file's: they come first
            number = self._file(file, file.first or seq, lines, state)
            done.add(number)
            while self._read_block(number, file, lines, state):
                pass
        return ""

    def _file(self, file: JournalFile, first: int, lines: BinaryIO, state: os.stat_result) -> int:
        """The row of a file by its first record; a new one where the end of what was read is not in it."""
        sql = (
            "INSERT INTO files VALUES (NULL, ?, ?, ?, 0, 0, 0, 0, '') ON CONFLICT DO UPDATE SET name = name "
            "RETURNING id, size, mtime, offset"
        )
        with self._transaction() as db:
            number, size, mtime, offset = db.execute(sql, (file.name, file.chain, first)).fetchone()
            sql = "SELECT offset, length, digest FROM records WHERE file = ? ORDER BY offset DESC LIMIT 1"
            last = db.execute(sql, (number,)).fetchone()
        changed = state.st_size < offset or (state.st_size == size and state.st_mtime_ns != mtime)
        if last and not changed:
            begin, length, digest = last
            lines.seek(begin)
            changed = f'"hash":"{digest.hex()}'.encode() not in lines.read(length)
        if not (offset and changed):
            return int(number)
        self._forget(number)
        return self._file(file, first, lines, state)

    def _read_block(self, number: int, file: JournalFile, lines: BinaryIO, state: os.stat_result) -> bool:
        """Read on from where any process has read to, by so many lines at most; False at the end."""
        with self._transaction() as db:
            row = db.execute("SELECT offset, lines, fault FROM files WHERE id = ?", (number,)).fetchone()
            offset, count, fault = row or (state.st_size, 0, "")  # forgotten by another process
            lines.seek(offset)
            for _ in range(BLOCK):
                line = lines.readline()
                more = line.endswith(b"\n") and offset + len(line) <= state.st_size
                if not more:
                    break  # the rest is still being written
                reason, count = _take(db, number, line, offset), count + 1
                fault = fault or (reason and f"{count}: {reason}")
                offset += len(line)
            values = file.name, state.st_size, state.st_mtime_ns, offset, count, fault, number
            names = "name = ?, size = ?, mtime = ?, offset = ?, lines = ?, fault = ?"
            db.execute(f"UPDATE files SET {names} WHERE id = ?", values)
        return more

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            _check_room(self.path)
            with self.connection:  # commits, or rolls back
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
        except sqlite3.OperationalError as error:
            raise NoJournalsError(f"the index {self.path} cannot be written: {error}") from None


def _check_room(path: Path) -> None:
    if shutil.disk_usage(path.parent).free < _LEAST_FREE:
        raise sqlite3.OperationalError(f"less than {_LEAST_FREE >> 20} MB are free on that disk")


def _open(path: Path) -> sqlite3.Connection:
    """Open or make the index at a path; a damaged one, or one of another version, is deleted first."""
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
        connection.execute("SELECT * FROM sqlite_sequence").fetchall()
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.OperationalError:
        connection.close()
        raise
    except sqlite3.DatabaseError:
        version = None
    if version in (0, VERSION):
        return connection
    connection.close()
    _delete(path)
    return _open(path)


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """True where an error says that the index is damaged; text that cannot be decoded has no code."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    damage = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return damage and type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError)


def _take(db: sqlite3.Connection, file: int, line: bytes, offset: int) -> str:
    """Take in a line that begins at a byte of a file; why it does not hold, mostly empty."""
    holds = hash_holds(line[:-1])
    try:
        if not holds:
            from pipeline.record import read_record  # noqa: PLC0415 - rare, and slow to load

            read_record(line)  # a line that carries its hash was written by narrated
        members = json.loads(line)
        time, digest = time_of(members["after"]["time"]), bytes.fromhex(members["hash"])[:8]
        camera, identity = str(members["camera"]), str(members["id"])
        facts, gap = facts_of(members, time, ""), gap_of(members, time)
        visits = [_visit(db, each, camera, time) for each in members["sentences"] or [{}]]
    except (RecordError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return "no record: the line was changed, or another program's"
    marks = bool(members.get("held")), bool(members.get("evidence"))
    row = (file, offset, len(line), digest, identity, time, camera, *marks)
    record = db.execute(f"INSERT INTO records VALUES (NULL{', ?' * len(row)})", row).lastrowid
    for n, ((_, *about, _, text), visit) in enumerate(zip(facts, visits, strict=True)):
        (number,) = db.execute(_ADD_VISIT, visit).fetchone() if visit else (None,)
        (words,) = db.execute(_ADD_TEXT, (text,)).fetchone()
        db.execute(_ADD_SENTENCE, (record, n, *about, number, words))
    if gap:
        begin, _, reason = gap
        if reason == "mask":
            db.execute(_END_MASK, (begin, camera, UNTIL_THE_NEXT))
        db.execute("INSERT INTO gaps VALUES (?, ?, ?, ?, ?)", (record, camera, *gap))
    return "" if holds else "the hash does not match: the line was changed"


def _visit(db: sqlite3.Connection, sentence: Mapping[str, Any], camera: str, time: int) -> Row | None:
    """Camera, track, object, begin, end, last sign of a visit, and if it was lost, as a sentence says."""
    track = sentence.get("track")
    if not track:
        return None
    known = "SELECT 1 FROM visits WHERE camera = ? AND track = ?"
    if sentence.get("action") == "crossed" and not db.execute(known, (camera, track)).fetchone():
        return None  # no departure may close a visit whose entrance is unknown
    at = time_of(sentence["time"]) if sentence.get("time") else time
    begin, end = at, None
    if sentence["type"] in DEPARTURES or sentence.get("action") == "closed":
        end = time_of(sentence["until"]) if sentence.get("until") else at
        begin = end - round((sentence.get("duration_s") or 0) * 1_000_000)
    if sentence.get("since") and sentence["type"] in (*ARRIVALS, *DEPARTURES):
        begin = min(begin, time_of(sentence["since"]))
    lost = sentence.get("action") == "lost"
    return camera, track, sentence["object"], begin, at if lost else end, at, lost
