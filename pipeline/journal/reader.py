"""Reading journals that another process may be writing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pipeline.journal.chain import JournalError
from pipeline.journal.segments import closed_segments, line_start
from pipeline.record import Record, RecordError, read_record


def read_journal(path: Path) -> Iterator[Record]:
    """The records of one file of a journal; a line still being written is left out.

    Raises:
        JournalError: the file cannot be read or a line is not a record.
    """
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if not raw.endswith(b"\n"):
                    return
                try:
                    yield read_record(raw)
                except RecordError as error:
                    raise JournalError(
                        f"{path}:{number} is damaged ({error}); `narrated verify {path.parent}` says more"
                    ) from error
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
        with suppress(OSError), path.open("rb") as file:
            end = os.fstat(file.fileno()).st_size
            while end > 0:
                start = line_start(file.fileno(), end)
                file.seek(start)
                raw, end = file.read(end - start), start
                with suppress(RecordError):  # the last line may be torn
                    yield read_record(raw)
