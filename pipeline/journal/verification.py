"""Whether journals are whole: every line, every hash, every link."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.record import (
    ChainEnd,
    Record,
    RecordError,
    hash_holds,
    is_canonical,
    parse_stream_id,
    read_record,
)

_FRESH = ChainEnd()


@dataclass(frozen=True, slots=True)
class Problem:
    """The first bad line of a file; `line` counts from 1, 0 stands for the file as a whole."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else f"{self.path}"
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found.

    Attributes:
        files: files read.
        lines: lines that hold, over all files.
        ends: the last record that holds, per file and camera; keep a hash elsewhere to prove later that
            nothing was cut off the end.
        problems: the first bad line of each bad file.
    """

    files: int
    lines: int
    ends: dict[tuple[Path, str], ChainEnd] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """True where nothing was found."""
        return not self.problems


def verify(paths: Iterable[Path]) -> Verification:
    """Check journals: every line is canonical JSON of the schema, its hash holds, and it continues its chain.

    Any changed, inserted or deleted byte is found, with one exception that no chain without an outside
    witness can see: whole lines cut off the end of a file (keep the last hash elsewhere, see `ends`).

    Args:
        paths: journals of one camera, merged files of several (each camera's chain is followed on its own),
            or folders, of which every ``*.jsonl`` is read. Each file must hold its chains from their start.

    Returns:
        Counts, ends and problems; a path that is missing or holds no journal is a problem too.
    """
    files, lines = 0, 0
    ends: dict[tuple[Path, str], ChainEnd] = {}
    problems: list[Problem] = []
    for path in paths:
        journals = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not journals:
            problems.append(Problem(path, 0, "the folder holds no journal (*.jsonl)"))
        for journal in journals:
            files += 1
            chains: dict[str, ChainEnd] = {}
            good, problem = _verify_file(journal, chains)
            lines += good
            ends.update({(journal, camera): end for camera, end in chains.items()})
            if problem:
                problems.append(problem)
    return Verification(files, lines, ends, tuple(problems))


def _verify_file(path: Path, chains: dict[str, ChainEnd]) -> tuple[int, Problem | None]:
    """Number of good lines, and the first bad one; `chains` receives the end of each camera's chain."""
    good = 0
    try:
        with path.open("rb") as file:
            for raw in file:
                record = _whole_record(raw)
                chains[record.camera] = _continued(chains.get(record.camera, _FRESH), record)
                good += 1
    except RecordError as error:
        return good, Problem(path, good + 1, str(error))
    except OSError as error:
        return good, Problem(path, 0, f"cannot be read: {error.strerror or error}")
    return good, None


def _whole_record(raw: bytes) -> Record:
    """The record in one line that holds by itself.

    Raises:
        RecordError: it does not; the message says why.
    """
    if not raw.endswith(b"\n"):
        raise RecordError(
            "the line has no end: its writer was interrupted or is still writing "
            "(the next start of the writer cuts it off)"
        )
    line = raw[:-1]
    if not hash_holds(line):
        raise RecordError("the hash does not match: the line was changed, or is no record")
    if not is_canonical(line):
        raise RecordError("not canonical JSON (RFC 8785): the line was written by something else")
    return read_record(line)


def _continued(end: ChainEnd, record: Record) -> ChainEnd:
    """The end of the chain with `record` appended.

    Raises:
        RecordError: the record does not continue the chain.
    """
    named = f"seq {record.seq} of {record.camera}"
    if record.seq != end.seq + 1:
        raise RecordError(f"{named} where {end.seq + 1} is due: lines are missing or moved")
    if record.prev != end.hash:
        raise RecordError(f"{named}: prev is not the hash of the record before it")
    if parse_stream_id(record.stream_id) <= end.stream_id:
        raise RecordError(f"{named}: its stream id does not rise")
    return ChainEnd.of(record)
