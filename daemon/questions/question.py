"""A question as a value: which narrations (filters), of which time (span), and what of them (measure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Literal

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
