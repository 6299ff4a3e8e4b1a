"""The file that a journal is being written to, and the step from a full one to the next."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from pipeline.disk import make_folder, sync_folder
from pipeline.journal.errors import JournalError
from pipeline.journal.segments import (
    Segment,
    Start,
    closed_path,
    closed_segments,
    line_start,
    whole_record,
)
from pipeline.record import ChainEnd, Record, RecordError

_log = logging.getLogger(__name__)

_DAY = len("2026-05-01")


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """When a new segment is begun.

    Attributes:
        bytes: it has grown so large; None never.
        daily: a record is of another day (UTC) than the segment's first.
    """

    bytes: int | None = None
    daily: bool = False


class SegmentWriter:
    """Appends whole lines or nothing; every failure of the disk leaves as `OSError`.

    Args:
        folder, camera: which journal.
        limits: see `SegmentLimits`.
        fsync: wait for the disk at every write.

    Attributes:
        path: of the segment that is being written.
        full: the others, oldest first.
        first: number of the first record of the current segment, or what it will be.
        size: bytes of whole lines in it.
        end: end of the chain at opening.
        torn_bytes: bytes behind them at opening.

    Raises:
        JournalError: the end of the journal is damaged.
        OSError: the journal cannot be read.
    """

    def __init__(self, folder: Path, camera: str, limits: SegmentLimits, *, fsync: bool) -> None:
        self.folder, self.camera = folder, camera
        self.path = folder / f"{camera}.jsonl"
        start = self.start()
        segments = closed_segments(folder, camera)
        self.full = [segment for segment in segments if segment.first > start.seq]
        self._deleted = [segment for segment in segments if segment.first <= start.seq]
        self.size, self.torn_bytes, self._day = 0, 0, ""
        self._limits, self._fsync, self._file = limits, fsync, -1
        record = self._resume()
        self.end = ChainEnd.of(record) if record else self._end_before()
        self.first = self._first_seq() if record else self.end.seq + 1

    @property
    def segments(self) -> list[Segment]:
        """All segments, oldest first; the last one is being written."""
        return [*self.full, Segment(self.path, self.first)]

    def whole(self, first: int) -> int:
        """Bytes of whole lines in the segment that begins with record `first`."""
        if first == self.first:
            return self.size
        return next((each.size for each in list(self.full) if each.first == first), 0)

    def is_due(self, day: str) -> bool:
        """True where the next record, of `day`, belongs into a new segment."""
        if self.size == 0:
            return False
        limits = self._limits
        return (limits.bytes is not None and self.size >= limits.bytes) or (limits.daily and day != self._day)

    def open(self) -> None:
        """Open the current segment for writing, and move a torn last line out of it.

        Raises:
            OSError: the folder or the file cannot be written.
        """
        if self._file >= 0:
            return
        make_folder(self.folder)
        if self._deleted:  # a crash came between the anchor and the deletion
            sync_folder(self.folder)  # the anchor's name
        for segment in self._deleted:
            segment.path.unlink(missing_ok=True)
        fresh = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            if fresh:
                sync_folder(self.folder)
            self._cut(file)
        except OSError:
            os.close(file)
            raise
        self._file = file

    def write(self, lines: bytes, day: str) -> None:
        """Append lines; nothing of them stays where the disk does not take all.

        Raises:
            OSError: the disk is full, read-only, or fails.
        """
        self.open()
        try:
            if os.fstat(self._file).st_size != self.size:  # an earlier failure could not be undone
                os.ftruncate(self._file, self.size)
            written = 0
            while written < len(lines):
                written += os.write(self._file, lines[written:])
            if self._fsync:
                os.fsync(self._file)
        except OSError:
            self._undo()
            raise
        if self.size == 0:
            self._day = day
        self.size += len(lines)

    def begin_segment(self, first: int) -> None:
        """Close the current segment under its number and begin the one whose first record is `first`.

        Killed between the two steps, the next run finds no current segment and begins it then.

        Raises:
            OSError: the folder cannot be written; the current segment is still the old one.
        """
        self.open()
        closed = closed_path(self.folder, self.camera, self.first)
        self.path.rename(closed)
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        except OSError:
            closed.rename(self.path)
            raise
        os.close(self._file)
        self.full.append(Segment(closed, self.first))
        self._file, self.first, self.size, self._day = file, first, 0, ""
        sync_folder(self.folder)

    def delete_oldest(self, last: Record) -> None:
        """Delete the oldest closed segment, which ends with `last`; the anchor is written first.

        Raises:
            OSError: the folder cannot be written.
        """
        Start(last.seq, last.hash).save(self.folder / f"{self.camera}.start")
        self.full[0].path.unlink()
        self.full.pop(0)

    def start(self) -> ChainEnd:
        """The record before the first that is left."""
        start = Start.load(self.folder / f"{self.camera}.start")
        return ChainEnd(start.seq, start.hash) if start else ChainEnd()

    def close(self) -> None:
        """Let the file go; closing twice is harmless."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _resume(self) -> Record | None:
        """The last whole record of the current segment, None where it holds none; sets the sizes."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            size = whole = os.fstat(file).st_size
            for _ in range(2):  # what a crash tore may itself end with a line end
                if whole == 0:
                    self.torn_bytes = size
                    return None
                start = line_start(file, whole)
                record = whole_record(os.pread(file, whole - start, start), self.camera)
                if record is not None:
                    self.size, self.torn_bytes = whole, size - whole
                    return record
                whole = start
        finally:
            os.close(file)
        if whole == 0:
            self.torn_bytes = size
            return None
        raise self._damaged(self.path)

    def _end_before(self) -> ChainEnd:
        """The end of the chain where the current segment holds nothing."""
        if not self.full:
            return self.start()
        try:
            return ChainEnd.of(self.full[-1].last())
        except RecordError:
            raise self._damaged(self.full[-1].path) from None

    def _first_seq(self) -> int:
        with self.path.open("rb") as file:
            record = whole_record(file.readline(), self.camera)
        if record is None:
            raise self._damaged(self.path)
        self._day = record.after.time[:_DAY]
        return record.seq

    def _damaged(self, path: Path) -> JournalError:
        return JournalError(
            f"{path} is damaged before its last line; `narrated verify {path}` "
            "names the place. Move the file away to start a new journal"
        )

    def _cut(self, file: int) -> None:
        """Move the torn bytes aside, so that nothing is destroyed, then cut them off."""
        torn_bytes = os.fstat(file).st_size - self.size
        if torn_bytes <= 0:
            return
        torn = os.pread(file, torn_bytes, self.size)
        with self.path.with_name(f"{self.camera}.torn").open("ab") as aside:
            aside.write(torn + b"\n")
            aside.flush()
            os.fsync(aside.fileno())
        sync_folder(self.folder)
        os.ftruncate(file, self.size)
        os.fsync(file)
        _log.warning("%s: a last line of %d bytes was torn by a crash and cut off", self.path, torn_bytes)

    def _undo(self) -> None:
        try:
            os.ftruncate(self._file, self.size)
        except OSError as error:
            _log.warning("%s: half a line stays until the next append: %s", self.path, error)
