"""Frames from video files, folders of stills and RTSP cameras."""

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
]
