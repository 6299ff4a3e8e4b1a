"""The index of a folder of journals: kept up from their ends, never the truth itself.

A file is known by its first line, so that a segment that is renamed when it is full stays the same one. Of
each file the index remembers how far it was read and what the last line was: a file whose last line is
another now, that is shorter, or that was written anew at the same length, is read again from its start.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from daemon.search.folders import JournalFile, journal_files
from daemon.search.intake import Batch, ChainMark, VisitRow
from daemon.search.store import has_room, memory_store, open_store

BLOCK = 8192
"""Records that are read, and written into the index, in one go."""

_LOOKS = 20
"""How often files are listed again while segments are closed faster than they are read."""
_LONGEST_LINE = 16 * 2**20


@dataclass(slots=True)
class Look:
    """What a look at the journals found.

    Attributes:
        records: read now.
        fresh: by file the byte from which its records are new.
        left_out: files that were not read, with the reason.
    """

    records: int = 0
    fresh: dict[int, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """A file as the index knows it; see the table ``files``."""

    id: int
    name: str
    offset: int
    lines: int
    tail: int
    tail_hash: bytes
    inode: int
    size: int
    mtime: int


class Index:
    """Finds what the journals of a folder hold; for one thread.

    Attributes:
        store: the file.
    """

    def __init__(self, folder: Path, told: Callable[[int], None] | None = None) -> None:
        self.folder = folder
        self.store = open_store(folder)
        self._told = told

    def close(self) -> None:
        """Let the file go."""
        self.store.connection.close()

    def look(self) -> Look:
        """Catch up with the journals: what was appended is read, what was deleted goes.

        A segment that is closed meanwhile changes the list of files; it is looked through again until it is
        the same before and after, so that nothing is passed over.

        Raises:
            SearchError: the folder cannot be read.
        """
        try:
            return self._look()
        except sqlite3.OperationalError as error:
            if self.store.path is None:
                raise
            self.close()
            self.store = memory_store(f"the index cannot be written ({error})")
            return self._look()

    def _look(self) -> Look:
        look = Look()
        for _ in range(_LOOKS):
            files = journal_files(self.folder)
            look.left_out.clear()
            seen: dict[int, str] = {}
            for file in files:
                self._take(file, {f.name for f in files}, seen, look)
            if journal_files(self.folder) == files:
                known = self.store.connection.execute("SELECT id FROM files").fetchall()
                for (gone,) in known:
                    if gone not in seen:
                        self.forget(gone)
                break
        return look

    def _take(self, file: JournalFile, names: set[str], seen: dict[int, str], look: Look) -> None:
        """Read on in a file."""
        path = self.folder / file.name
        known = self._one("name = ?", file.name)
        try:
            state = path.stat()
            if known and (known.inode, known.size, known.mtime) == _stamp(state) and known.id not in seen:
                seen[known.id] = file.name
                return
            with path.open("rb") as lines:
                self._read(file, lines, names, seen, look)
        except FileNotFoundError:
            return  # renamed or deleted since it was listed: the list has changed
        except OSError as error:
            look.left_out[file.name] = f"it cannot be read: {error.strerror or error}"

    def _read(
        self, file: JournalFile, lines: BinaryIO, names: set[str], seen: dict[int, str], look: Look
    ) -> None:
        state = os.fstat(lines.fileno())  # what is appended from now on is for the next look
        first = lines.readline(_LONGEST_LINE)
        if not first.endswith(b"\n") or lines.tell() > state.st_size:
            return  # no whole line yet
        identity = hashlib.sha256(first).digest()
        known = self._by_identity(identity)
        if known and known.id in seen:
            look.left_out[file.name] = f"it is a copy of {seen[known.id]}"
            return
        batch = Batch()  # of this line alone
        batch.add(first, 0)
        camera = next(iter(batch.ends), file.chain)
        if camera != file.chain and f"{camera}.jsonl" in names:
            look.left_out[file.name] = "it is merged of journals that are here, too"
            return
        if known and not self._continues(known, lines, state):
            self.forget(known.id)
            known = None
        if known is None:
            seq = batch.ends[camera].seq if camera in batch.ends else (file.first or 0)
            if file.first is None and self._is_ahead(camera, seq, names):
                return
            known = self._added(identity, file, seq)
        seen[known.id] = file.name
        begun = known.offset
        while self._read_block(known, file, lines, state, look):
            pass
        if known.offset > begun:
            look.fresh[known.id] = min(begun, look.fresh.get(known.id, begun))

    def _is_ahead(self, camera: str, seq: int, names: set[str]) -> bool:
        """Whether a new file begins behind records of a segment closed since the files were listed.

        It is for the next listing: records are read in the order of their journals.
        """
        (last,) = self.store.connection.execute(
            "SELECT max(last_seq) FROM ends WHERE camera = ?", (camera,)
        ).fetchone()
        if last is None or seq <= last + 1:
            return False
        return {file.name for file in journal_files(self.folder)} != names

    def _continues(self, known: _Known, lines: BinaryIO, state: os.stat_result) -> bool:
        """Whether what was read of a file still stands there, as far as its end tells."""
        if state.st_size < known.offset:
            return False
        if known.offset and state.st_size == known.size and state.st_mtime_ns != known.mtime:
            return False
        lines.seek(known.tail)
        tail = lines.read(known.offset - known.tail)
        return not known.offset or hashlib.sha256(tail).digest() == known.tail_hash

    def _read_block(
        self, known: _Known, file: JournalFile, lines: BinaryIO, state: os.stat_result, look: Look
    ) -> bool:
        """Read on, by so many lines at most; False at the end of what there was."""
        with self.store.transaction() as db:
            offset = db.execute("SELECT offset FROM files WHERE id = ?", (known.id,)).fetchone()
            if offset is None or offset[0] != known.offset:
                known.offset = state.st_size  # another process reads it: it goes on there
                return False
            batch = Batch(known.lines, self._ends(known.id), self._earlier(file))
            tail, raw = known.tail, b""
            lines.seek(known.offset)
            place = known.offset
            while len(batch.records) + batch.unread < BLOCK and place < state.st_size:
                line = lines.readline()
                if not line.endswith(b"\n") or place + len(line) > state.st_size:
                    break  # still being written
                batch.add(line, place)
                tail, raw = place, line
                place += len(line)
            self._put(known.id, batch)
            known.offset, known.lines, known.tail = place, batch.lines, tail
            known.tail_hash = hashlib.sha256(raw).digest() if raw else known.tail_hash
            values = (file.name, *_stamp(state), place, batch.lines, tail, known.tail_hash, batch.unread)
            db.execute(
                "UPDATE files SET name=?, inode=?, size=?, mtime=?, offset=?, lines=?, tail=?, tail_hash=?, "
                "unread = unread + ?, fault = CASE WHEN fault = '' THEN ? ELSE fault END WHERE id = ?",
                (*values, batch.fault, known.id),
            )
        look.records += len(batch.records)
        if self._told:
            self._told(look.records)
        return bool(raw) and place < state.st_size

    def _put(self, file: int, batch: Batch) -> None:
        """Write what was read."""
        db = self.store.connection
        if not batch.records:
            return
        if not has_room(self.store.path):
            raise sqlite3.OperationalError("the disk is nearly full")
        first = db.execute("SELECT coalesce(max(id), 0) + 1 FROM records").fetchone()[0]
        records, sentences, gaps = list[tuple[object, ...]](), list[tuple[object, ...]](), []
        for number, record in enumerate(batch.records, first):
            records.append((number, file, *record[:7]))
            for n, row in enumerate(record.sentences):
                visit = self._visit(row.visit) if row.visit else None
                sentences.append((number, n, *row[:9], visit, self._text(row.text)))
            if record.gap:
                gaps.append((number, *record.gap))
        db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", records)
        db.executemany("INSERT INTO sentences VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", sentences)
        db.executemany("INSERT INTO gaps VALUES (?, ?, ?, ?, ?)", gaps)
        ends = [
            (file, name, e.first_seq, e.first_prev, e.seq, e.hash, e.time) for name, e in batch.ends.items()
        ]
        db.executemany("INSERT OR REPLACE INTO ends VALUES (?, ?, ?, ?, ?, ?, ?)", ends)

    def forget(self, file: int) -> None:
        """Remove all that was read of a file; triggers remove what nothing else names."""
        with self.store.transaction() as db:
            db.execute("DELETE FROM files WHERE id = ?", (file,))
            db.execute("INSERT INTO words (words) VALUES ('optimize')")  # else deleted words stay in it

    def _added(self, identity: bytes, file: JournalFile, first: int) -> _Known:
        sql = (
            "INSERT INTO files (identity, name, chain, first, inode, size, mtime, offset, lines, tail, "
            "tail_hash, unread, fault) VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, 0, x'', 0, '') "
            "ON CONFLICT (identity) DO NOTHING"
        )
        with self.store.transaction() as db:
            db.execute(sql, (identity, file.name, file.chain, first))
        known = self._by_identity(identity)
        if known is None:
            raise sqlite3.OperationalError("another process is deleting the index")
        return known

    def _by_identity(self, identity: bytes) -> _Known | None:
        return self._one("identity = ?", identity)

    def _one(self, where: str, value: object) -> _Known | None:
        sql = f"SELECT id, name, offset, lines, tail, tail_hash, inode, size, mtime FROM files WHERE {where}"
        row = self.store.connection.execute(sql, (value,)).fetchone()
        return _Known(*row) if row else None

    def _ends(self, file: int) -> dict[str, ChainMark]:
        sql = "SELECT camera, first_seq, first_prev, last_seq, last_hash, last_time FROM ends WHERE file = ?"
        return {name: ChainMark(*rest) for name, *rest in self.store.connection.execute(sql, (file,))}

    def _earlier(self, file: JournalFile) -> Callable[[str], int | None]:
        def earlier(camera: str) -> int | None:
            sql = (
                "SELECT last_time FROM ends JOIN files ON files.id = file"
                " WHERE chain = ? AND camera = ? ORDER BY last_seq DESC LIMIT 1"
            )
            row = self.store.connection.execute(sql, (file.chain, camera)).fetchone()
            return None if row is None else int(row[0])

        return earlier

    def _visit(self, row: VisitRow) -> int:
        sql = (
            "INSERT INTO visits (camera, track, begin, end, last) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (camera, track) DO UPDATE SET begin = min(begin, excluded.begin), "
            "end = coalesce(excluded.end, end), last = max(last, excluded.last) RETURNING id"
        )
        return int(self.store.connection.execute(sql, row).fetchone()[0])

    def _text(self, text: str) -> int:
        sql = "INSERT INTO texts (text) VALUES (?) ON CONFLICT DO UPDATE SET text = text RETURNING id"
        return int(self.store.connection.execute(sql, (text,)).fetchone()[0])


def _stamp(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_ino, state.st_size, state.st_mtime_ns
