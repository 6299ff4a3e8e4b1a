"""The journal: the record of what was narrated, one hash-chained JSONL file per camera."""

from pipeline.journal.comparison import Comparison, compare
from pipeline.journal.errors import JournalError
from pipeline.journal.position import Position
from pipeline.journal.reader import latest_first, read_camera, read_journal
from pipeline.journal.segment_writer import SegmentLimits
from pipeline.journal.segments import Start
from pipeline.journal.verification import Problem, Verification, VerifyOptions, verify
from pipeline.journal.writer import Journal

__all__ = [
    "Comparison",
    "Journal",
    "JournalError",
    "Position",
    "Problem",
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
