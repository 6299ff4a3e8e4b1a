"""A question as a value: which narrations (filters), of which time (span), and what of them (measure)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from daemon.config.units import DURATION_PATTERN, parse_duration

TIME_GROUPINGS = ("minute", "hour", "day", "week", "month", "weekday", "hour-of-day")
GROUPINGS = (*TIME_GROUPINGS, "camera", "object", "kind", "colour")
SPAN = "span"
"""Counted by the pieces of the span, only in questions: today compared to yesterday."""


class SearchError(Exception):
    """A question cannot be answered; the message says what to write instead."""


class NoJournalsError(SearchError):
    """There are no journals to search."""


def not_here(word: str, what: str, names: Iterable[str]) -> SearchError:
    """The error of a camera or place that is none of those here; it names the nearest."""
    known = list(names)
    near = get_close_matches(word, known, 1, 0.6)
    meant = f"did you mean {near[0]}? " if near else ""
    return SearchError(f"{word!r} is no {what} here; {meant}{what}s: {', '.join(known) or 'none yet'}")


@dataclass(frozen=True, slots=True)
class Filters:
    """A narration matches if one of its sentences meets every filter; the values of one are alternatives.

    Attributes:
        objects, kinds, colours: words, see `daemon.questions.words`.
        text: words of the sentence; "in quotes" adjacent, a star at the end for any ending, a bar between
            alternatives.
        longer_s, shorter_s: bounds of the visit's duration.
        open, ended: only visits that have not ended, or that have.
        lacking: only visits in which none of these kinds was seen, see `WITHOUT` in `daemon.questions.words`.
    """

    cameras: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()  # places as sentences name them, with or without "at the"
    objects: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()
    text: str = ""
    other: Filters | None = None  # what it was done with: the vehicle that somebody got into
    confidence: float | None = None  # at least, 0..1
    longer_s: float | None = None
    shorter_s: float | None = None
    open: bool = False
    ended: bool = False
    lacking: tuple[str, ...] = ()
    marked: str = ""  # only what users marked as "mistaken" or "corrected", or "at all"
    held: bool = True  # False leaves out what a limit held back from messages


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time.

    Attributes:
        since, until: aware times, the first inclusive, the second exclusive; None is open.
        between: minutes of every local day, likewise; across midnight if the second is less.
        pieces: only these parts of it, in their order; empty means all of it.
    """

    since: datetime | None = None
    until: datetime | None = None
    between: tuple[int, int] | None = None
    pieces: tuple[tuple[datetime, datetime], ...] = ()


@dataclass(frozen=True, slots=True)
class Measure:
    """The measure that a question asks for.

    Attributes:
        limit: None is one of the first, last, longest or shortest, else as many as the output shows.
        most, fewest, none: only the group with the highest count, with the lowest, or those without any.
        there: the spans in which so many were there at once, at least and at most; with `most` those of
            the highest number.
    """

    order: Literal["all", "first", "last", "first and last", "longest", "shortest"] = "all"
    limit: int | None = None
    count: bool = False  # the number of visits
    by: tuple[str, ...] = ()  # of `GROUPINGS`, what they are counted by
    most: bool = False
    fewest: bool = False
    none: bool = False
    there: tuple[int, float] | None = None
    durations: bool = False  # how long the visits were

    @property
    def by_length(self) -> bool:
        """True of the longest and the shortest."""
        return self.order in ("longest", "shortest")

    @property
    def by_time(self) -> bool:
        """True where hours, days, ... are counted."""
        return bool({*self.by} & {*TIME_GROUPINGS, SPAN})


@dataclass(frozen=True, slots=True)
class Question:
    """A question."""

    filters: Filters = Filters()
    span: Span = Span()
    measure: Measure = Measure()
    presence: bool = False  # also visits that began before the span and lasted into it
    asked_at: datetime | None = None  # the time that "now" means; None is the time of the answer
    mended: tuple[tuple[str, str], ...] = ()  # words of it that were misspelt, and what was read for each

    @property
    def of_intervals(self) -> bool:
        """True where spans answer it, in which so many were there at once, or a camera did not record."""
        return self.measure.there is not None or ("gap" in self.filters.kinds and self._of_length)

    @property
    def _of_length(self) -> bool:
        filters, measure = self.filters, self.measure
        bounded = filters.longer_s is not None or filters.shorter_s is not None
        return bounded or measure.durations or measure.by_length

    @property
    def of_visits(self) -> bool:
        """True where visits answer it, which only records with tracks can."""
        return (self._of_length or self.filters.open or self.filters.ended) and not self.of_intervals


DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAY_S = 86_400
MINUTES = 24 * 60
"""Of a day."""

LOCAL_ORIGIN = 25_567 * DAY_S * 1_000_000
"""From Monday 1 January 1900 to 1970, in microseconds: local times since then are never negative."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER = 15 * 60 * 1_000_000
_YEARS = range(1900, 3000)
_NOON = 12
_TIME_OF_DAY = re.compile(r"(\d{1,2})(?:[:.](\d\d))? ?(am|pm|o'clock)?", re.IGNORECASE)
_NAMED_TIMES = {"midnight": 0, "noon": 12 * 60, "midday": 12 * 60}


def microseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(microseconds: int) -> datetime:
    """The aware time of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


def join_spans(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Spans by time, one for those that meet."""
    found = list[tuple[datetime, datetime]]()
    for begin, end in sorted(spans):
        meets = bool(found) and begin <= found[-1][1]
        first, last = found.pop() if meets else (begin, end)
        found.append((first, max(last, end)))
    return found


def beyond_calendar(text: object) -> SearchError:
    """The error of a time that no record can have."""
    return SearchError(f"{text} is beyond the calendar: write a time of the years 1900 to 2999")


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A time zone; `zone` None is this machine's."""

    zone: tzinfo | None = None

    @classmethod
    def named(cls, name: str | None) -> LocalTime:
        """The time zone of a name such as ``Europe/London``; None is this machine's.

        Raises `SearchError` where there is no such time zone.
        """
        if name is None:
            return cls()
        try:
            return cls(ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise SearchError(f"no time zone is called {name!r}: write UTC or Europe/London") from None

    def of(self, moment: datetime) -> datetime:
        """An aware time in this zone."""
        return moment.astimezone(self.zone)

    def aware(self, wall: datetime) -> datetime:
        """The UTC time at which clocks here show a naive time.

        Raises `SearchError` where it is beyond the calendar.
        """
        if wall.year not in _YEARS:
            raise beyond_calendar(f"{wall:%d %B} {wall.year}")
        shown = wall.astimezone() if self.zone is None else wall.replace(tzinfo=self.zone)
        return shown.astimezone(UTC)  # Python compares two times of one zone by their clocks

    def ahead(self, first: int, last: int) -> list[tuple[int, int]]:
        """How far clocks here are ahead of UTC, and since when, in microseconds; the newest first.

        Args:
            first, last: of the times that are asked about; earlier ones count as the first.
        """

        def offset(at: int) -> int:
            return (self.of(moment_of(at)).utcoffset() or timedelta()) // timedelta(microseconds=1)

        at = first // _QUARTER * _QUARTER
        found = [(at, offset(at))]
        while at < last:
            week = range(at, at + 7 * 96 * _QUARTER + 1, _QUARTER)  # clocks change at quarters of hours
            at = week[-1]
            if offset(at) != found[-1][1]:
                known = found[-1][1]
                change = week[bisect_left(week, True, key=lambda each: offset(each) != known)]
                found.append((change, offset(change)))
        return found[::-1]

    def midnight(self, day: date) -> datetime:
        """The begin of a day."""
        return self.aware(datetime.combine(day, time()))

    def bounds(self, day: date) -> tuple[datetime, datetime]:
        """A day's midnight and the next; 23 or 25 hours where clocks change."""
        return self.midnight(day), self.midnight(day + timedelta(days=1))

    def hours_of(self, day: date, hours: tuple[int, int]) -> tuple[datetime, datetime]:
        """Minutes of a day, the second of the next one if not after the first, as moments."""
        low, high = hours
        midnight = datetime.combine(day, time())
        begin, end = (midnight + timedelta(minutes=each) for each in (low, high + MINUTES * (high <= low)))
        return self.aware(begin), self.aware(end)

    def parts_of(self, span: Span, begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The parts of a span between two moments, by time: its pieces, or its hours of each day."""
        parts: Iterable[tuple[datetime, datetime]] = span.pieces or ((begin, end),)
        if span.between:
            first = self.of(begin).date() - timedelta(days=1)
            days = (first + timedelta(days=n) for n in range((end - begin).days + 3))
            parts = (self.hours_of(day, span.between) for day in days)
        for since, until in parts:
            if max(since, begin) < min(until, end):
                yield max(since, begin), min(until, end)

    def parse(self, text: str, now: datetime) -> datetime:
        """A time: so long ago (``7d``, ``90m``), the begin of a day, or a local ISO 8601 time.

        Raises `SearchError` where it cannot be read as one.
        """
        wanted, today = text.strip().lower(), self.of(now).date()
        back = {name: (today.weekday() - n) % 7 for n, name in enumerate(DAY_NAMES)}
        back |= {"today": 0, "yesterday": 1}
        try:
            if re.match(DURATION_PATTERN, wanted):
                moment = now - timedelta(seconds=parse_duration(wanted))
            elif wanted in back:
                moment = self.midnight(today - timedelta(days=back[wanted]))
            else:
                moment = datetime.fromisoformat(text.strip())
                moment = self.aware(moment) if moment.tzinfo is None else moment
        except OverflowError:
            raise beyond_calendar(repr(text)) from None
        except ValueError:
            raise SearchError(
                f"{text!r} is not a time: write 7d (seven days ago), monday, 2026-05-01 or 2026-05-01T22:00"
            ) from None
        if moment.year not in _YEARS:
            raise beyond_calendar(repr(text))
        return moment


def parse_time_of_day(text: str) -> int:
    """Minutes since midnight of ``22:00``, ``6``, ``6am``, ``6:30 pm`` or ``noon``.

    Raises `SearchError` where it is no time of the day.
    """
    wanted = text.strip().lower()
    if wanted in _NAMED_TIMES:
        return _NAMED_TIMES[wanted]
    if match := _TIME_OF_DAY.fullmatch(wanted):
        hour, minute, half = int(match[1]), int(match[2] or 0), match[3]
        fits = hour <= 24 and minute < 60 and (half not in ("am", "pm") or 1 <= hour <= _NOON)  # noqa: PLR2004
        if half in ("am", "pm"):
            hour = hour % _NOON + (_NOON if half == "pm" else 0)
        if fits and hour * 60 + minute <= MINUTES:
            return hour * 60 + minute
    raise SearchError(f"{text!r} is not a time of day: write 22:00, 6, 6am or noon")


def parse_hours(text: str) -> tuple[int, int]:
    """Minutes since midnight of ``22:00-06:00``; raises `SearchError`."""
    begin, _, end = text.partition("-")
    return parse_time_of_day(begin), parse_time_of_day(end)


LISTS = ("camera", "zone", "object", "kind", "colour")
"""Options that may be given several times."""
EVERYTHING = Question()


def question_of(
    options: Mapping[str, Any], local: LocalTime, now: datetime, asked: Question = EVERYTHING
) -> Question:
    """The question of options by the names of `narrated query`; those absent, None or empty ask for nothing.

    Args:
        options: lists for `LISTS` and ``by``, a pair of times of day for ``between``.
        local: the time zone of times and days.
        now: the present.
        asked: in words, beside the options, which take precedence.

    Raises:
        SearchError: a time cannot be read, or two options do not go together.
    """
    given = {name: value for name, value in options.items() if value or type(value) in (int, float)}
    if "first" in given and "last" in given:
        raise SearchError("--first and --last: give one of them")
    by = tuple("colour" if name == "color" else name for name in given.get("by", ()))
    for name in by:
        if name not in GROUPINGS:
            raise SearchError(f"--by {name}: write one of {', '.join(GROUPINGS)}")
    filters: dict[str, Any] = {f"{name}s": tuple(given[name]) for name in LISTS if name in given}
    filters |= {name: given[name] for name in ("text", "confidence") if name in given}
    span: dict[str, Any] = {n: local.parse(given[n], now) for n in ("since", "until") if n in given}
    if "between" in given:
        begin, end = map(parse_time_of_day, given["between"])
        span["between"] = begin, end
    span |= {"pieces": ()} if span else {}
    measure: dict[str, Any] = {name: given[name] for name in ("limit", "count") if name in given}
    if order := next((name for name in ("first", "last") if name in given), None):
        measure["order"] = order
    if by:
        measure |= {"count": True, "by": by}
    timed = bool({*by} & {*TIME_GROUPINGS})
    return replace(
        asked,
        filters=replace(asked.filters, **filters),
        span=replace(asked.span, **span),
        measure=replace(asked.measure, **measure),
        presence=asked.presence and "kind" not in given and not timed,
    )
