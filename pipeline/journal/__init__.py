"""The journal: the record of what was narrated, one hash-chained JSONL file per camera."""

from pipeline.journal.segments import (
    DAILY,
    JournalError,
    JournalLockedError,
    Segment,
    SegmentLimits,
    latest_first,
    read_camera,
    read_journal,
)
from pipeline.journal.writer import Journal

__all__ = [
    "DAILY", "Journal", "JournalError", "JournalLockedError", "Segment", "SegmentLimits",
    "latest_first", "read_camera", "read_journal",
]  # fmt: skip
