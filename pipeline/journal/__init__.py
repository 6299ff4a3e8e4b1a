"""The journal: the record of what was narrated, one hash-chained JSONL file per camera."""

from pipeline.journal.chain import JournalError
from pipeline.journal.comparison import Comparison, compare
from pipeline.journal.segment_writer import JournalLockedError, SegmentLimits
from pipeline.journal.segments import Segment, Start, latest_first, read_camera, read_journal
from pipeline.journal.verification import Problem, Verification, VerifyOptions, verify
from pipeline.journal.writer import Backlog, Journal

__all__ = [
    "Backlog",
    "Comparison",
    "Journal",
    "JournalError",
    "JournalLockedError",
    "Problem",
    "Segment",
    "SegmentLimits",
    "Start",
    "Verification",
    "VerifyOptions",
    "compare",
    "latest_first",
    "read_camera",
    "read_journal",
    "verify",
]
