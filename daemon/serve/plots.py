"""Plots of a span: visits by day, hour or minute, and how many were there at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from daemon.questions.local_time import LocalTime, microseconds
from daemon.questions.question import Filters, Measure, Question, Span
from daemon.search.search import Search
from pipeline.report.words import has_date

ZOOMED = timedelta(hours=3)
"""A span up to so long is shown by minutes."""

_LONGEST = timedelta(days=92)  # that is shown by days
_SLOTS = 96
_PLACES = 6


class Bar(NamedTuple):
    """A day, hour or minute; `narrations` also count what is no visit."""

    label: str
    begin: datetime
    end: datetime
    visits: int = 0
    narrations: int = 0


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many were there at the same time, the most in each of equal parts of a span.

    Attributes:
        option: camera or zone, whose option `name` is.
        dark: begin and length of what was not recorded, in shares of the span.
    """

    option: str
    name: str
    most: Sequence[int]
    dark: Sequence[tuple[float, float]] = ()


def bars(search: Search, question: Question, begin: datetime | None, end: datetime | None) -> list[Bar]:
    """Visits by minute, hour or day of a span, empty ones as well; none of footage without a date.

    Args:
        search: to be asked.
        question: its span is counted.
        begin, end: of the axis; None is the first and last day that has narrations.
    """
    length = end - begin if begin and end else _LONGEST
    step, unit, shape = timedelta(days=1), "day", "%Y-%m-%d"
    if length <= ZOOMED:
        step, unit, shape = timedelta(minutes=1), "minute", "%Y-%m-%d %H:%M"
    elif length <= timedelta(days=2):
        step, unit, shape = timedelta(hours=1), "hour", "%Y-%m-%d %H:00"
    by = Measure(count=True, by=(unit,))
    counted = {group.labels[0]: group for group in search.selection.count(replace(question, measure=by))}
    if not counted or not has_date(datetime.fromisoformat(next(iter(counted)))):
        return []
    local = search.local
    last = end or local.aware(datetime.fromisoformat(max(counted))) + step
    first = begin or local.aware(datetime.fromisoformat(min(counted)))
    shown = dict[str, Bar]()
    for start in _steps(max(first, last - _LONGEST) if unit == "day" else first, last, step, local):
        label = f"{local.of(start):{shape}}"
        group = counted.get(label)
        until = start + step if unit != "day" else local.midnight(local.of(start).date() + step)
        shown.setdefault(label, Bar(label, start, until, *group[1:] if group else ()))
    return list(shown.values())


def occupancies(search: Search, question: Question, span: tuple[datetime, datetime]) -> list[Occupancy]:
    """By camera, and of one camera also by place; those where nobody was are left out."""
    selection, filters = search.selection, replace(question.filters, held=True)
    found = [
        ("camera", camera, camera, stays) for camera, stays in selection.stays(filters, Span(*span)).items()
    ]
    for place in selection.places()[:_PLACES] if len(filters.cameras) == 1 and not filters.zones else ():
        at_place = selection.stays(replace(filters, zones=(place,)), Span(*span))
        found += [("zone", place, camera, stays) for camera, stays in at_place.items()]
    shown = []
    for option, name, camera, stays in sorted(found, key=lambda each: each[0]):
        if any(most := highest(stays, *span)):
            gaps = selection.gaps(Question(Filters((camera,)), Span(*span)))
            dark = [_share(gap.begin, gap.end, *span) for gap in gaps if gap.reason != "mask"]
            shown.append(Occupancy(option, name, most, dark))
    return shown


def _share(since: datetime, until: datetime, begin: datetime, end: datetime) -> tuple[float, float]:
    """Begin and length, within a span and in shares of it."""
    since, until = max(since, begin), min(until, end)
    return (since - begin) / (end - begin), (until - since) / (end - begin)


def highest(stays: Sequence[tuple[int, int]], begin: datetime, end: datetime) -> list[int]:
    """The most stays at the same time in each of equal parts of a span; a stay has begin and end in us."""
    first, last = microseconds(begin), microseconds(end)
    spans = np.array([stay for stay in stays if stay[1] > first and stay[0] < last], np.int64).reshape(-1, 2)
    moments = np.clip((spans - (0, 1)).T.ravel(), first, last)  # who goes makes room for who comes
    order = np.argsort(moments, kind="stable")
    there = np.concatenate([[0], np.cumsum(np.repeat((1, -1), len(spans))[order])])
    edges = np.linspace(first, last, _SLOTS + 1).astype(np.int64)
    at = np.searchsorted(moments[order], edges, "left")
    # within a part: as many as at its begin, and after each change in it
    return [int(there[a : b + 1].max()) for a, b in pairwise(at)]


def _steps(begin: datetime, end: datetime, step: timedelta, local: LocalTime) -> Iterator[datetime]:
    while begin < end:
        yield begin
        begin = local.midnight(local.of(begin).date() + step) if step.days else begin + step
