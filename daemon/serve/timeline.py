"""When records were: bars of equal spans, a lane for each camera."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from daemon.questions.local_time import LocalTime, microseconds, moment_of
from pipeline.report.words import clock_time, date_words, has_date, many

BARS = 96
"""A quarter of an hour each on a day."""

_LANES, _LABELS = 12, 8
_LEAST_HEIGHT = 0.14


@dataclass(frozen=True, slots=True)
class Bar:
    """Records of a camera within a span; x and height in 0..1."""

    x: float
    height: float
    begin: datetime
    end: datetime
    title: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lanes ``(camera, count, bars)`` by camera, labels ``(x, text)`` below, and the number of all."""

    lanes: Sequence[tuple[str, int, Sequence[Bar]]] = ()
    labels: Sequence[tuple[float, str]] = ()
    count: int = 0


def timeline(
    spread: Sequence[tuple[int, str]], begin: datetime | None, end: datetime | None, local: LocalTime
) -> Timeline:
    """The timeline of some records.

    Args:
        spread: microseconds since 1970 and camera of each, by time.
        begin: of the timeline; None is the first record.
        end: likewise; None is the last one.
        local: the time zone.
    """
    if not spread:
        return Timeline()
    first = begin or moment_of(spread[0][0])
    last = end or moment_of(spread[-1][0])
    width = max((last - first) / BARS, timedelta(seconds=1))
    low, step = microseconds(first), width // timedelta(microseconds=1)
    cells = Counter((camera, min(max((at - low) // step, 0), BARS - 1)) for at, camera in spread)
    totals, most = Counter(camera for _, camera in spread), max(cells.values())
    lanes: dict[str, list[Bar]] = {camera: [] for camera in sorted(dict(totals.most_common(_LANES)))}
    for (camera, n), count in sorted(cells.items()):
        if camera in lanes:
            start = first + n * width
            until = start + width + (timedelta(seconds=1) if n == BARS - 1 else timedelta())
            height = _LEAST_HEIGHT + (1 - _LEAST_HEIGHT) * sqrt(count / most)
            title = f"{_words(start, local, timedelta())}: {many(count, 'narration')}"
            lanes[camera].append(Bar(n / BARS, height, start, until, title))
    labels = [
        (n / _LABELS, _words(first + n * BARS / _LABELS * width, local, BARS * width)) for n in range(_LABELS)
    ]
    return Timeline([(name, totals[name], bars) for name, bars in lanes.items()], labels, len(spread))


def _words(moment: datetime, local: LocalTime, span: timedelta) -> str:
    """A time for people: within a long span the date, within a day the clock, else both."""
    if not has_date(moment):
        return clock_time(moment.timestamp())
    shown = local.of(moment)
    if span > timedelta(days=2):
        return f"{shown:%d %b}" if span < timedelta(days=365) else f"{shown:%b %Y}"
    clock = f"{shown:%H:%M}" if span > timedelta(hours=1) else f"{shown:%H:%M:%S}"
    return clock if span else f"{date_words(shown)}, {clock}"
