"""The lines of an export's records, and what of their chains and signatures goes with them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Self

from daemon.export.archive import Archive, ExportError
from pipeline.journal.segments import closed_segments, line_end
from pipeline.journal.signatures import load_signatures


def pieces_of(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers of records, which rise, as runs without a gap, ``(first, last)``."""
    if not numbers:
        return []
    gaps = [(one, two) for one, two in pairwise(numbers) if two != one + 1]
    firsts = [numbers[0], *(two for _, two in gaps)]
    return list(zip(firsts, [*(one for one, _ in gaps), numbers[-1]], strict=True))


@dataclass(slots=True)
class _LinesOnDisk:
    """Lines of one camera in a file of their own: the byte and length of each, by number."""

    file: BinaryIO
    places: dict[int, tuple[int, int]]

    def add(self, seq: int, line: bytes) -> None:
        self.places[seq] = self.file.seek(0, 2), len(line)
        self.file.write(line)

    def lines(self) -> Iterator[bytes]:
        for _, (place, length) in sorted(self.places.items()):
            self.file.seek(place)
            yield self.file.read(length) + b"\n"


class ChainLines:
    """Collects the lines of records on the disk and writes them as pieces of their chains."""

    def __init__(self) -> None:
        self._files = ExitStack()
        self._cameras: dict[str, _LinesOnDisk] = {}
        self._all = _LinesOnDisk(self._scratch(), {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def cameras(self) -> list[str]:
        """Of whom there are records."""
        return sorted(self._cameras)

    @property
    def records(self) -> int:
        """How many were added."""
        return len(self._all.places)

    def add(self, camera: str, seq: int, line: bytes) -> None:
        """Take a record's line, without its end."""
        if camera not in self._cameras:
            self._cameras[camera] = _LinesOnDisk(self._scratch(), {})
        self._cameras[camera].add(seq, line)
        self._all.add(self.records, line)

    def link(self, journals: Path) -> None:
        """Take what lies between, up to the first signature behind, so that each camera has one piece.

        Raises:
            ExportError: the journal itself is not there.
        """
        for camera, own in self._cameras.items():
            last = max(own.places)
            signed = [s.seq for s in load_signatures(journals, camera) if s.seq >= last]
            for seq, line in _lines(journals, camera, min(own.places), min(signed, default=last)):
                if seq not in own.places:
                    own.add(seq, line)

    def write(self, archive: Archive, journals: Path) -> dict[str, tuple[list[tuple[int, int]], int]]:
        """Write all lines, and their signatures; by camera the pieces and the number signed last."""
        archive.write("records.jsonl", self._all.lines())
        written = {}
        for camera, own in sorted(self._cameras.items()):
            archive.write(f"chain/{camera}.jsonl", own.lines())
            signatures = [s for s in load_signatures(journals, camera) if s.seq in own.places]
            if signatures:
                archive.write(f"chain/{camera}.signatures", (s.line() + b"\n" for s in signatures))
            signed = max((s.seq for s in signatures), default=0)
            written[camera] = pieces_of(sorted(own.places)), signed
        return written

    def _scratch(self) -> BinaryIO:
        file: BinaryIO = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        return file


def _lines(journals: Path, camera: str, first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a camera's journal from one number to another."""
    closed, current = closed_segments(journals, camera), journals / f"{camera}.jsonl"
    following = [segment.first for segment in closed[1:]]
    paths = [
        segment.path
        for segment, after in zip(closed, [*following, last + 1], strict=False)
        if segment.first <= last and after > first
    ]
    paths += [current] if current.exists() else []
    if not paths:
        raise ExportError(f"{current} is not there: --linked needs the journals, not a merged file")
    for path in paths:
        with path.open("rb") as file:
            for raw in file:
                end = line_end(raw) if raw.endswith(b"\n") else None
                if end is not None and first <= end.seq <= last:
                    yield end.seq, raw[:-1]
