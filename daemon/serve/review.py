"""What was narrated, by day, filter and question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from starlette.datastructures import QueryParams

from daemon.questions.question import Filters, Question
from daemon.search.found import FoundRecord
from daemon.search.search import Search
from daemon.search.selection import Group
from daemon.serve.asked import Asked, day_bounds
from daemon.serve.timeline import Timeline, timeline
from pipeline.report.words import has_date

SHOWN = 50
"""Narrations on a page."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What the review shows.

    Attributes:
        asked: what the address asks.
        found: newest first, or in the order that was asked for.
        more: there are older ones.
        timeline: of all that is asked for.
        groups: where they are only counted.
        cameras, objects: to choose from.
        days: the nearest days with narrations, before and after.
        faults: what does not verify.
    """

    asked: Asked
    found: list[FoundRecord]
    more: bool
    timeline: Timeline
    groups: list[Group] | None
    cameras: list[str]
    objects: list[str]
    days: tuple[str, str]
    faults: list[str]


def reviewed(search: Search, parameters: QueryParams, now: datetime) -> Reviewed:
    """What an address of the review asks.

    Raises:
        SearchError: it cannot be understood.
    """
    asked = Asked.read(parameters, search, now)
    question, filters = asked.question, asked.question.filters
    groups = search.count(question) if question.count else None
    found, more = list[FoundRecord](), False
    if groups is None:
        answer = search.answer(
            question, SHOWN, skip=(asked.page - 1) * SHOWN if question.order == "all" else 0
        )
        found, more = list(answer.found), answer.more and question.order == "all"
    spread = search.spread(filters) if question.order == "all" and not question.of_visits else []
    begin, end = filters.since, filters.until
    if asked.day and found and not has_date(found[0].record.after.moment):
        begin = end = None  # footage without a date: a day would be empty but for its first minutes
    drawn = timeline(spread, begin, end, search.local)
    return Reviewed(
        asked,
        found[::-1] if question.order != "first" else found,
        more,
        drawn,
        groups,
        search.selection.cameras(),
        sorted(search.selection.objects() - {"scene"}),
        _days(search, asked),
        search.faults(),
    )


def unanswered(search: Search, parameters: QueryParams) -> Reviewed:
    """What is shown beside an error: the form, as it was filled in."""
    given = tuple((n, v[:300]) for n, v in parameters.multi_items() if v)[:50]
    objects = sorted(search.selection.objects() - {"scene"})
    nothing = Timeline((), (), 0, "")
    return Reviewed(
        Asked(given), [], False, nothing, None, search.selection.cameras(), objects, ("", ""), search.faults()
    )


def _days(search: Search, asked: Asked) -> tuple[str, str]:
    """The nearest days with narrations of the same filters, before and after."""
    if asked.day is None:
        return "", ""
    begin, end = day_bounds(asked.day, search.local)
    plain = {
        name: getattr(asked.question.filters, name)
        for name in ("cameras", "zones", "objects", "kinds", "colours", "text")
    }
    found = []
    for order, span in (("last", {"until": begin}), ("first", {"since": end})):
        matches = search.answer(Question(Filters(**plain, **span), order)).found  # type: ignore[arg-type]
        found.append(next((f"{search.local.of(each.record.after.moment):%Y-%m-%d}" for each in matches), ""))
    return found[0], found[1]
