"""The report: what a replay writes for people to look at."""

from pipeline.report.facts import ReportFacts
from pipeline.report.marks import SIDES, Mark, draw_marks, marks
from pipeline.report.page import page_environment
from pipeline.report.picture import encode, shrink, side_by_side
from pipeline.report.subtitles import subtitles
from pipeline.report.writer import ReportFiles, ReportWriter

__all__ = [
    "SIDES",
    "Mark",
    "ReportFacts",
    "ReportFiles",
    "ReportWriter",
    "draw_marks",
    "encode",
    "marks",
    "page_environment",
    "shrink",
    "side_by_side",
    "subtitles",
]
