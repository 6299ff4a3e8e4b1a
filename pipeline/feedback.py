"""What people say of narrations: reviewed, a note, right or wrong, what it was in truth.

SQLite beside the journals and never part of the record: nothing here changes what was narrated. The page of
`narrated serve` writes it, training reads it, at the same time if need be.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any, Self

FILE = "feedback.sqlite3"
"""Its name in the folder of the journals."""

TYPES = ("appeared", "disappeared", "moved", "more", "fewer", "replaced")
"""The types of change that a correction may name; see `pipeline.record_members.RecordSentence`."""

LONGEST_NOTE = 10_000
"""Characters."""

_VERSION = 1
_APPLICATION = 0x6E617266  # "narf"
_WAIT_S = 30.0
_MODE = 0o640
_LONGEST_ID, _LONGEST_NAME, _MOST_SENTENCES = 128, 256, 10_000
_TABLES = """
CREATE TABLE reviews (record TEXT PRIMARY KEY, who TEXT NOT NULL, time TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE notes (record TEXT PRIMARY KEY, text TEXT NOT NULL, who TEXT NOT NULL, time TEXT NOT NULL)
  WITHOUT ROWID;
CREATE TABLE feedback (
  number INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL, sentence INTEGER NOT NULL,
  opinion TEXT NOT NULL, type TEXT, object TEXT, box TEXT, who TEXT NOT NULL, time TEXT NOT NULL);
CREATE INDEX feedback_of_sentence ON feedback (record, sentence, number)
"""
_NEWEST = (
    "SELECT record, sentence, opinion, type, object, box, who, time FROM feedback WHERE number IN "
    "(SELECT max(number) FROM feedback GROUP BY record, sentence)"
)


class FeedbackError(Exception):
    """The file cannot be read or written, or what is said does not fit; the message says what to do."""


class Opinion(StrEnum):
    """What somebody says of a sentence."""

    RIGHT = "right"
    WRONG = "wrong"
    CORRECTED = "corrected"


@dataclass(frozen=True, slots=True)
class Correction:
    """What it was in truth; None where the sentence was right.

    Attributes:
        type: one of `TYPES`.
        object: one of `models.families.OBJECTS`, or whatever people call it.
        box: ``(x, y, width, height)`` in 0..1 of the frame: in the after frame, in the before frame of what
            disappeared.

    Raises:
        FeedbackError: nothing is corrected, or a value does not fit.
    """

    type: str | None = None
    object: str | None = None
    box: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        if self.type is None and self.object is None and self.box is None:
            raise FeedbackError("a correction says what it was: give its type, object or box")
        if self.type is not None and self.type not in TYPES:
            raise FeedbackError(f"the type {self.type!r} is not one of {', '.join(TYPES)}")
        if self.object is not None and not 0 < len(self.object.strip()) <= _LONGEST_NAME:
            raise FeedbackError(f"the object is a word of 1 to {_LONGEST_NAME} characters")
        if self.box is not None and not _fits(self.box):
            raise FeedbackError(f"the box {self.box} is not x, y, width, height in 0..1 of the frame")


@dataclass(frozen=True, slots=True)
class Feedback:
    """What somebody said of one sentence.

    Attributes:
        record: id of the record.
        sentence: its place in the record's `sentences`, from 0.
        opinion: see there.
        correction: of a corrected one, None otherwise.
        who: login name, or empty.
        time: when it was said, aware UTC.
    """

    record: str
    sentence: int
    opinion: Opinion
    correction: Correction | None
    who: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Review:
    """A record that somebody has looked at."""

    who: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody wrote to a record."""

    text: str
    who: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Remarks:
    """All that people say of one record now.

    Attributes:
        review: None where it is not reviewed.
        note: None where there is none.
        feedback: by sentence, the newest of each.
    """

    review: Review | None
    note: Note | None
    feedback: Mapping[int, Feedback]


class FeedbackStore:
    """The file; for all threads of one process, beside other processes.

    Args:
        path: of the file; made where it is absent, unless `read_only`.
        read_only: nothing is written, so that a file of another user can be read.
        now: the time that is noted, aware.

    Raises:
        FeedbackError: it cannot be opened, or is not of this version.
    """

    def __init__(
        self, path: Path, *, read_only: bool = False, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.path, self._now, self._lock = path, now, Lock()
        if read_only and not path.is_file():
            raise FeedbackError(f"there is no feedback in {path}; it is given on the page of narrated serve")
        try:
            if not read_only:
                path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE))
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}",
                uri=True,
                timeout=_WAIT_S,
                isolation_level=None,
                check_same_thread=False,
            )
        except (OSError, sqlite3.Error) as error:
            raise FeedbackError(f"{path} cannot be opened: {error}; is the folder there, and ours?") from None
        try:
            with self._worded():
                self._begin(read_only=read_only)
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            self._connection.close()

    def set_reviewed(self, record: str, *, reviewed: bool = True, who: str = "") -> None:
        """Mark a record as looked at, or take the mark back.

        Raises:
            FeedbackError: here and below: a value does not fit, or the file cannot be read or written.
        """
        _check(record, who)
        if reviewed:
            sql = "INSERT OR REPLACE INTO reviews VALUES (?, ?, ?)"
            self._write(sql, (record, who, self._stamp()))
        else:
            self._write("DELETE FROM reviews WHERE record = ?", (record,))

    def set_note(self, record: str, text: str, who: str = "") -> None:
        """Put a note to a record, in place of the one before; an empty one takes it away."""
        _check(record, who)
        if len(text) > LONGEST_NOTE:
            raise FeedbackError(f"the note has {len(text)} characters, {LONGEST_NOTE} at most")
        if text.strip():
            sql = "INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?)"
            self._write(sql, (record, text, who, self._stamp()))
        else:
            self._write("DELETE FROM notes WHERE record = ?", (record,))

    def say(
        self,
        record: str,
        sentence: int,
        opinion: Opinion,
        correction: Correction | None = None,
        who: str = "",
    ) -> None:
        """Say something of a sentence; from now on this counts, and what was said before is kept."""
        _check(record, who)
        if not 0 <= sentence < _MOST_SENTENCES:
            raise FeedbackError(f"a record has no sentence {sentence}")
        if (opinion is Opinion.CORRECTED) != (correction is not None):
            raise FeedbackError("a corrected sentence has a correction, and no other has")
        what: tuple[str | None, ...] = (None, None, None)
        if correction:
            box = None if correction.box is None else json.dumps(correction.box)
            what = (correction.type, correction.object, box)
        values = (record, sentence, opinion.value, *what, who, self._stamp())
        columns = "record, sentence, opinion, type, object, box, who, time"
        self._write(f"INSERT INTO feedback ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)  # noqa: S608

    def withdraw(self, record: str, sentence: int) -> None:
        """Take back all that was said of a sentence."""
        self._write("DELETE FROM feedback WHERE record = ? AND sentence = ?", (record, sentence))

    def remarks(self, records: Iterable[str]) -> dict[str, Remarks]:
        """What is said of records, by id; those of which nothing is said are absent. Of one moment."""
        ids = (json.dumps(list(records)),)
        chosen = "record IN (SELECT value FROM json_each(?))"
        with self._lock, self._worded(), self._snapshot() as db:
            reviews = db.execute(f"SELECT * FROM reviews WHERE {chosen}", ids).fetchall()  # noqa: S608
            notes = db.execute(f"SELECT * FROM notes WHERE {chosen}", ids).fetchall()  # noqa: S608
            said = db.execute(f"{_NEWEST} AND {chosen} ORDER BY sentence", ids).fetchall()
        reviewed = {record: Review(who, _moment(time)) for record, who, time in reviews}
        noted = {record: Note(text, who, _moment(time)) for record, text, who, time in notes}
        told: dict[str, dict[int, Feedback]] = {}
        for row in said:
            told.setdefault(row[0], {})[row[1]] = _feedback(row)
        return {
            record: Remarks(reviewed.get(record), noted.get(record), told.get(record, {}))
            for record in {**reviewed, **noted, **told}
        }

    def newest(self) -> list[Feedback]:
        """What counts of all sentences, in the order in which it was said."""
        with self._lock, self._worded():
            rows = self._connection.execute(f"{_NEWEST} ORDER BY number").fetchall()
        return [_feedback(row) for row in rows]

    def _begin(self, *, read_only: bool) -> None:
        db = self._connection
        (version,), (application,) = (
            db.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")
        )
        if (version, application) == (0, 0) and not read_only:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")  # two may come at the same time; this one waits
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    raise FeedbackError(f"{self.path} is not a feedback file: it holds other tables")
                for statement in _TABLES.split(";\n"):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
                db.execute(f"PRAGMA user_version = {_VERSION}")
            db.execute("COMMIT")
            version, application = _VERSION if version == 0 else version, _APPLICATION
        if application != _APPLICATION:
            raise FeedbackError(f"{self.path} is not a feedback file: it is called {FILE}")
        if version != _VERSION:
            raise FeedbackError(
                f"{self.path} is of version {version} and this narrated knows {_VERSION}: use the narrated "
                "that wrote it, or move the file away to begin anew"
            )
        db.execute("PRAGMA synchronous = FULL")

    def _write(self, sql: str, values: tuple[Any, ...]) -> None:
        with self._lock, self._worded():
            self._connection.execute(sql, values)

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN")
        try:
            yield self._connection
        finally:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _worded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise FeedbackError(f"{self.path}: {error}; free space or fix permissions") from None
        except sqlite3.Error as error:
            raise FeedbackError(f"{self.path} is damaged ({error}): move it away") from None

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).isoformat(timespec="microseconds")


def _feedback(row: tuple[Any, ...]) -> Feedback:
    record, sentence, opinion, kind, thing, box, who, time = row
    corrected = None
    if opinion == Opinion.CORRECTED:
        corrected = Correction(kind, thing, None if box is None else tuple(json.loads(box)))
    return Feedback(record, sentence, Opinion(opinion), corrected, who, _moment(time))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _fits(box: tuple[float, ...]) -> bool:
    if len(box) != 4 or not all(isinstance(v, int | float) and 0 <= v <= 1 for v in box):  # noqa: PLR2004
        return False
    x, y, width, height = box
    return width > 0 and height > 0 and x + width <= 1 + 1e-6 and y + height <= 1 + 1e-6


def _check(record: str, who: str) -> None:
    if not 0 < len(record) <= _LONGEST_ID:
        raise FeedbackError(f"a record's id has 1 to {_LONGEST_ID} characters")
    if len(who) > _LONGEST_NAME:
        raise FeedbackError(f"the name has {len(who)} characters, {_LONGEST_NAME} at most")
