"""Search results: records read from the journals, where the index says they are."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from daemon.search.selection import Location
from pipeline.evidence import EvidenceStore
from pipeline.record import Record, RecordError, hash_holds, read_record

_ALTERED = "does not verify: the line was changed"
_OPEN = 64
"""Files that are open at the same time."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A record that matches.

    Attributes:
        record: as the journal has it.
        marks: doubts about it, mostly none.
        pictures: the files of its pictures that are there, by side: before, after, overlay.
        line: the journal's bytes, without the line's end.
    """

    record: Record
    marks: tuple[str, ...] = ()
    pictures: Mapping[str, Path] = field(default_factory=dict)
    line: bytes = b""


@dataclass(slots=True)
class ResultReader:
    """Reads records from the journals.

    Attributes:
        missing: records that were deleted or changed since they were indexed.
    """

    connection: sqlite3.Connection
    folder: Path
    store: EvidenceStore | None
    missing: int = 0

    def read(self, locations: Iterable[Location]) -> Iterator[SearchResult]:
        """The records at locations, in their order."""
        with ExitStack() as opened:
            files: dict[int, BinaryIO | None] = {}
            for location in locations:
                if location.file not in files:
                    if len(files) >= _OPEN:
                        opened.close()
                        files.clear()
                    files[location.file] = self._open(location.file, opened)
                result = self._result(files[location.file], location)
                if result:
                    yield result
                else:
                    self.missing += 1

    def _open(self, file: int, opened: ExitStack) -> BinaryIO | None:
        """The file of that number, also where it was renamed since; None where it is gone."""
        sql = "SELECT name, chain, first, inode FROM files WHERE id = ?"
        row = self.connection.execute(sql, (file,)).fetchone()
        if row is None:
            return None
        name, chain, first, inode = row
        for candidate in dict.fromkeys((name, f"{chain}.{first:012d}.jsonl", f"{chain}.jsonl")):
            try:
                lines: BinaryIO = opened.enter_context((self.folder / candidate).open("rb"))
            except OSError:
                continue
            if os.fstat(lines.fileno()).st_ino == inode:
                return lines
        return None

    def _result(self, file: BinaryIO | None, location: Location) -> SearchResult | None:
        """None where the line is gone, or another than the one in the index."""
        if file is None:
            return None
        file.seek(location.offset)
        line = file.read(location.length).rstrip(b"\n")
        try:
            record = read_record(line)
        except RecordError:
            return None
        if bytes.fromhex(record.hash)[:8] != location.digest:
            return None
        marks = () if hash_holds(line) else (_ALTERED,)
        return SearchResult(record, marks, self._pictures(record), line)

    def _pictures(self, record: Record) -> dict[str, Path]:
        if record.evidence is None or self.store is None:
            return {}
        references = record.evidence.model_dump(exclude_none=True)
        paths = {side: self.store.find(reference) for side, reference in references.items()}
        return {side: path for side, path in paths.items() if path}
