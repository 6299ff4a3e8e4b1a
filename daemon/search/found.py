"""The narrations that were found, read from the journals themselves: the index only says where they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

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
class Found:
    """One narration.

    Attributes:
        record: as the journal has it.
        marks: what people should know of it before they believe it; mostly empty.
        pictures: the files of its pictures that are there, by side: before, after, overlay.
    """

    record: Record
    marks: tuple[str, ...] = ()
    pictures: Mapping[str, Path] = field(default_factory=dict)


@dataclass(slots=True)
class Reader:
    """Reads records of the index from the journals.

    Args:
        connection: of the index.
        folder: of the journals.
        evidence: folder of the pictures, None where there is none.

    Attributes:
        gone: records that retention deleted since they were looked for.
        changed: files that do not hold any more what was read of them into the index.
    """

    connection: sqlite3.Connection
    folder: Path
    evidence: Path | None
    gone: int = 0
    changed: set[int] = field(default_factory=set)

    def read(
        self, loaded: Loaded, records: Iterable[int], fresh: Mapping[int, int] | None = None
    ) -> Iterator[Found]:
        """The narrations of some records, in their order.

        Args:
            loaded: what they were found in.
            records: their numbers in it.
            fresh: by file the byte from which records are wanted; None is all.
        """
        first = np.flatnonzero(np.diff(loaded.record, prepend=-1))
        store = EvidenceStore(self.evidence) if self.evidence else None
        blocks: dict[int, tuple[int, Places]] = {}
        with ExitStack() as opened:
            files: dict[int, BinaryIO | None] = {}
            for record in records:
                number = int(np.searchsorted(loaded.firsts, record, side="right")) - 1
                if number not in blocks:
                    blocks = {number: self._places(loaded.blocks[number])}  # the last one: 160 kB each
                file, places = blocks[number]
                row = int(record) - int(loaded.firsts[number])
                if row >= len(places) or (fresh is not None and int(places.offset[row]) < fresh.get(file, 0)):
                    continue
                if file not in files:
                    if len(files) >= _OPEN:
                        opened.close()
                        files.clear()
                    files[file] = self._opened(file, opened)
                line = _line(files[file], int(places.offset[row]), int(places.length[row]))
                flags = int(loaded.sentences.flags[first[record]])
                found = self._found(line, int(places.digest[row]), flags, store)
                if found:
                    yield found
                elif files[file] is None:
                    self.gone += 1
                else:
                    self.changed.add(file)

    def _places(self, block: int) -> tuple[int, Places]:
        row = self.connection.execute(
            "SELECT file, places, records FROM blocks WHERE id = ?", (block,)
        ).fetchone()
        return (row[0], Places.unpack(row[1], row[2])) if row else (0, Places.of([]))

    def _opened(self, file: int, opened: ExitStack) -> BinaryIO | None:
        """The file of that number, also where it was renamed since; None where it is gone."""
        sql = "SELECT name, chain, first, inode FROM files WHERE id = ?"
        row = self.connection.execute(sql, (file,)).fetchone()
        if row is None:
            return None
        name, chain, first, inode = row
        for candidate in dict.fromkeys((name, f"{chain}.{first:012d}.jsonl", f"{chain}.jsonl")):
            try:
                lines = (self.folder / candidate).open("rb")
            except OSError:
                continue
            if (self.folder / candidate).stat().st_ino == inode:
                return opened.enter_context(lines)
            lines.close()
        return None

    def _found(self, line: bytes, digest: int, flags: int, store: EvidenceStore | None) -> Found | None:
        """None where the line is another than the one that was read into the index."""
        try:
            record = read_record(line)
        except RecordError:
            return None
        if int(record.hash[:16], 16) != digest:
            return None
        flags |= 0 if hash_holds(line.rstrip(b"\n")) else ALTERED
        marks = tuple(text for flag, text in _MARKS.items() if flags & flag)
        return Found(record, marks, _pictures(record, store))


def _pictures(record: Record, store: EvidenceStore | None) -> dict[str, Path]:
    if record.evidence is None or store is None:
        return {}
    sides = {
        "before": record.evidence.before,
        "after": record.evidence.after,
        "overlay": record.evidence.overlay,
    }
    paths = {side: store.find(reference) for side, reference in sides.items() if reference}
    return {side: path for side, path in paths.items() if path}


def _line(file: BinaryIO | None, offset: int, length: int) -> bytes:
    if file is None:
        return b""
    file.seek(offset)
    return file.read(length)
