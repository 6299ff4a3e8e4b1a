"""The journal: the record of what was narrated, one hash-chained JSONL file per camera."""

from pipeline.journal.comparison import Comparison, Discrepancy, compare
from pipeline.journal.errors import JournalError
from pipeline.journal.position import Position
from pipeline.journal.reader import Backlog, latest_first, read_camera, read_journal
from pipeline.journal.segment_writer import SegmentLimits
from pipeline.journal.segments import Segment, Start
from pipeline.journal.verification import Problem, Signed, Verification, VerifyOptions, verify
from pipeline.journal.writer import Journal

__all__ = [
    "Backlog",
    "Comparison",
    "Discrepancy",
    "Journal",
    "JournalError",
    "Position",
    "Problem",
    "Segment",
    "SegmentLimits",
    "Signed",
    "Start",
    "Verification",
    "VerifyOptions",
    "compare",
    "latest_first",
    "read_camera",
    "read_journal",
    "verify",
]
