"""Occupancy: when so many were there at once, by their visits: nobody at the desk, ten in the lobby."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from daemon.questions.question import (
    DAY_NAMES,
    DAY_S,
    SPAN,
    Filters,
    Question,
    SearchError,
    Span,
    microseconds,
    moment_of,
)
from daemon.questions.words import GROUPS
from daemon.search.selection import Gap, Group, Interval, Selection, Watched, sql_list
from models.language.catalogue import tell

Stay = tuple[int, int]  # begin and end in microseconds since 1970

_UNSEEN_US = DAY_S * 1_000_000  # what a camera that went down saw last may still be there for so long
_AROUND_US = 300_000_000  # the two frames of a record without a track are mostly no further apart
_BRIEFEST_S = 0.5  # shorter ones are from one to the next
_HIDDEN = 2**32  # added to the number of those who are there while it is not known
_CROWD = 6
"""People at once: of clips with published tracks those with four in their record miss one visit in ten, that
with seven most of them (`benchmarks/quality.py --only tracks`)."""
_MOST_ROWS = 200  # of a table that has the empty ones, too
_MOSTLY = 0.75  # an hour of the day, or a weekday, was watched so often, as a share of the most watched one
_WEEK = timedelta(weeks=1)
_YEAR = timedelta(days=400)
"""Of hours of the day the last one that was watched shows which were: footage without a date is of 1970."""


def asks_absence(question: Question) -> bool:
    """True where it is met by few being there: then of all cameras together, else of each."""
    return question.measure.there is not None and not question.measure.there[0]


def find_intervals(selection: Selection, question: Question) -> list[Interval]:
    """When as many were there at once as a question asks for, by time; the longest first where it asks so.

    Few are there only while every camera that is asked about, or that sees the place, is known to have been
    watched, and not around what names no track. SearchError where no camera was, or most name none.
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
    span, found = question.span, list[Interval]()
    for gap in selection.gaps(question):
        begin, end = max(gap.begin, span.since or gap.begin), min(gap.end, span.until or gap.end)
        parts = selection.local.parts_of(span, begin, end) if gap.reason != "mask" else ()
        found += [Interval((gap.camera,), *part, None) for part in parts]
    return found


def _at_once(selection: Selection, question: Question) -> list[Interval]:
    """When as many were there at once, unsorted and of any length."""
    filters = replace(question.filters, longer_s=None, shorter_s=None)
    measure, span, now = question.measure, question.span, question.asked_at or datetime.now(UTC)
    end, absence = min(span.until or now, now), asks_absence(question)
    watched = selection.watched()
    watched = {name: watched[name] for name in selection.cameras_of(filters) if name in watched}
    known = {name: each.until(now) for name, each in watched.items()}
    begin = span.since or min((each.first for each in watched.values()), default=now)
    cameras = tuple(name for name, each in watched.items() if each.first < end and known[name] > begin)
    if not cameras:
        raise SearchError("nobody watched then")
    untracked = selection.untracked(question)
    around = Span(begin - timedelta(days=1), end + timedelta(days=1))
    tracked = selection.stays(Filters(cameras), around) if untracked else {}
    numbers = Counter(camera for camera, _ in untracked)
    if any(number > 2 * len(tracked.get(camera, ())) for camera, number in numbers.items()):  # both ends
        raise SearchError("most records of then name no tracks: how many were there at once is not known")
    stays = selection.stays(filters, Span(begin, end), _UNSEEN_US if absence else 0)
    ends = microseconds(begin), microseconds(end)
    asked = [(microseconds(a), microseconds(b)) for a, b in selection.local.parts_of(span, begin, end)]
    outside = [(a, b) for a, b, inside in levels(asked, (), *ends) if not inside]
    dark = {name: outside.copy() for name in cameras}
    first = min(watched[name].first for name in cameras)
    for name in cameras if absence else ():
        dark[name] += unseen(selection, name, (begin, end), (first, known[name]))
        dark[name] += [(at - _AROUND_US, at + _AROUND_US) for camera, at in untracked if camera == name]
    least, most = measure.there or (0, 0)
    found = list[Interval]()
    for group in [cameras] if absence else [(name,) for name in cameras]:
        there, unknown = ([each for name in group for each in of.get(name, ())] for of in (stays, dark))
        spans = _joined(levels(there, unknown, *ends), least, most)
        found += [Interval(group, moment_of(a), moment_of(b), number) for a, b, number in spans]
    if measure.most and found:
        top = max(each.number or 0 for each in found)
        return _at_once(selection, replace(question, measure=replace(measure, most=False, there=(top, top))))
    return found


def find_crowds(selection: Selection, question: Question) -> Iterator[Gap]:
    """When so many people were before a camera at once that a count of them misses some."""
    asked, span, people = question.filters, question.span, GROUPS["somebody"]
    of_people = not asked.objects or {"somebody", *people} & {*asked.objects}
    if not (question.measure.count and of_people) or asked.open:
        return
    since = microseconds(span.since) if span.since else -1
    until = microseconds(span.until or datetime.now(UTC))
    objects = f"object IN {sql_list(people)}"
    sql = f"SELECT begin, last FROM visits WHERE camera = ? AND {objects} AND begin < ? AND last > ?"
    for camera in asked.cameras or selection.cameras():
        stays = selection.connection.execute(sql, (camera, until, since))
        for begin, end, number in _joined(levels(stays, (), since, until), _CROWD, math.inf):
            crowd = moment_of(begin), moment_of(end)
            if any(selection.local.parts_of(span, *crowd)):
                yield Gap(camera, *crowd, tell("{number} at once", number=number), 0)


def unseen(
    selection: Selection, camera: str, span: tuple[datetime, datetime], watched: tuple[datetime, datetime]
) -> list[Stay]:
    """When a camera recorded nothing, but for what masks hide; it was watched from when until when."""
    begin, end = span
    gaps = selection.gaps(Question(Filters((camera,)), Span(begin, end), asked_at=end))
    dark = [(begin, watched[0]), (watched[1], end), *((g.begin, g.end) for g in gaps if g.reason != "mask")]
    return [(microseconds(since), microseconds(until)) for since, until in dark]


def count(selection: Selection, question: Question, named: int = 0) -> list[Group]:
    """The count of `Selection.count`, with the hours or days of the span in which there was nothing to count.

    Where they are too many, or it is counted by something else, there are only those with a count. Of the
    fewest there are only cameras and times that were watched throughout; SearchError where there are none.
    """
    groups, measure, span = selection.count(question, named), question.measure, question.span
    seen, now = selection.watched(), question.asked_at or datetime.now(UTC)
    seen = {name: seen[name] for name in question.filters.cameras or seen}
    of_time = len(measure.by) == 1 and measure.by_time and not measure.most
    if not seen or not (of_time or measure.fewest):
        return groups
    by, found = measure.by[0], {group.labels[0]: group for group in groups}
    if measure.fewest:
        labels = _watched_throughout(selection, question, seen, now)
        rows = [found.get(label) or Group((label,), 0, 0) for label in labels]
        least = 0 if measure.none else min(row.visits or 0 for row in rows)
        return [row for row in rows if row.visits == least]
    begin, end = span.since or min(each.first for each in seen.values()), min(span.until or now, now)
    if by == "hour-of-day":
        begin = max(begin, min(end, max(each.until(now) for each in seen.values())) - _YEAR)
    ends = microseconds(begin), microseconds(end)
    dark = [
        unseen(selection, name, (begin, end), (each.first, each.until(now))) for name, each in seen.items()
    ]
    lit = [
        (moment_of(since), moment_of(until)) for each in dark for since, until, _ in levels((), each, *ends)
    ]
    every = dict[str, Group]()
    for label, *period in selection.periods(by, span, begin, end):
        for since, until in selection.local.parts_of(span, max(begin, period[0]), min(end, period[1])):
            watched = any(since < last and until > first for first, last in lit)
            every[label] = Group((label,), 0, 0) if watched else every.get(label, Group((label,), None, 0))
        if len(every) > _MOST_ROWS:
            return groups
    return [(every | found)[label] for label in _ordered(every | found, by)]


def _watched_throughout(
    selection: Selection, question: Question, seen: Mapping[str, Watched], now: datetime
) -> list[str]:
    """The labels of cameras or times; of weekdays, and hours of the day, of which most were."""
    (by, *more), span = question.measure.by, question.span
    known = {name: each.until(now) for name, each in seen.items()}
    begin = max(filter(None, (span.since, min(each.first for each in seen.values()))))
    end = min(filter(None, (span.until, now, max(known.values()))))
    if by == "camera" and not more:
        return [name for name in seen if seen[name].first < end and known[name] > begin]
    if more or by not in ("hour", "day", "week", "weekday", "hour-of-day"):
        raise SearchError("the fewest are counted by camera, hour, day, week or weekday: write one of them")
    if by == "hour-of-day":
        begin = max(begin, end - _YEAR)
    dark = [(each.begin, each.end) for each in selection.gaps(question) if each.reason != "mask"]
    dark += [(begin - _WEEK, begin), (end, end + _WEEK)]
    times = Counter[str]()
    for label, since, until in selection.periods(by, span, begin, end):
        inside = list(selection.local.parts_of(span, since, until))
        if inside and ("hour" not in by or inside == [(since, until)]):
            times[label] += not any(since < last and until > first for first, last in dark)
    if not times.total():
        raise SearchError(f"no whole {by} of it was watched: ask for a longer time")
    least = _MOSTLY * max(times.values())
    return [label for label in _ordered(times, by) if times[label] >= least]


def _ordered(labels: Iterable[str], by: str) -> list[str]:
    """By time; a week begins on Monday."""
    days = [name.capitalize() for name in DAY_NAMES]
    return sorted(labels, key=days.index if by == "weekday" else str) if by != SPAN else list(labels)


def levels(
    stays: Iterable[Stay], dark: Iterable[Stay], begin: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """How many stays there are from when until when, but in what is dark."""
    changes, number = [(begin, 0), (end, 0)], 0
    for step, spans in ((1, stays), (_HIDDEN, dark)):
        for first, last in spans:
            if first < end and last > begin and first < last:
                changes += ((max(first, begin), step), (min(last, end), -step))
    for (at, step), (until, _) in pairwise(sorted(changes)):
        number += step
        if at < until and number < _HIDDEN:
            yield at, until, number


def _joined(spans: Iterable[tuple[int, int, int]], least: int, most: float) -> list[tuple[int, int, int]]:
    """The spans in which it is between two numbers all the time, and the highest of each."""
    found = list[tuple[int, int, int]]()
    for begin, end, number in spans:
        if not least <= number <= most:
            continue
        joined = found and found[-1][1] == begin
        first, _, highest = found.pop() if joined else (begin, end, number)
        found.append((first, end, max(highest, number)))
    return found
