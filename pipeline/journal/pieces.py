"""Whether the lines of a piece of a journal hold, each by itself and behind the one before it.

A chain is checked in pieces, so that several processes share the work: what a line needs of the one before
it, its number, hash and stream id, is compared within the piece here, and between pieces by `verification`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.evidence import evidence_fault
from pipeline.journal.canonical import is_canonical
from pipeline.record import (
    ChainEnd,
    Evidence,
    Record,
    RecordError,
    hash_holds,
    parse_stream_id,
    read_record,
)

BYTES = 2 * 2**20
"""Of a piece, about: some two thousand lines."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The lines of a file that begin from one byte on and before another.

    Attributes:
        path: of the file.
        start, stop: bytes.
        evidence: folder of the pictures that the lines name.
        check_evidence: False leaves the pictures alone.
        wanted: numbers of records whose hashes are asked for, by camera.
    """

    path: Path
    start: int
    stop: int
    evidence: Path | None = None
    check_evidence: bool = False
    wanted: dict[str, frozenset[int]] = field(default_factory=dict)


@dataclass(slots=True)
class CameraLines:
    """The lines of one camera in a piece, which follow each other.

    Attributes:
        line: of the first, counted from 1 within the piece.
        first: the first record.
        end: the last.
    """

    line: int
    first: Record
    end: ChainEnd


@dataclass(slots=True)
class Findings:
    """What is in a piece.

    Attributes:
        lines: those that hold, up to the first that does not.
        runs: by camera.
        fault: why the line after those does not hold; empty where all do.
        unreadable: why the file cannot be read; empty where it can.
        pictures: pictures whose bytes were checked.
        hashes: those asked for, by camera and number.
    """

    lines: int = 0
    runs: dict[str, CameraLines] = field(default_factory=dict)
    fault: str = ""
    unreadable: str = ""
    pictures: int = 0
    hashes: dict[tuple[str, int], str] = field(default_factory=dict)


def pieces_of(
    path: Path, evidence: Path | None, check_evidence: bool, wanted: dict[str, frozenset[int]]
) -> Iterator[Piece]:
    """A file in pieces, at least one; see `Piece`."""
    try:
        size = path.stat().st_size
    except OSError:
        size = 0  # `check` says why
    for start in range(0, max(size, 1), BYTES):
        yield Piece(path, start, min(size, start + BYTES), evidence, check_evidence, wanted)


def check(piece: Piece) -> Findings:
    """Check a piece up to its first bad line."""
    findings = Findings()
    try:
        with piece.path.open("rb") as file:
            if piece.start:
                file.seek(piece.start - 1)
                file.readline()
            proven: set[str] = set()
            place = file.tell()
            while place < piece.stop and (raw := file.readline()):
                _add(findings, checked_record(raw), piece, proven)
                place += len(raw)
    except RecordError as error:
        findings.fault = str(error)
    except OSError as error:
        findings.unreadable = f"cannot be read: {error.strerror or error}"
    return findings


def _add(findings: Findings, record: Record, piece: Piece, proven: set[str]) -> None:
    run = findings.runs.get(record.camera)
    end = continued(run.end, record) if run else ChainEnd.of(record)
    if piece.check_evidence and record.evidence:
        _check_evidence(record, record.evidence, piece.evidence, proven)
        findings.pictures = len(proven)
    findings.lines += 1
    if run:
        run.end = end
    else:
        findings.runs[record.camera] = CameraLines(findings.lines, record, end)
    if record.seq in piece.wanted.get(record.camera, ()):
        findings.hashes[record.camera, record.seq] = record.hash


def _check_evidence(record: Record, evidence: Evidence, folder: Path | None, proven: set[str]) -> None:
    for side in ("before", "after", "overlay"):
        reference = getattr(evidence, side)
        if reference is None or reference in proven:
            continue
        if fault := evidence_fault(folder, reference):
            raise RecordError(f"seq {record.seq} of {record.camera}: its evidence {side}: {fault}")
        proven.add(reference)


def checked_record(raw: bytes) -> Record:
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
        raise RecordError("the hash does not match: the line was changed, or is not a record")
    if not is_canonical(line):
        raise RecordError("not canonical JSON (RFC 8785): the line was written by something else")
    return read_record(line)


def continued(end: ChainEnd, record: Record) -> ChainEnd:
    """The end of the chain with `record` appended.

    Raises:
        RecordError: the record does not continue the chain.
    """
    stream_id = parse_stream_id(record.stream_id)
    reason = ""
    if record.seq != end.seq + 1:
        reason = f" where {end.seq + 1} is due: lines are missing or moved"
    elif record.prev != end.hash:
        reason = ": prev is not the hash of the record before it"
    elif stream_id <= end.stream_id:
        reason = ": its stream id does not rise"
    if reason:
        raise RecordError(f"seq {record.seq} of {record.camera}{reason}")
    return ChainEnd(record.seq, record.hash, stream_id)


def continuation(lines: Iterable[bytes], camera: str, end: ChainEnd) -> tuple[list[Record], str]:
    """The records of lines (without their ends) that continue a camera's chain, one behind the other.

    The stream ids are not compared with that of the `end`: it may be one that such a line used.

    Returns:
        The records, and why the first line that was left out does not continue it; empty where all do.
    """
    records, refused = list[Record](), ""
    place = ChainEnd(end.seq, end.hash)
    for line in lines:
        try:
            record = checked_record(line + b"\n")
            behind = continued(place, record)
        except RecordError as error:
            refused = refused or str(error)
            continue
        if record.camera == camera:
            records.append(record)
            place = behind
        else:
            refused = refused or f"a record is of {record.camera}"
    return records, refused
