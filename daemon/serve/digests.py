"""Digests on the page: today's, that of any span, and a week at a glance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from daemon.digest.digest import Digest, DigestSentence, write_digest
from daemon.questions.question import Measure, Question, Span
from daemon.questions.times import read_span
from daemon.search.search import Search
from pipeline.report.words import many

_DAYS = 7
_NOTABLE = ("rule", "obstructed", "view_changed", "unusual", "stay", "gap")
_NOTABLE_SHOWN = 3


@dataclass(frozen=True, slots=True)
class GlanceDay:
    """A day of the week: `whole` says all in a sentence, `hours` are visits by hour from midnight on."""

    day: date
    visits: int
    whole: str
    hours: tuple[int, ...]
    cameras: dict[str, int]
    notable: tuple[DigestSentence, ...]

    @property
    def hour_bars(self) -> list[tuple[str, int, int, str]]:
        """Words, visits, narrations where there are any, and the address of each hour."""
        return [
            (f"{n}:00: {many(count, 'visit')}", count, count, f"day={self.day}&between={n}:00-{n + 1}:00")
            for n, count in enumerate(self.hours)
        ]


def digest_of(search: Search, words: str, now: datetime) -> Digest:
    """The digest of a span in words.

    Raises:
        SearchError: it is none.
    """
    return write_digest(search, read_span(words, now, search.local), now)


def week(search: Search, now: datetime) -> list[GlanceDay]:
    """The last seven days, today first."""
    local, today, found = search.local, search.local.of(now).date(), []
    by_hour = Measure(count=True, by=("hour-of-day", "camera"))
    for day in (today - timedelta(days=n) for n in range(_DAYS)):
        span = Span(local.midnight(day), local.midnight(day + timedelta(days=1)))
        hours, cameras = [0] * 24, Counter[str]()
        for (clock, camera), visits, _ in search.selection.count(Question(span=span, measure=by_hour)):
            hours[int(clock[:2])] += visits
            cameras[camera] += visits
        sentences = write_digest(search, span, now).sentences
        whole = next(each.text for each in sentences if each.about == "span")
        notable = [each for each in sentences if each.about in _NOTABLE]
        shown = dict(cameras.most_common())
        found.append(GlanceDay(day, sum(hours), whole, tuple(hours), shown, tuple(notable[:_NOTABLE_SHOWN])))
    return found
