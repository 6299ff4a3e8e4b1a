"""Addresses of the review as questions, by the names of `narrated query`'s options, and their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Self
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from daemon.questions.local_time import LocalTime
from daemon.questions.options import LISTS, question_of
from daemon.questions.question import Measure, Question, SearchError, Span, merge_options
from daemon.questions.restatement import restate
from daemon.search.output import caveats, local_words, stay_words
from daemon.search.results import SearchResult
from daemon.search.search import Search
from daemon.serve.plots import ZOOMED, Occupancy, bars, occupancies
from pipeline.report.words import duration_words, has_date, many

LONGEST_AXIS = timedelta(days=2)
"""A longer span is shown by days alone."""

SHOWN = 50
"""Narrations on a page."""

ALL_DAYS = "all"
_NAMES = (*LISTS, "q", "text", "confidence", "since", "until", "between", "day", "held")
"""Parameters that are read; others are ignored."""

_LONGEST, _MOST = 300, 12
_PAGE = re.compile(r"[1-9][0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class ReviewQuery:
    """The question of an address.

    Attributes:
        given: its parameters that are not empty.
        day: None for all days, or a span of its own.
        understood: a question in words restated, else empty.
        page: of the answer, from 1.
    """

    given: tuple[tuple[str, str], ...] = ()
    question: Question = field(default_factory=Question)
    day: date | None = None
    understood: str = ""
    page: int = 1

    @classmethod
    def read(cls, parameters: QueryParams, search: Search, now: datetime, *, newest_day: bool = True) -> Self:
        """Read an address; without a time it is of the newest day, unless that is not wanted.

        Raises:
            SearchError: a parameter cannot be understood.
        """
        given = tuple((n, v.strip()) for n, v in parameters.multi_items() if n in _NAMES and v.strip())
        if len(given) > _MOST * len(_NAMES) or any(len(value) > _LONGEST for _, value in given):
            raise SearchError(f"this is too much at once: {_LONGEST} characters each, {_MOST} of a kind")
        one, local, understood = dict(given), search.local, ""
        question = question_of(_options(given), local, now)
        if words := one.get("q"):
            question = merge_options(question, search.asker().read(words, now))
            understood = restate(question, local)
        held = "held" in one or "q" in one or question.measure.count  # no answer is false by a limit
        question = replace(question, filters=replace(question.filters, held=held))
        span, measure, day = question.span, question.measure, None
        if text := one.get("day"):
            day = None if text == ALL_DAYS else local.day(text, now)
        elif newest_day and not (span.since or span.until or measure.order != "all" or measure.count):
            newest = next(search.answer(Question(question.filters, measure=Measure("last"))).results, None)
            day = local.of(newest.record.after.moment if newest else now).date()
        if day:
            begin, end = day_bounds(day, local)
            since, until = max(begin, span.since or begin), min(end, span.until or end)
            question = replace(question, span=replace(span, since=since, until=until))
        number = parameters.get("page", "1")
        return cls(given, question, day, understood, int(number) if _PAGE.fullmatch(number) else 1)

    @property
    def one(self) -> Mapping[str, str]:
        """The last value of each parameter."""
        return dict(self.given)

    def query(self, **changed: str | None) -> str:
        """The address's query with some parameters changed, or left out where they are None or empty."""
        unchanged = [(name, value) for name, value in self.given if name not in changed]
        return urlencode(unchanged + [(name, value) for name, value in changed.items() if value])


@dataclass(frozen=True, slots=True)
class Review:
    """The answer.

    Attributes:
        error: why there is none.
        results: newest first, or in the order of the question.
        more: older ones are left.
        bars: of minutes, hours or days of the span: words, visits, narrations, address.
        ticks: five local moments of the axis of the plots, from its begin to its end.
        wider: ``(words, address)`` of the hours beside one that is shown, and of its day.
        counts: rows ``(*labels, visits, narrations)``; None for a question that counts nothing.
        visits: rows ``(begin, end, camera, object, duration)`` in words.
        cameras, objects, places: choices of the form.
        days: the nearest days with narrations, before and after; empty where there is none.
        gaps, faults: of the record and of the journals, one sentence each.
    """

    asked: ReviewQuery
    error: str = ""
    results: Sequence[SearchResult] = ()
    more: bool = False
    bars: Sequence[tuple[str, int, int, str]] = ()
    occupancies: Sequence[Occupancy] = ()
    ticks: Sequence[datetime] = ()
    wider: Sequence[tuple[str, str]] = ()
    counts: Sequence[tuple[str | int, ...]] | None = None
    visits: Sequence[tuple[str, ...]] = ()
    cameras: Sequence[str] = ()
    objects: Sequence[str] = ()
    places: Sequence[str] = ()
    days: tuple[str, str] = ("", "")
    gaps: Sequence[str] = ()
    faults: Sequence[str] = ()

    @property
    def title(self) -> str:
        """What the page is of."""
        asked, results = self.asked, self.results
        if self.error:
            return "Review"
        if asked.day and results and not has_date(results[0].record.after.moment):
            return "Footage without a date"
        day = asked.day or (self.ticks[0].date() if self.wider else None)
        hours = f", {self.ticks[0]:%H:%M} to {self.ticks[-1]:%H:%M}" if self.wider else ""
        if day:
            return f"{day:%A} {day.day} {day:%B %Y}{hours}"
        return "Results" if asked.understood else "All days"


def review(search: Search, parameters: QueryParams, now: datetime) -> Review:
    """Answer an address of the review; one that cannot be read fills in the form again, beside the error."""
    try:
        answer = _answer(search, ReviewQuery.read(parameters, search, now))
    except SearchError as refused:
        given = tuple((name, value[:_LONGEST]) for name, value in parameters.multi_items() if value)
        answer = Review(ReviewQuery(given[:50]), error=str(refused).replace("--", ""))
    selection = search.selection
    return replace(
        answer,
        cameras=selection.cameras(),
        objects=sorted(selection.objects() - {"scene"}),
        places=selection.places(),
        faults=search.index.faults(),
    )


def _answer(search: Search, asked: ReviewQuery) -> Review:
    question, measure, local = asked.question, asked.question.measure, search.local
    answer = Review(asked, gaps=caveats(search, question), days=_days(search, asked))
    if measure.count:
        rows: list[tuple[str | int, ...]] = [
            (*group.labels, group.visits, group.narrations) for group in search.selection.count(question)
        ]
        return replace(answer, counts=rows or [(*("" for _ in measure.by), 0, 0)])
    every = measure.order == "all"
    begin, end = _axis(asked, local)
    plotted = every and not question.of_visits
    shown = bars(search, question, begin, end) if plotted else []
    matches = search.answer(question, SHOWN, skip=(asked.page - 1) * SHOWN if every else 0)
    results = list(matches.results)
    answer = replace(
        answer,
        results=results if measure.order == "first" else results[::-1],
        more=matches.more and every,
        occupancies=occupancies(search, question, (begin, end)) if plotted and begin and end else (),
        visits=_visits(search, question) if question.of_visits else (),
    )
    if not shown:
        return answer
    first, last = shown[0].begin, shown[-1].end
    return replace(
        answer,
        bars=[
            (
                f"{each.label}: {many(each.visits, 'visit')}, {many(each.narrations, 'narration')}",
                each.visits,
                each.narrations,
                _nearer(asked, each.begin, each.end, local),
            )
            for each in shown
        ],
        ticks=[local.of(first + n * (last - first) / 4) for n in range(5)],
        wider=_wider(asked, begin, end, local),
    )


def day_bounds(day: date, local: LocalTime) -> tuple[datetime, datetime]:
    """A day's midnight and the next; 23 or 25 hours where clocks change."""
    return local.midnight(day), local.midnight(day + timedelta(days=1))


def _options(given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Parameters of an address as options of `question_of`."""
    options: dict[str, Any] = dict(given)
    options |= {name: [v for n, v in given if n == name] for name in LISTS}
    if "between" in options:
        options["between"] = [text.strip() for text in options["between"].split("-")]
        if len(options["between"]) != 2:  # noqa: PLR2004 - from and to
            raise SearchError("the hours cannot be read: write 22:00-06:00")
    if "confidence" in options:
        try:
            options["confidence"] = float(options["confidence"])
        except ValueError:
            options["confidence"] = -1.0
        if not 0 <= options["confidence"] <= 1:
            raise SearchError("the confidence is not a number from 0 to 1")
    return options


def _axis(asked: ReviewQuery, local: LocalTime) -> tuple[datetime | None, datetime | None]:
    """Begin and end of the plots: a day's, or of a few hours; None of everything else."""
    since, until = asked.question.span.since, asked.question.span.until
    if asked.day:
        return day_bounds(asked.day, local)
    return (since, until) if since and until and until - since <= LONGEST_AXIS else (None, None)


def _wider(
    asked: ReviewQuery, begin: datetime | None, end: datetime | None, local: LocalTime
) -> list[tuple[str, str]]:
    """Addresses of the spans beside a zoomed one, and of its day."""
    if asked.day or "q" in asked.one or not (begin and end) or end - begin > ZOOMED:
        return []
    day, length = local.of(begin).date(), end - begin
    return [
        (f"← {local.of(begin - length):%H:%M}", _nearer(asked, begin - length, begin, local)),
        (f"→ {local.of(end):%H:%M}", _nearer(asked, end, end + length, local)),
        ("whole day", asked.query(day=f"{day}", since=None, until=None)),
    ]


def _nearer(asked: ReviewQuery, begin: datetime, end: datetime, local: LocalTime) -> str:
    """The address of a day, or of a part of one."""
    if end - begin > ZOOMED:
        return asked.query(day=f"{local.of(begin):%Y-%m-%d}", since=None, until=None)
    since, until = (local.of(moment).replace(tzinfo=None).isoformat() for moment in (begin, end))
    return asked.query(since=since, until=until, day=None)


def _visits(search: Search, question: Question) -> list[tuple[str, ...]]:
    local = search.local
    return [
        (
            local_words(visit.begin, local),
            local_words(visit.end, local) if visit.end else stay_words(visit),
            visit.camera,
            visit.object,
            duration_words(visit.seconds),
        )
        for visit in search.selection.visits(question)[:SHOWN]
    ]


def _days(search: Search, asked: ReviewQuery) -> tuple[str, str]:
    """The nearest days with narrations of the same filters, before and after."""
    if asked.day is None:
        return "", ""
    begin, end = day_bounds(asked.day, search.local)
    filters, between = asked.question.filters, asked.question.span.between

    def nearest(order: Measure, since: datetime | None, until: datetime | None) -> str:
        question = Question(filters, Span(since, until, between), order)
        result = next(search.answer(question).results, None)
        return f"{search.local.of(result.record.after.moment):%Y-%m-%d}" if result else ""

    return nearest(Measure("last"), None, begin), nearest(Measure("first"), end, None)
