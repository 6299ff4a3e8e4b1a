"""Reading journals: whole files, places in them, and what is not published yet."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pipeline.journal.errors import JournalError
from pipeline.journal.position import Position
from pipeline.journal.segments import Segment, closed_segments, line_end, line_start
from pipeline.record import ChainEnd, Record, RecordError, hash_holds, parse_stream_id, read_record

_log = logging.getLogger(__name__)

Line = tuple[bytes, int, int]
"""A line with its end, the segment (number of its first record) and the byte at which it ends there."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Lines (without their ends) that are to be published, and the position behind the last of them."""

    lines: tuple[bytes, ...]
    behind: Position

    @classmethod
    def of(cls, lines: Iterable[Line], before: Position, path: Path) -> Self:
        """Collect lines whose hashes hold.

        Raises:
            JournalError: one does not, so that nothing that was damaged on the disk is ever published.
        """
        found, place = [], None
        for raw, segment, offset in lines:
            line = raw[:-1]
            if not hash_holds(line):
                raise _damaged(path, "a hash does not match")
            found.append(line)
            place = raw, segment, offset
        if place is None:
            return cls((), before)
        end = line_end(place[0])
        if end is None:
            raise _damaged(path, "a line is not a record")
        return cls(tuple(found), Position.behind(end, place[1], place[2]))


def read_journal(path: Path) -> Iterator[Record]:
    """The records of a journal that another process may be writing; a line still being written is left out.

    Args:
        path: one file; the segments before it are files of their own (`read_camera` reads them all).

    Raises:
        JournalError: the file cannot be read or a line is not a record.
    """
    try:
        with path.open("rb") as file:
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                yield read_line(raw, path)
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror or error}") from error


def read_camera(folder: Path, camera: str) -> Iterator[Record]:
    """The records of all segments of a camera's journal, oldest first; raises as `read_journal` does."""
    for segment in closed_segments(folder, camera):
        yield from read_journal(segment.path)
    yield from read_journal(folder / f"{camera}.jsonl")


def latest_first(folder: Path, camera: str) -> Iterator[Record]:
    """The records of all segments of a camera's journal, newest first.

    What cannot be read is left out: this is for what should be known, not for what must be.
    """
    closed = [segment.path for segment in closed_segments(folder, camera)]
    for path in (folder / f"{camera}.jsonl", *reversed(closed)):
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        with os.fdopen(file, "rb") as lines, suppress(OSError):
            end = os.fstat(file).st_size
            while end > 0:
                start = line_start(file, end)
                lines.seek(start)
                raw, end = lines.read(end - start), start
                with suppress(RecordError):  # the last line may be torn
                    yield read_record(raw)


def read_line(raw: bytes, path: Path) -> Record:
    """The record in a line.

    Raises:
        JournalError: there is none.
    """
    try:
        return read_record(raw)
    except RecordError as error:
        raise _damaged(path, str(error)) from error


def saved_position(path: Path, segments: list[Segment], origin: Position, end: ChainEnd) -> Position | None:
    """The position saved at `path`, where it belongs to this journal.

    Args:
        path: of the saved position.
        segments: of the journal, oldest first.
        origin: the start of what is left of it.
        end: of its chain.

    Returns:
        None where what is saved does not belong to it: publishing starts from `origin` then.
    """
    position = Position.load(path)
    if position is None or position.seq == 0:
        return origin
    files = {segment.first: segment.path for segment in segments}
    if position.offset and position.segment in files and _holds(files[position.segment], position):
        return position
    if position.seq == end.seq and position.hash == end.hash and segments[-1].first == end.seq + 1:
        return Position(0, position.seq, position.hash, position.stream_id, segments[-1].first)
    following = files.get(position.seq + 1)
    if following is not None and _first_prev(following) == position.hash:
        return Position(0, position.seq, position.hash, position.stream_id, position.seq + 1)
    return None


def resumed_position(
    path: Path, segments: list[Segment], origin: Position, end: ChainEnd
) -> tuple[Position, ChainEnd]:
    """Where publishing goes on, and the end of the chain with the largest stream id that was ever used.

    The arguments are those of `saved_position`. A position behind the end names lines that were published and
    are gone (power failure without fsync, held in memory and killed): their stream ids are never used again.
    """
    position = saved_position(path, segments, origin, end)
    if position is not None:
        return position, end
    stated = Position.load(path)
    if stated is not None and stated.seq > end.seq:
        end = ChainEnd(end.seq, end.hash, max(end.stream_id, parse_stream_id(stated.stream_id)))
    _log.warning("%s does not fit the journal; publishing starts from the first line", path)
    return origin, end


def _holds(path: Path, position: Position) -> bool:
    """True where a record with the position's hash ends at its offset."""
    try:
        with path.open("rb") as file:
            start = line_start(file.fileno(), position.offset)
            file.seek(start)
            raw = file.read(position.offset - start)
    except OSError:
        return False
    end = line_end(raw) if raw.endswith(b"\n") and hash_holds(raw[:-1]) else None
    return end is not None and end.hash == position.hash


def _first_prev(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return read_record(file.readline()).prev
    except (OSError, RecordError):
        return None


def _damaged(path: Path, reason: str) -> JournalError:
    return JournalError(f"{path} is damaged ({reason}); `narrated verify {path.parent}` names the line")
