"""People's remarks on narrations: reviewed, a note, right or wrong, what it was.

SQLite beside the journals and never part of the record: nothing here changes what was narrated. The page of
`narrated serve` writes it, training reads it, at the same time if need be.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Literal, get_args

FILE = "feedback.sqlite3"  # its name in the folder of the journals
Opinion = Literal["right", "wrong", "corrected"]  # of one sentence

TYPES = ("appeared", "disappeared", "moved", "more", "fewer", "replaced")
"""The types of change that a correction may name; see `pipeline.record.RecordSentence`."""

LONGEST = 10_000  # characters of a note or a correction

_REVIEW, _NOTE = "review", "note"  # anything else is the place of a sentence
_TABLE = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS remarks (record TEXT, about TEXT, value TEXT NOT NULL, who TEXT NOT NULL,
  time TEXT NOT NULL, PRIMARY KEY (record, about)) WITHOUT ROWID;
"""


class FeedbackError(Exception):
    """The file cannot be read or written, or a value does not fit; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A review, or with a text a note."""

    who: str
    time: datetime
    text: str = ""


@dataclass(frozen=True, slots=True)
class Feedback:
    """An opinion on one sentence."""

    opinion: Opinion
    type: str | None  # what happened, one of `TYPES`; None where that was right, or nothing was corrected
    object: str | None  # what it was: one of `models.families.OBJECTS` or any other name; None likewise
    who: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Remarks:
    """All remarks on one record; `feedback` by place of the sentence, from 0."""

    review: Mark | None = None
    note: Mark | None = None
    feedback: Mapping[int, Feedback] = field(default_factory=dict)


class FeedbackStore:
    """The file; for all threads of one process, beside other processes.

    It is made where it is absent, unless `read_only`, which is for a file of another user. One that cannot be
    opened, read or written raises `FeedbackError` (any method).
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self._lock = path, Lock()
        if read_only and not path.is_file():
            raise FeedbackError(f"there is no feedback in {path}; it is given on the page of narrated serve")
        with self._errors():
            if not read_only:
                path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))
            address = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
            self._db = sqlite3.connect(
                address, uri=True, timeout=30, isolation_level=None, check_same_thread=False
            )
            try:
                self._db.executescript("" if read_only else _TABLE)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def set_reviewed(self, record: str, *, reviewed: bool = True, who: str = "") -> None:
        self._set(record, _REVIEW, "yes" if reviewed else "", who)

    def set_note(self, record: str, text: str, who: str = "") -> None:
        """Replace a record's note; an empty one removes it."""
        self._set(record, _NOTE, text if text.strip() else "", who)

    def set_opinion(
        self,
        record: str,
        sentence: int,
        opinion: str,
        *,
        type: str | None = None,  # noqa: A002 - the member's name
        object: str | None = None,  # noqa: A002
        who: str = "",
    ) -> None:
        """Replace the opinion on a sentence; see `Feedback`. An empty one removes it."""
        if opinion and opinion not in get_args(Opinion):
            raise FeedbackError(f"the opinion {opinion!r} is not one of {', '.join(get_args(Opinion))}")
        if (opinion == "corrected") != bool(type or object):
            raise FeedbackError("a correction, and nothing else, says what happened or what it was")
        if type and type not in TYPES:
            raise FeedbackError(f"the type {type!r} is not one of {', '.join(TYPES)}")
        value = json.dumps({"opinion": opinion, "type": type, "object": object}) if opinion else ""
        self._set(record, str(sentence), value, who)

    def remarks(self, records: Iterable[str] | None = None) -> dict[str, Remarks]:
        """By id; records without any are absent. None asks for all."""
        chosen = "" if records is None else "WHERE record IN (SELECT value FROM json_each(?))"
        ids = () if records is None else (json.dumps(list(records)),)
        results: dict[str, dict[str, Any]] = {}
        with self._errors():
            rows = self._db.execute(f"SELECT * FROM remarks {chosen} ORDER BY record, about", ids)  # noqa: S608
            for record, about, value, who, time in rows:
                own = results.setdefault(record, {"feedback": {}})
                moment = datetime.fromisoformat(time)
                if about in (_REVIEW, _NOTE):
                    own[about] = Mark(who, moment, value)
                else:
                    own["feedback"][int(about)] = Feedback(**json.loads(value), who=who, time=moment)
        return {record: Remarks(**members) for record, members in results.items()}

    def _set(self, record: str, about: str, value: str, who: str) -> None:
        if len(value) > LONGEST:
            raise FeedbackError(f"the text has {len(value)} characters, {LONGEST} at most")
        with self._errors():
            if value:
                row = (record, about, value, who, datetime.now(UTC).isoformat())
                self._db.execute("INSERT OR REPLACE INTO remarks VALUES (?, ?, ?, ?, ?)", row)
            else:
                self._db.execute("DELETE FROM remarks WHERE record = ? AND about = ?", (record, about))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except (OSError, sqlite3.Error) as error:
                raise FeedbackError(
                    f"{self.path} cannot be used: {error}; check that it is the {FILE} of a page, that this "
                    "user may write it, and that the disk has space"
                ) from None
