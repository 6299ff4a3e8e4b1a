"""A week at a glance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from daemon.digest.digest import DigestSentence, write_digest
from daemon.questions.question import Measure, Question, Span
from daemon.search.search import Search
from pipeline.report.words import many

_DAYS = 7
_NOTABLE = ("rule", "obstructed", "view_changed", "unusual", "stay", "gap")
_NOTABLE_SHOWN = 3


@dataclass(frozen=True, slots=True)
class GlanceDay:
    """A day of the week.

    Attributes:
        whole: all of it in a sentence.
        bars: by hour from midnight on: words, visits, narrations where there are any, address.
        cameras: visits, most first.
    """

    day: date
    whole: str
    bars: list[tuple[str, int, int, str]]
    cameras: dict[str, int]
    notable: list[DigestSentence]


def week(search: Search, now: datetime) -> list[GlanceDay]:
    """The last seven days, today first."""
    today = search.local.of(now).date()
    return [_glance(search, today - timedelta(days=n), now) for n in range(_DAYS)]


def _glance(search: Search, day: date, now: datetime) -> GlanceDay:
    span = Span(search.local.midnight(day), search.local.midnight(day + timedelta(days=1)))
    counted = search.selection.count(
        Question(span=span, measure=Measure(count=True, by=("hour-of-day", "camera")))
    )
    hours, cameras = Counter[int](), Counter[str]()
    for (clock, camera), visits, _ in counted:
        hours[int(clock[:2])] += visits
        cameras[camera] += visits
    bars = [
        (f"{n}:00: {many(hours[n], 'visit')}", hours[n], hours[n], f"day={day}&between={n}:00-{n + 1}:00")
        for n in range(24)
    ]
    sentences = write_digest(search, span, now).sentences
    whole = next(each.text for each in sentences if each.about == "span")
    notable = [each for each in sentences if each.about in _NOTABLE][:_NOTABLE_SHOWN]
    return GlanceDay(day, whole, bars, dict(cameras.most_common()), notable)
