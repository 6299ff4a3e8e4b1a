"""What an address asks: the filters of `narrated query` by the same names, a day, or a question in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Self
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from daemon.questions.errors import SearchError
from daemon.questions.local_time import LocalTime, parse_time_of_day
from daemon.questions.question import Filters, Question, merged
from daemon.questions.restatement import restate
from daemon.search.search import Search

ALL_DAYS = "all"
LISTS = ("camera", "zone", "object", "kind", "colour")
_TEXTS = ("q", "text", "confidence", "since", "until", "between", "day")
NAMES = (*LISTS, *_TEXTS)
"""Parameters of an address that ask; others are passed over."""

_LONGEST, _MOST = 300, 12
_LAST_PAGE = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What an address asks.

    Attributes:
        given: its parameters, as they were written, those that say something.
        question: what they mean.
        day: of which the question is, None where it is of all days or of times of its own.
        understood: how a question in words was understood, as options of `narrated query`; else empty.
        page: of the answer, from 1.
    """

    given: tuple[tuple[str, str], ...] = ()
    question: Question = field(default_factory=Question)
    day: date | None = None
    understood: str = ""
    page: int = 1

    @classmethod
    def read(cls, parameters: QueryParams, search: Search, now: datetime, *, always: bool = True) -> Self:
        """Read the parameters of an address; with `always` the newest day is meant where they name no time.

        Raises:
            SearchError: one of them cannot be understood.
        """
        given = tuple((name, value.strip()) for name, value in parameters.multi_items() if name in NAMES)
        given = tuple((name, value) for name, value in given if value)
        if len(given) > _MOST * len(NAMES) or any(len(value) > _LONGEST for _, value in given):
            raise SearchError(f"too much is asked at once: {_LONGEST} characters each, {_MOST} of a kind")
        one = dict(given)
        question = Question(_filters(given, search.local, now))
        understood = ""
        if words := one.get("q"):
            question = merged(question, search.asker().read(words, now))
            understood = restate(question, search.local)
        day = _day(one.get("day"), question, search, now) if always or "day" in one else None
        if day:
            question = replace(question, filters=_within(question.filters, day, search.local))
        number = parameters.get("page", "1")
        page = (
            int(number)
            if number.isascii() and number.isdecimal() and len(number) <= len(str(_LAST_PAGE))
            else 1
        )
        return cls(given, question, day, understood, max(1, page))

    @property
    def one(self) -> Mapping[str, str]:
        """The last value of each parameter."""
        return dict(self.given)

    def chosen(self, name: str) -> list[str]:
        """The values of a parameter."""
        return [value for key, value in self.given if key == name]

    def query(self, **changed: str | None) -> str:
        """The address's query with some parameters changed, or left out where they are None or empty."""
        kept = [(name, value) for name, value in self.given if name not in changed]
        return urlencode(kept + [(name, value) for name, value in changed.items() if value])

    @property
    def narrowed(self) -> bool:
        """Whether more is asked than a day."""
        return any(name != "day" for name, _ in self.given)


def _filters(given: tuple[tuple[str, str], ...], local: LocalTime, now: datetime) -> Filters:
    several = {name: tuple(v for n, v in given if n == name) for name in LISTS}
    one = dict(given)
    return Filters(
        cameras=several["camera"],
        zones=several["zone"],
        objects=several["object"],
        kinds=several["kind"],
        colours=several["colour"],
        text=one.get("text", ""),
        confidence=_share(one["confidence"]) if "confidence" in one else None,
        since=local.parse(one["since"], now) if "since" in one else None,
        until=local.parse(one["until"], now) if "until" in one else None,
        between=_between(one["between"]) if "between" in one else None,
    )


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise SearchError(f"the confidence {text!r} is not a number from 0 to 1")
    return share


def _between(text: str) -> tuple[int, int]:
    begin, dash, end = text.partition("-")
    if not dash:
        raise SearchError(f"the hours {text!r} cannot be read: write 22:00-06:00")
    return parse_time_of_day(begin.strip()), parse_time_of_day(end.strip())


def _day(text: str | None, question: Question, search: Search, now: datetime) -> date | None:
    """The day that is meant; the newest one of what is asked for where nothing is said of time."""
    filters = question.filters
    if text == ALL_DAYS or (
        text is None and (filters.since or filters.until or question.order != "all" or question.count)
    ):
        return None
    if text:
        return search.local.day(text, now)
    for found in search.answer(Question(filters, "last")).found:
        return search.local.of(found.record.after.moment).date()
    return search.local.of(now).date()


def _within(filters: Filters, day: date, local: LocalTime) -> Filters:
    begin, end = day_bounds(day, local)
    return replace(
        filters,
        since=max(begin, filters.since) if filters.since else begin,
        until=min(end, filters.until) if filters.until else end,
    )


def day_bounds(day: date, local: LocalTime) -> tuple[datetime, datetime]:
    """From a day's midnight to the next; 23 or 25 hours where clocks change."""
    try:
        return local.midnight(day), local.midnight(day + timedelta(days=1))
    except OverflowError:
        raise SearchError(f"{day} is beyond the calendar") from None
