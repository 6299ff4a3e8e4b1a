"""When it happened, to be seen at a glance: bars of equal spans, a lane for each camera."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil, sqrt

from daemon.questions.local_time import LocalTime, microseconds
from daemon.search.output import local_words
from pipeline.report.words import has_date

BARS = 96
"""About as many at most; a day has one for each quarter of an hour."""

_MORE = 4  # on the day that has 25 hours

_LANES = 12
_STEPS_S = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 86400, 7 * 86400, 28 * 86400, 364 * 86400)
_LABELS = 8
_LEAST_HEIGHT = 0.14


@dataclass(frozen=True, slots=True)
class Bar:
    """Some narrations of a camera within a span.

    Attributes:
        x, width: in 0..1 of the timeline.
        height: in 0..1, by the root of the number.
        count: how many.
        begin, end: of the span.
        words: for people, such as "08:15 to 08:30: 12".
    """

    x: float
    width: float
    height: float
    count: int
    begin: datetime
    end: datetime
    words: str


@dataclass(frozen=True, slots=True)
class Lane:
    """The bars of one camera."""

    camera: str
    count: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """When narrations were.

    Attributes:
        lanes: one per camera, those with most first kept where there are too many; by name.
        labels: ``(x, words)`` below, x in 0..1.
        count: of all.
        summary: the same for who cannot see it.
    """

    lanes: tuple[Lane, ...]
    labels: tuple[tuple[float, str], ...]
    count: int
    summary: str


def timeline(
    spread: Sequence[tuple[int, str]], begin: datetime | None, end: datetime | None, local: LocalTime
) -> Timeline:
    """The timeline of narrations, from the first to the last of them where no begin or end is given.

    Args:
        spread: microseconds since 1970 and camera of each, by time.
        begin: of the timeline.
        end: of it.
        local: the time zone of its words.
    """
    count = len(spread)
    if not count:
        return Timeline((), (), 0, "Nothing was narrated.")
    low = microseconds(begin) if begin else spread[0][0]
    high = microseconds(end) if end else spread[-1][0] + 1
    step = _step_us(low, high)
    if begin is None:
        low = low // step * step
    bars = max(1, ceil((high - low) / step))
    high = low + bars * step
    cells = Counter((camera, min(max((at - low) // step, 0), bars - 1)) for at, camera in spread)
    totals = Counter(camera for _, camera in spread)
    most = max(cells.values())
    lanes = [
        Lane(name, totals[name], _bars([cells[name, n] for n in range(bars)], most, low, step, local))
        for name in sorted(sorted(totals, key=lambda name: (-totals[name], name))[:_LANES])
    ]
    by_bar = Counter(place for _, place in cells.elements())
    busiest = max(range(bars), key=by_bar.__getitem__)
    summary = (
        f"{count:,} narrations from {_words(spread[0][0], local)} to "
        f"{_words(spread[-1][0], local)}; most of them about {_words(low + busiest * step, local)}."
    )
    return Timeline(tuple(lanes), _labels(low, high, local), count, summary)


def _step_us(low: int, high: int) -> int:
    """The least round span of which there are not too many."""
    for seconds in _STEPS_S:
        if (high - low) <= (BARS + _MORE) * seconds * 1_000_000:
            return seconds * 1_000_000
    return ceil((high - low) / BARS)


def _bars(counts: Sequence[int], most: int, low: int, step: int, local: LocalTime) -> tuple[Bar, ...]:
    found = []
    for place, count in enumerate(counts):
        if count:
            begin, end = _moment(low + place * step), _moment(low + (place + 1) * step)
            height = _LEAST_HEIGHT + (1 - _LEAST_HEIGHT) * sqrt(count / most)
            words = f"{local_words(begin, local)}: {count:,} narration{'s' if count > 1 else ''}"
            found.append(Bar(place / len(counts), 1 / len(counts), height, count, begin, end, words))
    return tuple(found)


def _labels(low: int, high: int, local: LocalTime) -> tuple[tuple[float, str], ...]:
    """Round times below the bars, as clocks here show them: also on days on which these are changed."""
    span, dated = high - low, has_date(_moment(low))
    clock = local if dated else LocalTime(UTC)
    seconds = next((s for s in _STEPS_S if span <= (_LABELS + 1) * s * 1_000_000), 0)
    step = timedelta(seconds=seconds or ceil(span / _LABELS / 1_000_000))
    midnight = clock.of(_moment(low)).replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
    passed = clock.of(_moment(low)).replace(tzinfo=None) - midnight
    wall, found = midnight + passed // step * step, list[tuple[float, str]]()
    while (at := microseconds(clock.aware(wall))) < high:
        words = f"{wall:{_shape(step)}}" if dated else local_words(_moment(at), local)
        if at >= low:
            found.append(((at - low) / span, words))
        wall += step
    return tuple(found)


def _shape(step: timedelta) -> str:
    """How a label is written."""
    if step >= timedelta(days=1):
        return "%d %b %Y" if step > timedelta(days=7) else "%d %b"
    return "%H:%M" if step >= timedelta(minutes=1) else "%H:%M:%S"


def _words(at: int, local: LocalTime) -> str:
    return local_words(_moment(at), local)


def _moment(at: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
