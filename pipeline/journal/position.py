"""How far a camera's journal has been published."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.record import ChainEnd, Record, parse_stream_id


@dataclass(frozen=True, slots=True)
class Position:
    """A place behind a line of the journal.

    Attributes:
        offset: bytes from the start of the file to the end of the line.
        seq: number of the line's record; 0 at the start of the file.
        hash: hash of the line's record.
        stream_id: its stream id, ``<ms>-<seq>``.
    """

    offset: int = 0
    seq: int = 0
    hash: str = ChainEnd().hash
    stream_id: str = "0-0"

    @classmethod
    def behind(cls, record: Record, offset: int) -> Position:
        """The place behind the line of `record`, which ends at byte `offset`."""
        return cls(offset, record.seq, record.hash, record.stream_id)

    def save(self, path: Path) -> None:
        """Replace the file at `path` as a whole, so that a reader never sees half a position.

        Raises:
            OSError: the folder cannot be written; the old position stays.
        """
        fresh = path.with_name(path.name + ".tmp")
        fresh.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        fresh.replace(path)

    @classmethod
    def load(cls, path: Path) -> Position | None:
        """The saved position, or None where there is none that can be read.

        An unreadable position is no error: publishing starts again from the first line, and the stream ids
        make that harmless.
        """
        try:
            position = cls(**json.loads(path.read_text(encoding="utf-8")))
            parse_stream_id(position.stream_id)
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return position if position.offset >= 0 and position.seq >= 0 else None
