"""What people say of narrations: reviewed, a note, right or wrong, what it was.

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
_LONGEST_NAME = 256
_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS reviews (record TEXT PRIMARY KEY, who TEXT NOT NULL, time TEXT NOT NULL)
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (record TEXT PRIMARY KEY, text TEXT NOT NULL, who TEXT NOT NULL,
  time TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feedback (
  number INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL, sentence INTEGER NOT NULL,
  opinion TEXT NOT NULL, type TEXT, object TEXT, box TEXT, who TEXT NOT NULL, time TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS feedback_of_sentence ON feedback (record, sentence, number);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_NEWEST = (
    "SELECT record, sentence, opinion, type, object, box, who, time FROM feedback WHERE number IN "
    "(SELECT max(number) FROM feedback GROUP BY record, sentence)"
)


class FeedbackError(Exception):
    """The file cannot be read or written, or a value does not fit; the message says what to do."""


class Opinion(StrEnum):
    """Of one sentence."""

    RIGHT = "right"
    WRONG = "wrong"
    CORRECTED = "corrected"


@dataclass(frozen=True, slots=True)
class Correction:
    """What it was; None where the sentence was right.

    Attributes:
        type: one of `TYPES`.
        object: one of `models.families.OBJECTS`, or any other name.
        box: ``(x, y, width, height)`` in 0..1 of the after frame, or of the before frame of what disappeared.

    Raises:
        FeedbackError: nothing is corrected, or a value does not fit.
    """

    type: str | None = None
    object: str | None = None
    box: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        if self.type is None and self.object is None and self.box is None:
            raise FeedbackError("a correction needs a type, an object or a box")
        if self.type is not None and self.type not in TYPES:
            raise FeedbackError(f"the type {self.type!r} is not one of {', '.join(TYPES)}")
        if self.object is not None and not 0 < len(self.object.strip()) <= _LONGEST_NAME:
            raise FeedbackError(f"the object is a word of 1 to {_LONGEST_NAME} characters")
        if self.box is not None and not _fits(self.box):
            raise FeedbackError(f"the box {self.box} is not x, y, width, height in 0..1 of the frame")


@dataclass(frozen=True, slots=True)
class Feedback:
    """One opinion on the sentence at a place (from 0) of a record; `correction` where it was corrected."""

    record: str
    sentence: int
    opinion: Opinion
    correction: Correction | None
    who: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Mark:
    """A review, or with a text a note."""

    who: str
    time: datetime
    text: str = ""


@dataclass(frozen=True, slots=True)
class Remarks:
    """All that people say of one record; `feedback` by sentence, the newest of each."""

    review: Mark | None
    note: Mark | None
    feedback: Mapping[int, Feedback]


class FeedbackStore:
    """The file; for all threads of one process, beside other processes.

    Args:
        path: made where it is absent, unless `read_only`.
        read_only: for a file of another user.
        now: the time that is noted, aware.

    Raises:
        FeedbackError: it cannot be opened, read or written (any method), or is of another version.
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
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))
            address = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
            self._db = sqlite3.connect(
                address, uri=True, timeout=30, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise FeedbackError(f"{path} cannot be opened: {error}; is the folder there, and ours?") from None
        try:
            with self._using() as db:
                self._check_version(db, read_only=read_only)
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def set_reviewed(self, record: str, *, reviewed: bool = True, who: str = "") -> None:
        """Mark a record as reviewed, or take the mark back."""
        if reviewed:
            self._write("INSERT OR REPLACE INTO reviews VALUES (?, ?, ?)", record, who, self._stamp())
        else:
            self._write("DELETE FROM reviews WHERE record = ?", record)

    def set_note(self, record: str, text: str, who: str = "") -> None:
        """Replace a record's note; an empty one removes it."""
        if len(text) > LONGEST_NOTE:
            raise FeedbackError(f"the note has {len(text)} characters, {LONGEST_NOTE} at most")
        if text.strip():
            self._write("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?)", record, text, who, self._stamp())
        else:
            self._write("DELETE FROM notes WHERE record = ?", record)

    def say(
        self,
        record: str,
        sentence: int,
        opinion: Opinion,
        correction: Correction | None = None,
        who: str = "",
    ) -> None:
        """Give an opinion on a sentence; the newest counts, earlier ones are kept."""
        if (opinion is Opinion.CORRECTED) != (correction is not None):
            raise FeedbackError("a corrected sentence has a correction, and no other has")
        what = (correction.type, correction.object, correction.box) if correction else (None, None, None)
        box = json.dumps(what[2]) if what[2] else None
        self._write(
            "INSERT INTO feedback (record, sentence, opinion, type, object, box, who, time) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(record, sentence, opinion.value, what[0], what[1], box, who, self._stamp()),
        )

    def withdraw(self, record: str, sentence: int) -> None:
        """Take back all opinions on a sentence."""
        self._write("DELETE FROM feedback WHERE record = ? AND sentence = ?", record, sentence)

    def remarks(self, records: Iterable[str]) -> dict[str, Remarks]:
        """By id; records without any are absent."""
        ids = (json.dumps(list(records)),)
        chosen = "record IN (SELECT value FROM json_each(?))"
        with self._using() as db:
            reviews = db.execute(f"SELECT * FROM reviews WHERE {chosen}", ids).fetchall()  # noqa: S608
            notes = db.execute(f"SELECT * FROM notes WHERE {chosen}", ids).fetchall()  # noqa: S608
            opinions = db.execute(f"{_NEWEST} AND {chosen} ORDER BY sentence", ids).fetchall()
        reviewed = {record: Mark(who, datetime.fromisoformat(time)) for record, who, time in reviews}
        noted = {record: Mark(who, datetime.fromisoformat(time), text) for record, text, who, time in notes}
        by_record: dict[str, dict[int, Feedback]] = {}
        for row in opinions:
            by_record.setdefault(row[0], {})[row[1]] = _feedback(row)
        return {
            record: Remarks(reviewed.get(record), noted.get(record), by_record.get(record, {}))
            for record in {**reviewed, **noted, **by_record}
        }

    def newest(self) -> list[Feedback]:
        """The newest opinion on each sentence, in the order in which they were given."""
        with self._using() as db:
            return [_feedback(row) for row in db.execute(f"{_NEWEST} ORDER BY number")]

    def _check_version(self, db: sqlite3.Connection, *, read_only: bool) -> None:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "feedback" not in tables:
            raise FeedbackError(f"{self.path} is not a feedback file: it is called {FILE}")
        if version not in (0, _VERSION):
            raise FeedbackError(
                f"{self.path} is of version {version} and this narrated knows {_VERSION}: use the narrated "
                "that wrote it, or move the file away to start an empty one"
            )
        if not read_only:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.executescript(_TABLES)

    def _write(self, sql: str, *values: object) -> None:
        with self._using() as db:
            db.execute(sql, values)

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except sqlite3.OperationalError as error:
                raise FeedbackError(f"{self.path}: {error}; free space or fix permissions") from None
            except sqlite3.Error as error:
                raise FeedbackError(f"{self.path} is damaged ({error}): move it away") from None

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).isoformat(timespec="microseconds")


def _feedback(row: tuple[Any, ...]) -> Feedback:
    record, sentence, opinion, kind, thing, box, who, time = row
    correction = None
    if opinion == Opinion.CORRECTED:
        correction = Correction(kind, thing, None if box is None else tuple(json.loads(box)))
    return Feedback(record, sentence, Opinion(opinion), correction, who, datetime.fromisoformat(time))


def _fits(box: tuple[float, ...]) -> bool:
    if len(box) != 4 or not all(isinstance(v, int | float) and 0 <= v <= 1 for v in box):  # noqa: PLR2004
        return False
    x, y, width, height = box
    return width > 0 and height > 0 and x + width <= 1 + 1e-6 and y + height <= 1 + 1e-6
