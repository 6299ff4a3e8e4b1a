"""How far a camera's journal has been published."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.disk import replace_file
from pipeline.record import ChainEnd, parse_stream_id


@dataclass(frozen=True, slots=True)
class Position:
    """A place behind a line of the journal.

    Attributes:
        offset: bytes from the start of the segment to the end of the line.
        seq: number of the line's record; 0 at the start of the journal.
        hash: hash of the line's record.
        stream_id: its stream id, ``<ms>-<seq>``.
        segment: number of the first record of the segment that holds the line.
    """

    offset: int = 0
    seq: int = 0
    hash: str = ChainEnd().hash
    stream_id: str = "0-0"
    segment: int = 1

    @classmethod
    def behind(cls, end: ChainEnd, segment: int, offset: int) -> Position:
        """The place behind the line of the record `end`, which ends at byte `offset` of `segment`."""
        ms, sequence = end.stream_id
        return cls(offset, end.seq, end.hash, f"{ms}-{sequence}", segment)

    def save(self, path: Path) -> None:
        """Replace the file at `path` as a whole, so that a reader never sees half a position.

        The disk is not waited for: see `load`.

        Raises:
            OSError: the folder cannot be written; the old position stays.
        """
        replace_file(path, json.dumps(asdict(self)).encode() + b"\n", durable=False)

    @classmethod
    def load(cls, path: Path) -> Position | None:
        """The saved position, or None where there is none that can be read.

        An unreadable position is no error: publishing starts again from the first line, and the stream ids
        make that harmless.
        """
        try:
            position = cls(**json.loads(path.read_text(encoding="utf-8")))
            parse_stream_id(position.stream_id)
            sound = position.offset >= 0 and position.seq >= 0 and position.segment >= 1
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return position if sound else None
