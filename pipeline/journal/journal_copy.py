"""A copy of a journal that another machine writes."""

from __future__ import annotations

from pathlib import Path

from pipeline.journal.segment_writer import SegmentLimits, SegmentWriter
from pipeline.journal.segments import JournalError, Start
from pipeline.journal.verification import check_line, follow
from pipeline.record import RecordError


class JournalCopy:
    """The same lines as the original, each checked before it is appended; for one thread.

    A copy may begin late: then its anchor names the record before its first, as retention does.

    Args:
        folder, camera: as of `Journal`.
        limits: when a new segment is begun.

    Attributes:
        end: the last record copied.

    Raises:
        JournalLockedError: another writer has the copy.
        JournalError: the end of the copy is damaged.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, camera: str, limits: SegmentLimits) -> None:
        self._folder, self._camera, self._limits = folder, camera, limits
        self._writer = self._open()
        self.end = self._writer.end

    def append(self, line: bytes) -> None:
        """Append the next record's line, given without its end; it is on disk after `sync`.

        Raises:
            JournalError: the line is damaged or does not continue the chain; nothing is written.
            OSError: the disk fails; nothing of the line stays.
        """
        raw = line + b"\n"
        try:
            record = check_line(raw)
            if record.camera != self._camera:
                raise RecordError(f"it is a record of camera {record.camera}")  # noqa: TRY301
            if self._is_empty and record.seq > 1:
                self._begin_behind(Start(record.seq - 1, record.prev))
            end = follow(self.end, record)
        except RecordError as error:
            raise JournalError(str(error)) from None
        self._writer.write(raw, record)
        self.end = end

    def sync(self) -> None:
        """Wait for the disk; raises OSError where it fails."""
        self._writer.sync()

    def close(self) -> None:
        """Let others write; closing twice is harmless."""
        self._writer.close()

    @property
    def _is_empty(self) -> bool:
        return not self._writer.size and not self._writer.full

    def _open(self) -> SegmentWriter:
        return SegmentWriter(self._folder, self._camera, self._limits, fsync=False)

    def _begin_behind(self, start: Start) -> None:
        self._writer.move_start(start)
        self._writer.close()
        self._writer = self._open()
        self.end = self._writer.end
