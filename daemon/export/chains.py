"""Pieces of chains: lines of journals, runs of their numbers, and the signatures of both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from daemon.export.files import ExportError
from pipeline.journal.segments import closed_segments, line_end


def runs_of(numbers: Sequence[int]) -> list[list[int]]:
    """Rising numbers as runs without a gap, ``[first, last]``."""
    if not numbers:
        return []
    gaps = [(one, two) for one, two in pairwise(numbers) if two != one + 1]
    firsts = [numbers[0], *(two for _, two in gaps)]
    return [list(run) for run in zip(firsts, [*(one for one, _ in gaps), numbers[-1]], strict=True)]


def copy_lines(journals: Path, camera: str, first: int, last: int, target: Path) -> list[int]:
    """Copy the lines of a camera's journal from one number to another; the numbers of those copied.

    Raises:
        ExportError: the journal itself is not there.
    """
    closed, current = closed_segments(journals, camera), journals / f"{camera}.jsonl"
    following = [segment.first for segment in closed[1:]] + [last + 1]
    paths = [s.path for s, after in zip(closed, following, strict=False) if s.first <= last and after > first]
    paths += [current] if current.exists() else []
    if not paths:
        raise ExportError(f"{current} is not there: --linked needs the journals, not a merged file")
    copied = []
    with target.open("wb") as out:
        for path in paths:
            with path.open("rb") as file:
                for raw in file:
                    end = line_end(raw[:-1]) if raw.endswith(b"\n") else None
                    if end is not None and first <= end.seq <= last:
                        out.write(raw)
                        copied.append(end.seq)
    return copied
