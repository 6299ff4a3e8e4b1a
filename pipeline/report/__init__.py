"""The report: what a replay writes for people to look at."""

from pipeline.report.marks import Mark, draw_marks, marks
from pipeline.report.picture import side_by_side
from pipeline.report.subtitles import subtitles
from pipeline.report.writer import ReportFacts, ReportFiles, ReportWriter

__all__ = [
    "Mark",
    "ReportFacts",
    "ReportFiles",
    "ReportWriter",
    "draw_marks",
    "marks",
    "side_by_side",
    "subtitles",
]
