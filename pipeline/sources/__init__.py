"""Frames from video files, folders of stills and RTSP cameras."""

from pipeline.redaction import redacted
from pipeline.sources.areas import Polygon, covered
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
    "Clock",
    "ConnectionState",
    "Frame",
    "Image",
    "Polygon",
    "Source",
    "SourceError",
    "SourceOptions",
    "SourceReport",
    "covered",
    "open_source",
    "read_still",
    "redacted",
    "seconds_between",
]
