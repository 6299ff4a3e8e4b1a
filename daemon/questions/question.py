"""What is asked: filters on the narrations, which of them, and how the answer is made of them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Literal

GROUPINGS = (
    *("hour", "day", "week", "month", "weekday", "hour-of-day"),
    *("camera", "object", "kind", "colour"),
)
TIME_GROUPINGS = GROUPINGS[:6]


@dataclass(frozen=True, slots=True)
class Filters:
    """A narration is found if one of its sentences has everything that is asked for.

    Attributes:
        cameras: names; several of one attribute are alternatives.
        zones: places as sentences name them, with or without "at the".
        objects: words for objects, see `daemon.questions.words`.
        kinds: kinds of change or actions, see there.
        colours: of the object.
        text: words that a sentence must hold; "in quotes" together, with a star at the end any ending.
        confidence: at least, 0..1.
        since, until: aware times; from the one on, before the other.
        between: minutes of the local day, from the first on, before the second; over midnight if it is less.
        longer_s, shorter_s: bounds of the visit's duration, in seconds.
        held: False leaves out what a limit held back from messages.
    """

    cameras: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()
    text: str = ""
    confidence: float | None = None
    since: datetime | None = None
    until: datetime | None = None
    between: tuple[int, int] | None = None
    longer_s: float | None = None
    shorter_s: float | None = None
    held: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        filters: which narrations.
        order: the last or the first ones alone, the longest visit, or all.
        limit: how many at most; None is one of the last or first, else as many as the output shows.
        count: visits are counted.
        by: of `GROUPINGS`, by what they are counted.
        most: only the group with the most.
        open: only visits that have not ended.
        durations: how long the visits were.
        presence: visits of things are meant, also of those that began before the span; not each narration.
        asked_at: what "now" is; None is the time of the answer.
    """

    filters: Filters = field(default_factory=Filters)
    order: Literal["all", "first", "last", "longest"] = "all"
    limit: int | None = None
    count: bool = False
    by: tuple[str, ...] = ()
    most: bool = False
    open: bool = False
    durations: bool = False
    presence: bool = False
    asked_at: datetime | None = None

    @property
    def of_visits(self) -> bool:
        """The answer consists of visits, which only tracks can tell."""
        return (
            self.open
            or self.durations
            or self.order == "longest"
            or self.filters.longer_s is not None
            or self.filters.shorter_s is not None
        )


def merged(given: Question, asked: Question) -> Question:
    """A question in words with options beside it, which take precedence."""
    options = {each.name: getattr(given.filters, each.name) for each in fields(Filters)}
    said = {name: value for name, value in options.items() if value not in ((), "", None)}
    return replace(
        asked,
        filters=replace(asked.filters, **said),
        order=given.order if given.order != "all" else asked.order,
        limit=asked.limit if given.limit is None else given.limit,
        count=given.count or asked.count,
        by=given.by or asked.by,
        presence=asked.presence and not given.filters.kinds and not {*given.by} & {*TIME_GROUPINGS},
    )
