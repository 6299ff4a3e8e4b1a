"""A copy of a journal that another machine writes."""

from pathlib import Path

from pipeline.journal.segment_writer import SegmentLimits, SegmentWriter
from pipeline.journal.segments import JournalError, Start
from pipeline.journal.verification import check_line, follow
from pipeline.record_format import RecordError
from pipeline.record_lines import read_record


class JournalCopy:
    """The same lines as the original, each checked before it is appended; for one thread.

    A copy may begin late: then its anchor names the record before its first, as retention does. Raises as
    `SegmentWriter`; `end` is the last record copied.
    """

    def __init__(self, folder: Path, camera: str, limits: SegmentLimits) -> None:
        self._camera = camera
        self._writer = SegmentWriter(folder, camera, limits, fsync=False)
        self.end = self._writer.end

    def append(self, line: bytes) -> None:
        """Append the next record's line, given without its end; it is on disk after `sync`.

        Raises JournalError where it is damaged or does not continue the chain; nothing of it is written then.
        """
        raw = line + b"\n"
        try:
            members = check_line(raw)
            record = read_record(line)
            if record.camera != self._camera:
                raise RecordError(f"it is a record of camera {record.camera}")  # noqa: TRY301
            is_late = record.seq > 1 and not self._writer.size and not self._writer.full
            start = Start(record.seq - 1, record.prev) if is_late else None
            end = follow(start.end if start else self.end, members)
        except RecordError as error:
            raise JournalError(str(error)) from None
        if start:
            self._writer.move_start(start)
        self._writer.write(raw, record)
        self.end = end

    def sync(self) -> None:
        self._writer.sync()

    def close(self) -> None:
        self._writer.close()
