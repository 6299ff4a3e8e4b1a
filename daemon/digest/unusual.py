"""Hours in which far more or far fewer came than at that hour of the four weeks before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from daemon.digest.counts import HISTORY, HOUR, HourlyCounts, Series

_LEAST_DAYS = 7
"""Days of which an hour must be recorded before anything is called usual."""
_LEAST_LIKE_DAYS = 4
"""Of these, weekdays or days of weekends: days are compared with their like."""
_CHANCE = 1e-4
"""Of a count as far from the nearer end of the usual range, if they come independently of each other."""
_QUIET_DAYS, _LEAST_EXPECTED = 6, 5
"""Hours are quiet, with the hour before and after, that had visits on less than one of so many days, though
as many hours of the whole day have five at least."""
_LEAST_NEVER_DAYS = 12
"""Where a kind was never seen in so many days, its first visit is unusual."""
_SATURDAY = 5


@dataclass(frozen=True, slots=True)
class Unusual:
    """Hours one after another with unusually many, or unusually few.

    Attributes:
        hours: see `HourlyCounts`.
        more: False where fewer came than usual.
        usual: how many came in these hours on each of the other days.
        days: the word for these other days, such as weekdays.
        surprise: 4 for a chance of 1 in 10,000.
    """

    series: Series
    hours: tuple[datetime, ...]
    count: int
    more: bool
    usual: Mapping[date, int]
    days: str
    surprise: float


def find_unusual(counts: HourlyCounts, hours: Sequence[datetime]) -> list[Unusual]:
    """Compare hours, which must be over, with the same hours of the days before; in no order."""
    found = list[Unusual]()
    for series in sorted(counts.visits):
        run: Unusual | None = None
        before = sum(
            n for at, n in counts.visits[series].items() if hours and hours[0] - HISTORY <= at < hours[0]
        )
        for hour in hours:
            judged = _judge(counts, series, hour, before)
            if run and judged and judged.more == run.more:
                run = _join(run, judged)
            else:
                found += [run] if run else []
                run = judged
        found += [run] if run else []
    return found


def usual_words(usual: Iterable[int]) -> str:
    """Such as "none", "3" or "18 to 25", see `usual_range`."""
    low, high = usual_range(usual)
    return "none" if not high else f"{low:,}" if low == high else f"{low:,} to {high:,}"


def usual_range(usual: Iterable[int]) -> tuple[int, int]:
    """The least and the most, without the fifth at each end: earlier surprises make nothing usual."""
    ordered = sorted(usual)
    return ordered[len(ordered) // 5], ordered[-1 - len(ordered) // 5]


def chances(count: int, usual: Sequence[int]) -> tuple[float, float]:
    """How likely a day has at least, and at most, so many, where others had those that are `usual`.

    Counts are taken as Poisson of one unknown rate with Jeffreys' prior: the next is negative binomial.
    """
    shape, odds = sum(usual) + 0.5, 1 / (len(usual) + 1)
    term, below = (1 - odds) ** shape, 0.0
    if not term:  # hundreds an hour: beside the margins of `_judge` chance is nothing
        return 1e-16, 1e-16
    for n in range(count):
        below += term
        term *= (shape + n) / (n + 1) * odds
    return max(1e-16, 1 - below), below + term


def _judge(counts: HourlyCounts, series: Series, hour: datetime, before: int) -> Unusual | None:
    """Judge an hour; `before` is how many came in the four weeks before the span."""
    visits = counts.visits[series]
    count = visits[hour]
    same = (hour - timedelta(days=n) for n in range(1, HISTORY.days + 1))
    recorded = [each for each in same if counts.recorded(series.camera, each)]
    if len(recorded) < _LEAST_DAYS:
        return None
    every = {each.date(): visits[each] for each in recorded}
    weekend = hour.weekday() >= _SATURDAY
    like = {each: n for each, n in every.items() if (each.weekday() >= _SATURDAY) == weekend}
    usual, word = like, "days of weekends" if weekend else "weekdays"
    more = fewer = False
    at_least = at_most = 1.0
    if len(like) >= _LEAST_LIKE_DAYS:
        low, high = usual_range(like.values())
        at_least, at_most = chances(count, [high] * len(like))[0], chances(count, [low] * len(like))[1]
        more = count >= 1.5 * high + 2 and at_least < _CHANCE
        fewer = 3 * count < low and at_most < _CHANCE and counts.recorded(series.camera, hour)
    if count and not more:
        near = [
            [visits[n] for n in (at - HOUR, at, at + HOUR) if counts.recorded(series.camera, n)]
            for at in recorded
        ]
        hours = [n for each in near for n in each]
        expected = before / (24 * len(recorded)) * len(hours)
        quiet = expected >= _LEAST_EXPECTED and sum(map(any, near)) * _QUIET_DAYS < len(near)
        if quiet or (not before and len(recorded) >= _LEAST_NEVER_DAYS):
            more, at_least = True, chances(count, hours)[0]
            usual, word = every, "days"
    if not (more or fewer):
        return None
    surprise = -math.log10(at_least if more else max(1e-16, at_most))
    return Unusual(series, (hour,), count, more, usual, word, surprise)


def _join(run: Unusual, next_: Unusual) -> Unusual:
    """The run and one hour more."""
    return replace(
        run,
        hours=(*run.hours, *next_.hours),
        count=run.count + next_.count,
        usual={day: n + next_.usual[day] for day, n in run.usual.items() if day in next_.usual},
        days=run.days if run.days == next_.days else "days",
        surprise=max(run.surprise, next_.surprise),
    )
