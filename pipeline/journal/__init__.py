"""The journal: the record of what was narrated, one hash-chained JSONL file per camera."""

from pipeline.journal.comparison import Comparison, compare
from pipeline.journal.journal_copy import JournalCopy
from pipeline.journal.segment_writer import DAILY, JournalLockedError, SegmentLimits
from pipeline.journal.segments import JournalError, Segment, latest_first, read_camera, read_journal
from pipeline.journal.verification import Verification, VerifyOptions, verify
from pipeline.journal.writer import Journal

__all__ = [
    "DAILY",
    "Comparison",
    "Journal",
    "JournalCopy",
    "JournalError",
    "JournalLockedError",
    "Segment",
    "SegmentLimits",
    "Verification",
    "VerifyOptions",
    "compare",
    "latest_first",
    "read_camera",
    "read_journal",
    "verify",
]
