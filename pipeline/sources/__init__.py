"""Frames from video files, folders of stills and RTSP cameras."""

from __future__ import annotations

from pathlib import Path

from pipeline.sources.frame import (
    ANALYSIS_WIDTH,
    Clock,
    Frame,
    Image,
    Luma,
    Picture,
    Source,
    SourceError,
    SourceOptions,
    SourceReport,
)
from pipeline.sources.redact import redacted
from pipeline.sources.video import VideoSource

__all__ = [
    "ANALYSIS_WIDTH",
    "Clock",
    "Frame",
    "Image",
    "Luma",
    "Picture",
    "Source",
    "SourceError",
    "SourceOptions",
    "SourceReport",
    "open_source",
    "redacted",
]


_DEFAULTS = SourceOptions()


def open_source(url: str, options: SourceOptions = _DEFAULTS, camera: str | None = None) -> Source:
    """Open a video file."""
    path = Path(url)
    return VideoSource([path], options, camera or path.stem)
