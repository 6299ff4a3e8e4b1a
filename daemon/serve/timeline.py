"""When records were: bars of equal spans, a lane for each camera."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil, sqrt

from daemon.questions.local_time import LocalTime, microseconds, moment_of
from pipeline.report.words import clock_time, date_words, has_date, many

BARS = 100
"""At most; a day has one for each quarter of an hour."""

_LANES = 12
_STEPS_S = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 86400, 7 * 86400, 28 * 86400, 364 * 86400)
_LABELS = 9
_MINUTE_S, _DAY_S, _WEEK_S = 60, 86_400, 7 * 86_400
_LEAST_HEIGHT = 0.14


@dataclass(frozen=True, slots=True)
class Bar:
    """Records of a camera within a span; x, width and height in 0..1."""

    x: float
    width: float
    height: float
    begin: datetime
    end: datetime
    words: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lanes ``(camera, count, bars)`` by camera, labels ``(x, words)`` below, and the number of all."""

    lanes: tuple[tuple[str, int, tuple[Bar, ...]], ...] = ()
    labels: tuple[tuple[float, str], ...] = ()
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
    low = microseconds(begin) if begin else spread[0][0]
    high = microseconds(end) if end else spread[-1][0] + 1
    step = _step(high - low, BARS)
    if begin is None:
        low = low // step * step
    number = max(1, ceil((high - low) / step))
    cells = Counter((camera, min(max((at - low) // step, 0), number - 1)) for at, camera in spread)
    totals = Counter(camera for _, camera in spread)
    most = max(cells.values())
    lanes = []
    for camera in sorted(name for name, _ in totals.most_common(_LANES)):
        bars = []
        for place in sorted(place for name, place in cells if name == camera):
            count, first = cells[camera, place], moment_of(low + place * step)
            height = _LEAST_HEIGHT + (1 - _LEAST_HEIGHT) * sqrt(count / most)
            words = f"{_words(first, local)}: {many(count, 'narration')}"
            last = moment_of(low + (place + 1) * step)
            bars.append(Bar(place / number, 1 / number, height, first, last, words))
        lanes.append((camera, totals[camera], tuple(bars)))
    return Timeline(tuple(lanes), _labels(low, low + number * step, local), len(spread))


def _step(span: int, most: int) -> int:
    """The smallest round step, in microseconds, of which at most `most` cover the span."""
    fitting = (seconds * 1_000_000 for seconds in _STEPS_S if span <= most * seconds * 1_000_000)
    return next(fitting, ceil(span / most))


def _labels(low: int, high: int, local: LocalTime) -> tuple[tuple[float, str], ...]:
    """Local times at equal steps from the beginning on."""
    step = _step(high - low, _LABELS)
    seconds = step // 1_000_000
    shape = "%d %b %Y" if seconds > _WEEK_S else "%d %b" if seconds >= _DAY_S else "%H:%M"
    shape = "%H:%M:%S" if seconds < _MINUTE_S else shape
    moments = [(at, moment_of(at)) for at in range(low, high, step)]
    return tuple(
        ((at - low) / (high - low), f"{local.of(m):{shape}}" if has_date(m) else clock_time(at / 1_000_000))
        for at, m in moments
    )


def _words(moment: datetime, local: LocalTime) -> str:
    shown = local.of(moment)
    return f"{date_words(shown)}, {shown:%H:%M:%S}" if has_date(moment) else clock_time(moment.timestamp())
