"""A record as a line on a terminal."""

from __future__ import annotations

from daemon.config.values import format_offset
from pipeline.record import Record
from pipeline.report.words import has_date


def offset_line(record: Record, offset_s: float) -> str:
    """``00:01:23  A person has appeared on the left.  [front_door]``: where in the footage."""
    return f"{format_offset(offset_s)}  {record.text}  [{record.camera}]"


def time_line(record: Record) -> str:
    """``2026-05-01 12:00:03Z  A person has appeared on the left.  [front_door]``: when, in UTC.

    Footage of unknown date starts in 1970: the line has the time since its start then.
    """
    moment = record.after.moment
    if not has_date(moment):
        return offset_line(record, moment.timestamp())
    return f"{moment:%Y-%m-%d %H:%M:%S}Z  {record.text}  [{record.camera}]"
