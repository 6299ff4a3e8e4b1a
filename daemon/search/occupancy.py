"""Occupancy: when so many were there at once, by their visits: nobody at the desk, ten in the lobby."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from daemon.questions.local_time import DAY_S, LocalTime, microseconds, moment_of
from daemon.questions.question import Filters, Question, SearchError, Span
from daemon.search.selection import Selection

Stay = tuple[int, int]  # begin and end in microseconds since 1970

_UNSEEN_US = DAY_S * 1_000_000  # what a camera that went down saw last may still be there for so long
_BRIEFEST_S = 0.5  # shorter ones are from one to the next


class Interval(NamedTuple):
    """A time in which at most `number` were there at once before all of these cameras."""

    cameras: tuple[str, ...]
    begin: datetime
    end: datetime
    number: int | None  # None where nothing was recorded

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


def asks_absence(question: Question) -> bool:
    """True where it is met by few being there: then of all cameras together, else of each."""
    return question.measure.there is not None and not question.measure.there[0]


def find_intervals(selection: Selection, question: Question) -> list[Interval]:
    """When as many were there at once as a question asks for, by time; the longest first where it asks so.

    Few are there only while every camera that is asked about, or that sees the place, is known to have been
    watched. SearchError where no camera was, or no track says how long some of them were there.
    """
    filters, measure = question.filters, question.measure
    found = _at_once(selection, question) if measure.there else _gaps(selection, question)
    longer, shorter = filters.longer_s or _BRIEFEST_S, filters.shorter_s
    found = [each for each in found if each.seconds > longer and (not shorter or each.seconds < shorter)]
    found.sort(key=lambda each: each.seconds if measure.by_length else each.begin.timestamp())
    limit = measure.limit or 1
    if measure.order == "all":
        return found
    return found[: -limit - 1 : -1] if measure.order in ("longest", "last") else found[:limit]


def _gaps(selection: Selection, question: Question) -> list[Interval]:
    """What was not recorded of a span."""
    now = question.asked_at or datetime.now(UTC)
    ends = question.span.since or datetime.min.replace(tzinfo=UTC), question.span.until or now
    return [
        Interval((gap.camera,), max(gap.begin, begin), min(gap.end, end), None)
        for gap in selection.gaps(question)
        if gap.reason != "mask"
        for begin, end in (question.span.pieces or (ends,))
        if gap.begin < end and gap.end > begin
    ]


def _at_once(selection: Selection, question: Question) -> list[Interval]:
    """When as many were there at once, unsorted and of any length."""
    filters = replace(question.filters, longer_s=None, shorter_s=None)
    measure, span, now = question.measure, question.span, question.asked_at or datetime.now(UTC)
    end, absence = min(span.until or now, now), asks_absence(question)
    asked, watched = selection.cameras_of(filters), selection.watched()
    watched = {name: watched[name] for name in asked if name in watched}
    known = {name: each.until(now) for name, each in watched.items()}
    begin = span.since or min((each.first for each in watched.values()), default=now)
    cameras = tuple(name for name, each in watched.items() if each.first < end and known[name] > begin)
    if not cameras:
        raise SearchError("nobody watched then")
    if selection.lacks_tracks(filters, Span(begin, end)):
        raise SearchError("some records of then name no tracks: how many were there at once is not known")
    stays = selection.stays(filters, Span(begin, end), _UNSEEN_US if absence else 0)
    dark = {name: [*_outside(span, begin, end, selection.local)] for name in cameras}
    first = min(watched[name].first for name in cameras)
    for name in cameras if absence else ():
        gaps = selection.gaps(Question(Filters((name,)), Span(begin, end), asked_at=now))
        unseen = [(begin, first), (known[name], end), *((g.begin, g.end) for g in gaps if g.reason != "mask")]
        dark[name] += [(microseconds(since), microseconds(until)) for since, until in unseen]
    least, most = measure.there or (0, 0)
    found = list[Interval]()
    for group in [cameras] if absence else [(name,) for name in cameras]:
        there, unknown = ([each for name in group for each in of.get(name, ())] for of in (stays, dark))
        levels = [*_levels(there, unknown, microseconds(begin), microseconds(end))]
        found += [Interval(group, moment_of(a), moment_of(b), n) for a, b, n in _joined(levels, least, most)]
    if measure.most and found:
        top = max(each.number or 0 for each in found)
        return _at_once(selection, replace(question, measure=replace(measure, most=False, there=(top, top))))
    return found


def _levels(
    stays: Iterable[Stay], dark: Iterable[Stay], begin: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """How many stays there are from when until when, but in what is dark."""
    changes = defaultdict[int, list[int]](lambda: [0, 0])
    for which, spans in enumerate((stays, dark)):
        for first, last in spans:
            if max(first, begin) < min(last, end):
                changes[max(first, begin)][which] += 1
                changes[min(last, end)][which] -= 1
    there = hidden = 0
    for at, until in pairwise(sorted({begin, end, *changes})):
        come, hide = changes[at]
        there, hidden = there + come, hidden + hide
        if not hidden:
            yield at, until, there


def _joined(levels: Iterable[tuple[int, int, int]], least: int, most: float) -> list[tuple[int, int, int]]:
    """The spans in which it is between two numbers all the time, and the highest of each."""
    found = list[tuple[int, int, int]]()
    for begin, end, number in levels:
        if not least <= number <= most:
            continue
        joined = found and found[-1][1] == begin
        first, _, highest = found.pop() if joined else (begin, end, number)
        found.append((first, end, max(highest, number)))
    return found


def _outside(span: Span, begin: datetime, end: datetime, local: LocalTime) -> Iterator[Stay]:
    """What is not of a span's pieces, from begin to end."""
    last = begin
    for opens, closes in local.parts_of(span, begin, end):
        if last < opens:
            yield microseconds(last), microseconds(opens)
        last = max(last, closes)
    if last < end:
        yield microseconds(last), microseconds(end)
