"""Frames from video files, folders of stills and RTSP cameras."""

from pipeline.redaction import redact
from pipeline.sources.areas import Polygon, polygon_mask
from pipeline.sources.frame import (
    Clock,
    ConnectionState,
    Frame,
    Image,
    Source,
    SourceError,
    SourceOptions,
    SourceReport,
    seconds_between,
)
from pipeline.sources.stills import read_still
from pipeline.sources.url import open_source

__all__ = [
    "Clock", "ConnectionState", "Frame", "Image", "Polygon", "Source", "SourceError", "SourceOptions",
    "SourceReport", "open_source", "polygon_mask", "read_still", "redact", "seconds_between",
]  # fmt: skip
