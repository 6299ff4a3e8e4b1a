"""Search results: records read from the journals, where the index says they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from daemon.search.selection import Location
from pipeline.evidence import EvidenceStore
from pipeline.record import Record, RecordError, hash_holds, read_record

_ALTERED = "does not verify: the line was changed"


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

    folder: Path
    store: EvidenceStore
    missing: int = 0

    def read(self, locations: Iterable[Location]) -> Iterator[SearchResult]:
        """The records at locations, in their order."""
        for location in locations:
            if result := self._result(location):
                yield result
            else:
                self.missing += 1

    def _result(self, location: Location) -> SearchResult | None:
        """None where the line is gone, or another than the one in the index."""
        name, chain, first = location.file, location.chain, location.first
        for renamed in dict.fromkeys((name, f"{chain}.{first:012d}.jsonl", f"{chain}.jsonl")):
            with suppress(OSError, RecordError), (self.folder / renamed).open("rb") as file:
                file.seek(location.offset)
                line = file.read(location.length).rstrip(b"\n")
                record = read_record(line)
                if bytes.fromhex(record.hash)[:8] == location.digest:
                    marks = () if hash_holds(line) else (_ALTERED,)
                    return SearchResult(record, marks, self._pictures(record), line)
        return None

    def _pictures(self, record: Record) -> dict[str, Path]:
        if record.evidence is None:
            return {}
        references = record.evidence.model_dump(exclude_none=True)
        paths = {side: self.store.find(reference) for side, reference in references.items()}
        return {side: path for side, path in paths.items() if path}
