"""The narrations that were found, read from the journals themselves: the index only says where they are."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from daemon.search.intake import ALTERED, STEPPED, UNLINKED
from daemon.search.selection import Found
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

    def read(self, places: Iterable[Found]) -> Iterator[FoundRecord]:
        """The narrations at places of the journals, in their order."""
        store = EvidenceStore(self.evidence) if self.evidence else None
        with ExitStack() as opened:
            files: dict[int, BinaryIO | None] = {}
            for place in places:
                if place.file not in files:
                    if len(files) >= _OPEN:
                        opened.close()
                        files.clear()
                    files[place.file] = self._opened(place.file, opened)
                found = self._found(_line(files[place.file], place), place, store)
                if found:
                    yield found
                elif files[place.file] is None:
                    self.gone += 1
                else:
                    self.changed.add(place.file)

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

    def _found(self, line: bytes, place: Found, store: EvidenceStore | None) -> FoundRecord | None:
        """None where the line is another than the one that was read into the index."""
        try:
            record = read_record(line)
        except RecordError:
            return None
        if bytes.fromhex(record.hash)[:8] != place.digest:
            return None
        line = line.rstrip(b"\n")
        flags = place.flags | (0 if hash_holds(line) else ALTERED)
        marks = tuple(text for flag, text in _MARKS.items() if flags & flag)
        return FoundRecord(record, marks, _pictures(record, store), line)


def _pictures(record: Record, store: EvidenceStore | None) -> dict[str, Path]:
    if record.evidence is None or store is None:
        return {}
    named = {side: getattr(record.evidence, side) for side in ("before", "after", "overlay")}
    paths = {side: store.find(reference) for side, reference in named.items() if reference}
    return {side: path for side, path in paths.items() if path}


def _line(file: BinaryIO | None, place: Found) -> bytes:
    if file is None:
        return b""
    file.seek(place.offset)
    return file.read(place.length)
