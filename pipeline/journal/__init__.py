"""The journal: the record of what was narrated, one hash-chained JSONL file per camera."""

from pipeline.journal.position import Position
from pipeline.journal.verification import Problem, Verification, verify
from pipeline.journal.writer import Journal, JournalError, read_journal

__all__ = [
    "Journal",
    "JournalError",
    "Position",
    "Problem",
    "Verification",
    "read_journal",
    "verify",
]
