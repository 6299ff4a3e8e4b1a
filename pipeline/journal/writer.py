"""Writing one camera's journal."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Self

from pipeline.disk import make_folder
from pipeline.journal.errors import PASSING, JournalError
from pipeline.journal.pieces import continuation
from pipeline.journal.position import Position
from pipeline.journal.reader import Backlog, Line, read_line, resumed_position
from pipeline.journal.segment_writer import SegmentLimits, SegmentWriter
from pipeline.journal.segments import Segment, line_end
from pipeline.journal.writer_lock import WriterLock
from pipeline.record import (
    ChainEnd,
    Evidence,
    Record,
    RecordError,
    build_record,
    check_camera,
    parse_stream_id,
)

if TYPE_CHECKING:  # a type only: reading journals must not wait for torch
    from pipeline.narration.narration import Narration

_log = logging.getLogger(__name__)

_DAY = len("2026-05-01")
_UNLIMITED = SegmentLimits()


class Journal:
    """One camera's append-only, hash-chained journal ``<folder>/<camera>.jsonl`` and its only writer.

    A last line that a crash tore is moved to ``<camera>.torn`` at opening, and the chain goes on behind the
    last whole line. `append` may run in one thread while others read, acknowledge and delete.

    Where `hold` allows it, a disk that is full or read-only does not end the narrating: lines are held in
    memory in their order, can be published from there, and are written as soon as the disk takes them.

    Args:
        folder: made if it is missing.
        camera: see `pipeline.record.check_camera`.
        fsync: wait for the disk at every append. Without it a power failure may take the last lines.
        limits: when a new segment is begun; by default never.
        hold: lines held at most while the disk takes none; 0 raises instead.

    Attributes:
        path: the segment that is being written.
        found: the last record that was on disk at opening.
        torn_bytes: how many bytes of a torn last line were found at opening; 0 normally.
        trouble: why the disk takes no lines now, empty normally.

    Raises:
        RecordError: the camera's name cannot be used.
        JournalError: the folder cannot be written, another writer holds the journal, or its end is damaged.
    """

    def __init__(
        self,
        folder: Path,
        camera: str,
        *,
        fsync: bool = True,
        limits: SegmentLimits = _UNLIMITED,
        hold: int = 0,
    ) -> None:
        self.camera, self.folder, self.trouble = check_camera(camera), folder, ""
        self.path = folder / f"{camera}.jsonl"
        self._lock, self._hold = RLock(), hold
        self._held: list[bytes] = []
        self._end, self._open, self._unsaved = ChainEnd(), True, False
        self._saved_at = folder / f"{camera}.published"
        try:
            make_folder(folder)
        except OSError as error:
            self._begin_to_hold(error)
        self._writer_lock = WriterLock(folder / f"{camera}.writer", self.path)
        try:
            self._resume(limits, fsync=fsync)
        except BaseException:
            self._writer_lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the journal up to other writers; closing twice is harmless."""
        with self._lock:
            if self._open and not self.settle():
                _log.error("%s: %d narrations are not on disk, at best on the stream", self.path, self.held)
            self._open = False
            self._file.close()
            self._writer_lock.close()

    @property
    def end(self) -> ChainEnd:
        """The last record's number and hash."""
        return self._end

    @property
    def writer(self) -> str:
        """Names this journal, also in its next run; see `WriterLock`."""
        return self._writer_lock.token

    @property
    def held(self) -> int:
        """Lines that wait in memory for the disk."""
        return len(self._held)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(self._file.whole(segment.first) for segment in self._segments())

    def append(
        self,
        narration: Narration,
        *,
        suppressed: int = 0,
        latency_ms: Mapping[str, float] | None = None,
        evidence: Evidence | None = None,
    ) -> Record:
        """Write the next record; when this returns it is on disk (with `fsync`), or held (see the class).

        The arguments are those of `pipeline.record.build_record`.

        Raises:
            RecordError: the narration does not fit the schema or is another camera's.
            JournalError: the disk is full or fails and no more lines may be held; nothing of the line stays.
        """
        if narration.camera != self.camera:
            raise RecordError(f"narration {narration.id} is of {narration.camera}, not of {self.camera}")
        with self._lock:
            record = build_record(
                narration, self._end, suppressed=suppressed, latency_ms=latency_ms, evidence=evidence
            )
            self._add([record.line() + b"\n"], record)
            self._end = ChainEnd.of(record)
        return record

    def adopt(self, lines: Iterable[bytes]) -> tuple[int, str]:
        """Append lines (without their ends) that an earlier run published and could not write.

        What does not continue the chain is left out: the `prev` of a line must be the hash of the one before.

        Returns:
            How many were appended; why the first one that was left out was, empty where none was.

        Raises:
            JournalError: as `append`.
        """
        with self._lock:
            found, refused = continuation(lines, self.camera, self._end)
            if found:
                self._add([record.line() + b"\n" for record in found], found[0])
                used = max(self._end.stream_id, parse_stream_id(found[-1].stream_id))
                self._end = ChainEnd(found[-1].seq, found[-1].hash, used)
        return len(found), refused

    def settle(self) -> bool:
        """Try to write what is held; True where nothing is held any more."""
        with self._lock:
            try:
                if self._held or self.trouble:
                    self._writer_lock.take()
                    self._file.open()
                if self._held:
                    first = read_line(self._held[0], self.path)
                    self._file.write(b"".join(self._held), first.after.time[:_DAY])
            except OSError as error:
                self.trouble = error.strerror or str(error)
                return False
            if self.trouble:
                _log.warning("%s is written again; %d held narrations are on disk", self.path, self.held)
            self._held.clear()
            self.trouble = ""
            return True

    def __iter__(self) -> Iterator[Record]:
        """All records, oldest first, as far as they were written when the iteration came there."""
        return (read_line(raw, self.path) for raw, _, _ in self._lines(self._origin()))

    @property
    def published(self) -> Position:
        """How far the journal has been published."""
        return self._published

    def backlog(self, count: int) -> Backlog:
        """At most `count` lines that are not acknowledged yet, oldest first, and the position behind them.

        Raises:
            JournalError: a line was damaged since it was written.
        """
        before = self._published
        return Backlog.of(islice(self._lines(before), count), before, self.path)

    def find(self, stream_id: str) -> tuple[Position, Record | None]:
        """The last record whose stream id is not greater, and the place behind it.

        Returns:
            The start of what is left of the journal, and None, where there is no such record.

        Raises:
            JournalError: a line is not a record.
        """
        wanted = parse_stream_id(stream_id)
        begin = found = self._origin()
        for segment in self.closed():
            first = segment.first_end()
            if first is not None and first.stream_id <= wanted:
                begin = Position(0, segment.first - 1, segment=segment.first)
        line = None
        for raw, end, position in self._places(begin):
            if end.stream_id > wanted:
                break
            line, found = raw, position
        return found, None if line is None else read_line(line, self.path)

    def behind_seq(self, seq: int) -> Position:
        """The place behind record `seq`; the start of what is left where that is gone.

        Raises:
            JournalError: a line is not a record.
        """
        found = self._origin()
        begin = [segment.first for segment in self._segments() if segment.first <= seq]
        if seq > found.seq and begin:
            first = Position(0, max(begin) - 1, segment=max(begin))
            found = next((place for _, end, place in self._places(first) if end.seq == seq), found)
        return found

    def acknowledge(self, position: Position) -> None:
        """Remember that everything up to `position` has been published.

        Where the folder cannot be written the position counts until the process ends; after that the stream
        itself tells how far publishing came.
        """
        with self._lock:
            self._published = position
            try:
                position.save(self._saved_at)
                self._unsaved = False
            except OSError as error:
                if not self._unsaved:
                    reason = error.strerror or error
                    _log.warning("cannot save %s: %s; free space or fix permissions", self._saved_at, reason)
                self._unsaved = True

    def closed(self) -> list[Segment]:
        """The segments that are not written any more, oldest first."""
        with self._lock:
            return list(self._file.full)

    def delete_oldest(self) -> bool:
        """Delete the oldest segment; False where it is not closed, not published, or all that is left.

        Raises:
            JournalError: the folder cannot be written, or the segment's end is damaged.
        """
        with self._lock:
            full = self._file.full
            if not full or (len(full) == 1 and self._file.size == 0):
                return False
            try:
                last = full[0].last()
                if last.seq > self._published.seq:
                    return False
                if self._published.segment == full[0].first:
                    following = self._segments()[1].first
                    self.acknowledge(Position.behind(ChainEnd.of(last), following, 0))
                self._file.delete_oldest(last)
            except (OSError, RecordError) as error:
                raise JournalError(f"cannot delete {full[0].path}: {error}") from error
            return True

    def _segments(self) -> list[Segment]:
        with self._lock:
            return self._file.segments

    def _origin(self) -> Position:
        """The start of what is left of the journal."""
        with self._lock:
            first = self._segments()[0].first
            start = self._file.start() if first > 1 else ChainEnd()
            return Position.behind(start, first, 0)

    def _resume(self, limits: SegmentLimits, *, fsync: bool) -> None:
        try:
            self._file = SegmentWriter(self.folder, self.camera, limits, fsync=fsync)
        except OSError as error:
            raise JournalError(f"cannot read the journal {self.path}: {error.strerror or error}") from error
        self.torn_bytes, self.found = self._file.torn_bytes, self._file.end
        self._published, self._end = resumed_position(
            self._saved_at, self._segments(), self._origin(), self.found
        )
        try:
            self._file.open()
        except OSError as error:
            self._begin_to_hold(error)

    def _may_hold(self, error: OSError) -> bool:
        return self._hold > 0 and error.errno in PASSING

    def _begin_to_hold(self, error: OSError) -> None:
        """From now on lines are held, where that is allowed."""
        reason = error.strerror or str(error)
        if not self._may_hold(error):
            raise JournalError(
                f"cannot write the journal {self.path}: {reason}; choose a folder that this user may write to"
            ) from error
        if not self.trouble:
            _log.error(
                "cannot write %s: %s; narrations are published all the same, and held in memory (%d at most) "
                "until that is put right",
                self.path,
                reason,
                self._hold,
            )
        self.trouble = reason

    def _add(self, lines: list[bytes], first: Record) -> None:
        """Write lines, the first of which is of the record `first`, or hold them."""
        if not self._open:
            raise JournalError(f"{self.path} is closed")
        if self.settle():
            day = first.after.time[:_DAY]
            try:
                if self._file.is_due(day):
                    self._file.begin_segment(first.seq)
                self._file.write(b"".join(lines), day)
            except OSError as error:
                if not self._may_hold(error):
                    raise JournalError(
                        f"cannot append to {self.path}: {error.strerror or error}; free space on that disk. "
                        "The journal is unchanged"
                    ) from error
                self._begin_to_hold(error)
            else:
                return
        if self.held + len(lines) > self._hold:
            raise JournalError(
                f"{self.path} cannot be written ({self.trouble}) and {self.held} narrations are held "
                "already; free space on that disk"
            )
        self._held += lines

    def _places(self, begin: Position) -> Iterator[tuple[bytes, ChainEnd, Position]]:
        for raw, segment, offset in self._lines(begin):
            end = line_end(raw)
            if end is None:
                raise JournalError(f"{self.path} is damaged; `narrated verify {self.folder}` names the line")
            yield raw, end, Position.behind(end, segment, offset)

    def _lines(self, begin: Position) -> Iterator[Line]:
        """The lines behind a position, first those on disk, then those that are held."""
        segment, offset = begin.segment, begin.offset
        while True:
            with self._lock:  # a segment must not be renamed between these two
                files = {each.first: each.path for each in self._segments()}
                try:
                    file = files[segment].open("rb") if segment in files else None
                except FileNotFoundError:
                    file = None
            if file is not None:
                with file:
                    file.seek(offset)
                    while offset < self._file.whole(segment):
                        raw = file.readline()
                        if not raw:
                            raise JournalError(f"{self.path} was cut by another program")
                        offset += len(raw)
                        yield raw, segment, offset
            with self._lock:
                if file is not None and offset < self._file.whole(segment):
                    continue  # it grew, and may be closed by now, since it was last looked at
                if segment >= self._file.first:
                    held = list(self._held) if offset >= self._file.size else []
                    end = self._file.size
                    break
                segment, offset = min(s.first for s in self._file.segments if s.first > segment), 0
        for raw in held:
            end += len(raw)
            if end > offset:
                yield raw, segment, end
