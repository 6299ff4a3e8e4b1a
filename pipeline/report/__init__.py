"""The report: what a replay writes for people to look at.

What draws is loaded when it is asked for: whoever wants subtitles or words must not wait for the decoders.
`marks` is of `pipeline.report.marks`: a function and its module cannot both be had by one lazy name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipeline.report.facts import ReportFacts
from pipeline.report.subtitles import subtitles

if TYPE_CHECKING:
    from pipeline.report.marks import SIDES, Mark, draw_marks
    from pipeline.report.page import page_environment
    from pipeline.report.picture import encode, shrink, side_by_side
    from pipeline.report.writer import ReportFiles, ReportWriter

__all__ = [
    "SIDES",
    "Mark",
    "ReportFacts",
    "ReportFiles",
    "ReportWriter",
    "draw_marks",
    "encode",
    "page_environment",
    "shrink",
    "side_by_side",
    "subtitles",
]

_LAZY = {
    "SIDES": "marks",
    "Mark": "marks",
    "draw_marks": "marks",
    "page_environment": "page",
    "encode": "picture",
    "shrink": "picture",
    "side_by_side": "picture",
    "ReportFiles": "writer",
    "ReportWriter": "writer",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
