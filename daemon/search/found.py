"""The narrations that were found, read from the journals themselves: the index only says where they are."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from daemon.search.columns import ALTERED, STEPPED, UNLINKED, Places
from daemon.search.selection import Loaded
from pipeline.evidence.store import EvidenceStore
from pipeline.record import Record, RecordError, hash_holds, read_record

_MARKS = {
    ALTERED: "does not verify: the line was changed",
    UNLINKED: "does not verify: records before it are missing or were changed",
    STEPPED: "the camera's clock had stepped back",
}
_OPEN = 64
"""Files that are open at the same time."""


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """One narration.

    Attributes:
        record: as the journal has it.
        marks: what people should know of it before they believe it; mostly empty.
        pictures: the files of its pictures that are there, by side: before, after, overlay.
        line: the journal's bytes, without the line's end.
    """

    record: Record
    marks: tuple[str, ...] = ()
    pictures: Mapping[str, Path] = field(default_factory=dict)
    line: bytes = b""


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Where the lines of records are, one row per record, in the order in which they are read.

    Attributes:
        file: number of the file in the index, int64.
        offset, length, digest: see `daemon.search.columns.Places`.
        flags: see `daemon.search.columns`.
    """

    file: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.uint32]
    digest: NDArray[np.uint64]
    flags: NDArray[np.uint8]


@dataclass(slots=True)
class Reader:
    """Reads records of the index from the journals.

    Attributes:
        gone: records that retention deleted since they were looked for.
        changed: files that do not hold any more what was read of them into the index.
    """

    connection: sqlite3.Connection
    folder: Path
    evidence: Path | None
    gone: int = 0
    changed: set[int] = field(default_factory=set)

    def locate(
        self, loaded: Loaded, records: NDArray[np.int64], fresh: Mapping[int, int] | None = None
    ) -> Located:
        """Where the lines of records are; of the same moment as what was loaded, see `Store.snapshot`.

        Args:
            loaded: what they were found in.
            records: their numbers in it, in the order in which they are read.
            fresh: by file the byte from which records are wanted; None is all.
        """
        block = np.searchsorted(loaded.firsts, records, side="right") - 1
        file, offset = np.zeros(len(records), np.int64), np.zeros(len(records), np.int64)
        length, digest = np.zeros(len(records), np.uint32), np.zeros(len(records), np.uint64)
        sql = "SELECT file, places, records FROM blocks WHERE id = ?"
        order = np.argsort(block, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(block[order])) + 1) if len(order) else []:
            number = int(block[rows[0]])
            of, packed, count = self.connection.execute(sql, (loaded.blocks[number],)).fetchone()
            places, inside = Places.unpack(packed, count), records[rows] - loaded.firsts[number]
            file[rows], offset[rows] = of, places.offset[inside]
            length[rows], digest[rows] = places.length[inside], places.digest[inside]
        flags = loaded.sentences.flags[loaded.starts[records]]
        kept = np.ones(len(records), bool)
        if fresh is not None:
            kept = np.array([at >= fresh.get(int(of), 0) for of, at in zip(file, offset, strict=True)], bool)
        return Located(file[kept], offset[kept], length[kept], digest[kept], flags[kept])

    def read(self, located: Located, holding: bytes = b"") -> Iterator[FoundRecord]:
        """The narrations at places of the journals, in their order; only of lines that hold some bytes."""
        store = EvidenceStore(self.evidence) if self.evidence else None
        with ExitStack() as opened:
            files: dict[int, BinaryIO | None] = {}
            for row, number in enumerate(located.file):
                file = int(number)
                if file not in files:
                    if len(files) >= _OPEN:
                        opened.close()
                        files.clear()
                    files[file] = self._opened(file, opened)
                line = _line(files[file], int(located.offset[row]), int(located.length[row]))
                if line and holding not in line:
                    continue
                found = self._found(line, int(located.digest[row]), int(located.flags[row]), store)
                if found:
                    yield found
                elif files[file] is None:
                    self.gone += 1
                else:
                    self.changed.add(file)

    def _opened(self, file: int, opened: ExitStack) -> BinaryIO | None:
        """The file of that number, also where it was renamed since; None where it is gone."""
        sql = "SELECT name, chain, first, inode FROM files WHERE id = ?"
        row = self.connection.execute(sql, (file,)).fetchone()
        if row is None:
            return None
        name, chain, first, inode = row
        lines: BinaryIO
        for candidate in dict.fromkeys((name, f"{chain}.{first:012d}.jsonl", f"{chain}.jsonl")):
            try:
                lines = (self.folder / candidate).open("rb")
            except OSError:
                continue
            if os.fstat(lines.fileno()).st_ino == inode:
                opened.enter_context(lines)
                return lines
            lines.close()
        return None

    def _found(self, line: bytes, digest: int, flags: int, store: EvidenceStore | None) -> FoundRecord | None:
        """None where the line is another than the one that was read into the index."""
        try:
            record = read_record(line)
        except RecordError:
            return None
        if int(record.hash[:16], 16) != digest:
            return None
        line = line.rstrip(b"\n")
        flags |= 0 if hash_holds(line) else ALTERED
        marks = tuple(text for flag, text in _MARKS.items() if flags & flag)
        return FoundRecord(record, marks, _pictures(record, store), line)


def _pictures(record: Record, store: EvidenceStore | None) -> dict[str, Path]:
    if record.evidence is None or store is None:
        return {}
    named = {side: getattr(record.evidence, side) for side in ("before", "after", "overlay")}
    paths = {side: store.find(reference) for side, reference in named.items() if reference}
    return {side: path for side, path in paths.items() if path}


def _line(file: BinaryIO | None, offset: int, length: int) -> bytes:
    if file is None:
        return b""
    file.seek(offset)
    return file.read(length)
