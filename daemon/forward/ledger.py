"""What is to be sent to whom, on disk: queues, dead letters, and how far each stream was read.

SQLite, and not a stream of Redis: a narration that was taken must outlive a Redis that forgets, one
transaction joins "taken" with "queued for these targets", and a target that is away for days then holds up
neither the others nor the trimming of the streams.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self

from pipeline.record import Record, RecordError, read_record

FILE = "ledger.sqlite"
REMEMBERED = 10_000
"""Deliveries per target whose ids are remembered, so that what comes twice is sent once; and dead letters."""

_VERSION = 1
_BUSY_S = 10.0
_PRUNED_EVERY = 200
_SCHEMA = f"""
CREATE TABLE records (id TEXT PRIMARY KEY, line BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, target TEXT NOT NULL, record TEXT NOT NULL,
    camera TEXT NOT NULL, time TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
    taken REAL NOT NULL, reason TEXT NOT NULL DEFAULT '', UNIQUE (target, record)
);
CREATE INDEX queued ON deliveries (target, state, number);
CREATE INDEX latest ON deliveries (target, camera, state, time);
CREATE INDEX named ON deliveries (record, state);
CREATE TABLE positions (stream TEXT PRIMARY KEY, entry TEXT NOT NULL, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE seen (target TEXT, camera TEXT, object TEXT, PRIMARY KEY (target, camera, object)) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
"""

_ADDED = """
CREATE TABLE IF NOT EXISTS forgotten (target TEXT PRIMARY KEY, letters INTEGER NOT NULL) WITHOUT ROWID;
"""  # later than version 1, which knows nothing of it and is not disturbed by it


class LedgerError(Exception):
    """The ledger cannot be read or written; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An entry of a stream, and whom it concerns.

    Attributes:
        stream: its key.
        entry: its id.
        record: None where the entry holds none.
        targets: those it is queued for.
    """

    stream: str
    entry: str
    record: Record | None = None
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that waits for a target, or is dead.

    Attributes:
        number: of the delivery; they rise in the order of taking.
        attempts: how often the target has refused it.
        taken: when it was queued, seconds since the epoch.
        reason: why it was not delivered the last time.
    """

    number: int
    target: str
    record: Record
    attempts: int
    taken: float
    reason: str


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a stream was read: its last entry's id, and that record's number."""

    entry: str
    seq: int


class Ledger:
    """The file; for all threads of one process, beside short visits of others. The folder is made if need be.

    Raises:
        LedgerError: it cannot be opened, or another version wrote it.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self._path, self._now, self._lock = folder / FILE, now, Lock()
        self._done = 0
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(f"{self._path} cannot be opened: {error}; may this user write there?") from None
        try:
            with self._worded():
                self._begin()
        except LedgerError:
            self._connection.close()
            raise

    def _begin(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")  # Redis forgets what we say we have
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        elif version != _VERSION:
            raise LedgerError(
                f"{self._path} is of version {version}, this narrated knows {_VERSION}: update it"
            )
        self._connection.executescript(_ADDED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            self._connection.close()

    def take(self, entries: Sequence[Taken], most: Mapping[str, int]) -> list[str]:
        """Queue records and note how far their streams were read, all or nothing.

        What a target was sent, or waits to be sent, is not queued again.

        Args:
            entries: of any streams, each stream's in their order.
            most: how many may wait for each target; beyond it the oldest become dead letters.

        Returns:
            The targets for which something was queued.
        """
        queued = set()
        with self._transaction() as run:
            for entry in entries:
                seq = 0
                if (record := entry.record) is not None:
                    seq = record.seq
                    new = [target for target in entry.targets if self._queue(run, target, record)]
                    if new:
                        run("INSERT OR REPLACE INTO records VALUES (?, ?)", record.id, record.line())
                    queued.update(new)
                run(
                    "INSERT INTO positions VALUES (?, ?, ?) ON CONFLICT (stream) DO UPDATE "
                    "SET entry = excluded.entry, "
                    "seq = CASE excluded.seq WHEN 0 THEN seq ELSE excluded.seq END",
                    *(entry.stream, entry.entry, seq),
                )
            for target in queued:
                (waiting,) = run(_COUNT, target).fetchone()
                if (excess := waiting - most.get(target, waiting)) > 0:
                    run(
                        "UPDATE deliveries SET state = 'dead', reason = 'its queue was full' WHERE number IN "
                        "(SELECT number FROM deliveries WHERE target = ? AND state = 'waiting' "
                        "ORDER BY number LIMIT ?)",
                        *(target, excess),
                    )
                    _prune(run, target, "dead")
        return sorted(queued)

    def _queue(self, run: _Run, target: str, record: Record) -> bool:
        added = run(
            "INSERT OR IGNORE INTO deliveries (target, record, camera, time, state, taken) "
            "VALUES (?, ?, ?, ?, 'waiting', ?)",
            *(target, record.id, record.camera, record.after.time, self._now()),
        )
        return added.rowcount > 0

    def next(self, target: str) -> Letter | None:
        """The oldest record that waits for the target."""
        with self._transaction() as run:
            row = run(f"{_LETTERS} AND d.target = ? ORDER BY d.number LIMIT 1", "waiting", target).fetchone()
        return _letter(row) if row else None

    def newest(self, letter: Letter) -> bool:
        """Whether the target was sent nothing later of the same camera."""
        with self._transaction() as run:
            later = run(
                "SELECT 1 FROM deliveries "
                "WHERE target = ? AND camera = ? AND state = 'done' AND time > ? LIMIT 1",
                *(letter.target, letter.record.camera, letter.record.after.time),
            ).fetchone()
        return later is None

    def done(self, letter: Letter) -> None:
        """The target has taken it: its id stays, its words go where nobody else waits for them."""
        with self._transaction() as run:
            run("UPDATE deliveries SET state = 'done', reason = '' WHERE number = ?", letter.number)
            _forget(run, letter.record.id)
            objects = letter.record.objects or ("",)
            for name in objects:
                run("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", letter.target, letter.record.camera, name)
            self._done += 1
            if self._done % _PRUNED_EVERY == 0:
                _prune(run, letter.target, "done")

    def failed(self, letter: Letter, reason: str, *, refused: bool) -> int:
        """It was not delivered; how often the target has refused it by now."""
        with self._transaction() as run:
            run(
                "UPDATE deliveries SET attempts = attempts + ?, reason = ? WHERE number = ?",
                *(int(refused), reason, letter.number),
            )
            (attempts,) = run("SELECT attempts FROM deliveries WHERE number = ?", letter.number).fetchone()
        return int(attempts)

    def bury(self, letter: Letter) -> None:
        """It is a dead letter from now on."""
        with self._transaction() as run:
            run("UPDATE deliveries SET state = 'dead' WHERE number = ?", letter.number)
            _prune(run, letter.target, "dead")

    def expire(self, target: str, within_s: float, reason: str) -> int:
        """What has waited longer for the target becomes dead letters; how many."""
        with self._transaction() as run:
            expired = run(
                "UPDATE deliveries SET state = 'dead', reason = ? "
                "WHERE target = ? AND state = 'waiting' AND taken < ?",
                *(reason, target, self._now() - within_s),
            ).rowcount
            if expired:
                _prune(run, target, "dead")
        return int(expired)

    def orphan(self, targets: Sequence[str]) -> dict[str, int]:
        """What waits for targets other than these becomes dead letters; how many, by target."""
        marks = ",".join("?" * len(targets))
        with self._transaction() as run:
            rows = run(
                "UPDATE deliveries SET state = 'dead', reason = 'no target of that name' "  # noqa: S608
                f"WHERE state = 'waiting' AND target NOT IN ({marks}) RETURNING target",
                *targets,
            ).fetchall()
        return Counter(target for (target,) in rows)

    def dead(self, target: str | None = None) -> list[Letter]:
        """The dead letters, the oldest first."""
        with self._transaction() as run:
            rows = run(
                f"{_LETTERS} AND d.target = coalesce(?, d.target) ORDER BY d.number", "dead", target
            ).fetchall()
        return [_letter(row) for row in rows]

    def forgotten(self, target: str | None = None) -> dict[str, int]:
        """How many dead letters were too many to be kept, by target; they are in the journals only."""
        with self._transaction() as run:
            rows = run("SELECT * FROM forgotten WHERE target = coalesce(?, target)", target).fetchall()
        return dict(rows)

    def retry(self, target: str | None = None, record: str | None = None) -> int:
        """Dead letters wait again, behind what waits already; how many do."""
        with self._transaction() as run:
            return int(
                run(
                    "UPDATE deliveries SET state = 'waiting', attempts = 0, taken = ? WHERE state = 'dead' "
                    "AND target = coalesce(?, target) AND record = coalesce(?, record)",
                    *(self._now(), target, record),
                ).rowcount
            )

    def counts(self) -> dict[str, dict[str, int]]:
        """How many wait and how many are dead, by target."""
        with self._transaction() as run:
            rows = run(
                "SELECT target, state, count(*) FROM deliveries WHERE state != 'done' GROUP BY target, state"
            ).fetchall()
        counted: dict[str, dict[str, int]] = {}
        for target, state, count in rows:
            counted.setdefault(target, {"waiting": 0, "dead": 0})[state] = count
        return counted

    def positions(self) -> dict[str, StreamPosition]:
        """How far each stream was read."""
        with self._transaction() as run:
            rows = run("SELECT stream, entry, seq FROM positions").fetchall()
        return {stream: StreamPosition(entry, seq) for stream, entry, seq in rows}

    def forget_positions(self) -> None:
        """Streams are read from their start again; what was sent and is remembered is not sent twice."""
        with self._transaction() as run:
            run("DELETE FROM positions")

    def seen(self, target: str) -> dict[str, list[str]]:
        """Cameras of which the target was sent something, each with the objects it was told of."""
        with self._transaction() as run:
            rows = run("SELECT camera, object FROM seen WHERE target = ? ORDER BY 1, 2", target).fetchall()
        found: dict[str, list[str]] = {}
        for camera, name in rows:
            found.setdefault(camera, []).extend([name] if name else [])
        return found

    @contextmanager
    def _transaction(self) -> Iterator[_Run]:
        with self._lock, self._worded():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield lambda words, *values: self._connection.execute(words, values)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _worded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise LedgerError(
                f"{self._path}: {error}; is there space, and may this user write there?"
            ) from None
        except (sqlite3.Error, RecordError) as error:
            raise LedgerError(f"{self._path} is damaged ({error}): move it away; a new one is made") from None


_Run = Callable[..., sqlite3.Cursor]
_COUNT = "SELECT count(*) FROM deliveries WHERE target = ? AND state = 'waiting'"
_LETTERS = (
    "SELECT d.number, d.target, r.line, d.attempts, d.taken, d.reason FROM deliveries d "
    "JOIN records r ON r.id = d.record WHERE d.state = ?"
)


def _letter(row: tuple[Any, ...]) -> Letter:
    number, target, line, attempts, taken, reason = row
    return Letter(number, target, read_record(line), attempts, taken, reason)


def _forget(run: _Run, record: str) -> None:
    run(
        "DELETE FROM records WHERE id = ?1 AND NOT EXISTS "
        "(SELECT 1 FROM deliveries WHERE record = ?1 AND state != 'done')",
        record,
    )


def _prune(run: _Run, target: str, state: str) -> None:
    """Only the newest are remembered; a dead letter that goes is counted, and stays in the journal."""
    gone = run(
        "DELETE FROM deliveries WHERE target = ?1 AND state = ?2 AND number <= "
        "(SELECT number FROM deliveries WHERE target = ?1 AND state = ?2 "
        "ORDER BY number DESC LIMIT 1 OFFSET ?3) RETURNING record",
        *(target, state, REMEMBERED),
    ).fetchall()
    for (record,) in gone:
        _forget(run, record)
    if gone and state == "dead":
        run(
            "INSERT INTO forgotten VALUES (?1, ?2) ON CONFLICT (target) DO UPDATE SET letters = letters + ?2",
            *(target, len(gone)),
        )
