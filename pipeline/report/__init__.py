"""The report: what a replay writes for people to look at."""

from pipeline.report.picture import draw_boxes, side_by_side
from pipeline.report.subtitles import subtitles
from pipeline.report.writer import ReportFacts, ReportFiles, ReportWriter

__all__ = [
    "ReportFacts",
    "ReportFiles",
    "ReportWriter",
    "draw_boxes",
    "side_by_side",
    "subtitles",
]
