"""What is asked: filters on the narrations, which of them, and whether they are only counted."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from daemon.questions.time_of_day import format_time_of_day

if TYPE_CHECKING:
    from daemon.questions.local_time import LocalTime

GROUPINGS = (
    *("hour", "day", "week", "month", "weekday", "hour-of-day"),
    *("camera", "object", "kind", "colour"),
)
"""By what can be counted."""


@dataclass(frozen=True, slots=True)
class Filters:
    """A narration is found if one of its sentences has everything that is asked for.

    Attributes:
        cameras: names; several of one attribute are alternatives.
        zones: places as sentences name them, with or without "at the".
        objects: words for objects, see `daemon.questions.words`.
        kinds: kinds of change, see there.
        colours: of the object.
        text: words that a sentence must hold; "in quotes" together, with a star at the end any ending.
        confidence: at least, 0..1.
        since, until: aware times; from the one on, before the other.
        between: minutes of the local day, from the first on, before the second; over midnight if it is less.
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


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        filters: which narrations.
        order: the last or the first ones alone, or all.
        limit: how many at most; None is one of the last or first, else as many as the output shows.
        count: they are only counted.
        by: of `GROUPINGS`, by what they are counted.
    """

    filters: Filters = field(default_factory=Filters)
    order: Literal["all", "first", "last"] = "all"
    limit: int | None = None
    count: bool = False
    by: tuple[str, ...] = ()


def merged(given: Question, asked: Question) -> Question:
    """A question in words with options beside it, which count more."""
    options = {each.name: getattr(given.filters, each.name) for each in fields(Filters)}
    said = {name: value for name, value in options.items() if value not in ((), "", None)}
    both = replace(asked.filters, **said)
    order = given.order if given.order != "all" else asked.order
    limit = asked.limit if given.limit is None else given.limit
    return Question(both, order, limit, given.count or asked.count, given.by or asked.by)


def options_of(question: Question, local: LocalTime) -> str:
    """The question as options of the command, which ask the same."""
    words = _filter_options(question.filters, local)
    if question.order != "all":
        words.append(f"--{question.order}")
    if question.limit is not None:
        words += ["--limit", str(question.limit)]
    if question.count:
        words.append("--count")
    for grouping in question.by:
        words += ["--by", grouping]
    return shlex.join(words)


def _filter_options(filters: Filters, local: LocalTime) -> list[str]:
    words = list[str]()
    for option, values in (
        ("camera", filters.cameras),
        ("zone", filters.zones),
        ("object", filters.objects),
        ("kind", filters.kinds),
        ("colour", filters.colours),
        ("text", (filters.text,) if filters.text else ()),
    ):
        for value in values:
            words += [f"--{option}", value]
    if filters.confidence is not None:
        words += ["--confidence", f"{filters.confidence:g}"]
    for option, moment in (("since", filters.since), ("until", filters.until)):
        if moment:
            words += [f"--{option}", f"{local.of(moment):%Y-%m-%dT%H:%M:%S}".removesuffix(":00")]
    if filters.between:
        words += ["--between", *(format_time_of_day(minutes) for minutes in filters.between)]
    return words
