"""Visits by camera, kind and hour, and hours in which far more or fewer came than in four weeks before."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import reduce
from itertools import groupby
from typing import NamedTuple

from daemon.questions.facts import ARRIVALS
from daemon.questions.question import Question, Span, microseconds, moment_of
from daemon.questions.words import GROUPS
from daemon.search.search import Search
from daemon.search.selection import sql_list
from models.language.catalogue import N_, _, tell

HISTORY = timedelta(days=28)
HOUR = timedelta(hours=1)

_MOST_LOST_S = 360  # an hour of which more was not recorded is compared with no other
_LONGER_THAN_USUAL = 50  # one of so many visits is longer than usual
_KIND_OF = {
    **dict.fromkeys(GROUPS["vehicle"], "vehicle"),
    **dict.fromkeys(("cyclist", "motorcyclist", "rider"), "rider"),
}
_LEAST_DAYS = 7  # of which an hour must be recorded before anything is called usual
LEAST_LIKE_DAYS = 4  # of these, weekdays or weekend days: days are compared with their like
_CHANCE = 1e-4  # of a count as far from the nearer end of the usual range, if visits are independent
# Hours are quiet that usually had no visits, nor had the hour before and after, though as many hours of the
# whole day have five at least.
_LEAST_EXPECTED = 5
_LEAST_NEVER_DAYS = 12  # where a kind was never seen in so many days, its first visit is unusual
_SATURDAY = 5


class Series(NamedTuple):  # what is counted
    camera: str
    kind: str


def kind_of(name: str) -> str:
    """An object's kind: vehicles are one, riders another, anything else is its own."""
    return _KIND_OF.get(name, name)


def objects_of_kind(kind: str) -> list[str]:
    return [name for name, group in _KIND_OF.items() if group == kind] or [kind]


class HourlyCounts:
    """Counts of visits in a span and in the four weeks before it.

    An hour is named by what local clocks show at its begin, a naive time; counts are those of
    `narrated query --by hour`. `visits` has, by series, the number that arrived in each hour.
    """

    def __init__(self, search: Search, since: datetime, until: datetime) -> None:
        self._selection, self._local, begin = search.selection, search.local, since - HISTORY
        self._lost: defaultdict[str, Counter[datetime]] = defaultdict(Counter)
        self.visits: defaultdict[Series, Counter[datetime]] = defaultdict(Counter)
        self._kinds = defaultdict[str, list[str]](list)
        for name in sorted(self._selection.objects() - {"scene"}):
            self._kinds[kind_of(name)].append(name)
        self._count(begin, until)
        for gap in self._selection.gaps(Question(span=Span(begin, until), asked_at=until)):
            if gap.reason != "mask":
                self._exclude(gap.camera, max(gap.begin, begin), min(gap.end, until))
        self._watched = {
            camera: (self.shown(each.first), self.shown(each.last))
            for camera, each in self._selection.watched().items()
        }

    def shown(self, moment: datetime) -> datetime:
        return self._local.of(moment).replace(tzinfo=None, fold=0)

    def hour_of(self, moment: datetime) -> datetime:
        return self.shown(moment).replace(minute=0, second=0, microsecond=0)

    def hours(self, since: datetime, until: datetime) -> list[datetime]:
        """The hours of a span, whole or begun."""
        return [self.hour_of(begin) for _, begin, _ in self._selection.periods("hour", Span(), since, until)]

    def recorded(self, camera: str, hour: datetime) -> bool:
        """True where a camera was watched for nearly all of an hour."""
        first, last = self._watched.get(camera, (datetime.max, datetime.min))  # noqa: DTZ901 - local times
        return first <= hour and hour + HOUR <= last and self._lost[camera][hour] <= _MOST_LOST_S

    def stays(self, since: datetime) -> dict[Series, tuple[int, float]]:
        """By series, the visits of four weeks that had ended by a moment, and their length (s) at 98 %."""
        execute, found = self._selection.connection.execute, {}
        begin, end = microseconds(since - HISTORY), microseconds(since)
        for camera in self._selection.cameras():
            for kind, names in self._kinds.items():
                ended = (
                    "FROM visits INDEXED BY visits_of_object WHERE camera = ? AND begin >= ? AND begin < ? "
                    f"AND end <= ? AND object IN {sql_list(names)}"
                )
                (count,) = execute(f"SELECT count(*) {ended}", (camera, begin, end, end)).fetchone()
                rank = count // _LONGER_THAN_USUAL
                sql = f"SELECT end - begin {ended} ORDER BY 1 DESC LIMIT 1 OFFSET {rank}"
                (usual,) = execute(sql, (camera, begin, end, end)).fetchone() or (0,)
                found[Series(camera, kind)] = count, usual / 1_000_000
        return found

    def _count(self, begin: datetime, until: datetime) -> None:
        """The visits, from an index alone."""
        sql = (
            "SELECT time / 900000000 AS quarter, count(DISTINCT coalesce(visit, -1000 * record - n)) "
            "+ total(CASE WHEN visit IS NULL THEN count - 1 ELSE 0 END) FROM sentences INDEXED BY arrivals "
            f"WHERE counted AND kind IN {sql_list(ARRIVALS)} AND camera = ? AND object = ? "
            "AND time / 900000000 BETWEEN ? AND ? GROUP BY 1"
        )
        execute = self._selection.connection.execute
        first, last = (microseconds(each) // 900_000_000 for each in (begin, until))
        shown = {n: self.hour_of(moment_of(n * 900_000_000)) for n in range(first, last + 1)}
        for camera in self._selection.cameras():
            for kind, names in self._kinds.items():
                visits = self.visits[Series(camera, kind)]
                for name in names:
                    for quarter, count in execute(sql, (camera, name, first, last)):
                        visits[shown[quarter]] += int(count)

    def _exclude(self, camera: str, begin: datetime, end: datetime) -> None:
        """Count the seconds of a gap in each hour."""
        while begin < end:
            hour = self.hour_of(begin)
            until = min(end, begin + (hour + HOUR - self.shown(begin)))
            self._lost[camera][hour] += int((until - begin).total_seconds())
            begin = until


@dataclass(frozen=True, slots=True)
class Unusual:
    """Hours one after another with unusually many, or unusually few."""

    series: Series
    hours: tuple[datetime, ...]  # see `HourlyCounts`
    count: int
    more: bool  # False where fewer came than usual
    usual: Mapping[date, int]  # how many came in these hours on each of the other days
    days: str  # the word for these other days, such as weekdays
    surprise: float  # 4 for a chance of 1 in 10,000


def find_unusual(counts: HourlyCounts, hours: Sequence[datetime]) -> Iterator[Unusual]:
    """Compare hours, which must be over, with the same hours of the days before; in no order."""
    for series in sorted(counts.visits):
        visits = counts.visits[series].items()
        before = sum(n for at, n in visits if hours and hours[0] - HISTORY <= at < hours[0])
        judged = [_judge(counts, series, hour, before) for hour in hours]
        for more, run in groupby(judged, lambda each: each and each.more):
            if more is not None:
                yield reduce(_join, filter(None, run))


def like_days(every: Mapping[date, int], day: date) -> tuple[dict[date, int], str]:
    """Those of the days that are weekdays, or weekend days, as `day` is, and what they are called."""
    weekend = day.weekday() >= _SATURDAY
    like = {each: n for each, n in every.items() if (each.weekday() >= _SATURDAY) == weekend}
    return like, N_("weekend days") if weekend else N_("weekdays")


def usual_words(usual: Iterable[int]) -> str:
    """Such as "none", "3" or "18 to 25", see `usual_range`."""
    low, high = usual_range(usual)
    if low == high:
        return f"{low:,}" if high else _("none")
    return tell("{low} to {high}", low=f"{low:,}", high=f"{high:,}")


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
    like, word = like_days(every, hour)
    usual = like
    more = fewer = False
    at_least = at_most = 1.0
    if len(like) >= LEAST_LIKE_DAYS:
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
        quiet = expected >= _LEAST_EXPECTED and not usual_range(map(any, near))[1]
        if quiet or (not before and len(recorded) >= _LEAST_NEVER_DAYS):
            more, at_least = True, chances(count, hours)[0]
            usual, word = every, N_("days")
    if not (more or fewer):
        return None
    surprise = -math.log10(at_least if more else max(1e-16, at_most))
    return Unusual(series, (hour,), count, more, usual, word, surprise)


def _join(run: Unusual, next_: Unusual) -> Unusual:
    return replace(
        run,
        hours=(*run.hours, *next_.hours),
        count=run.count + next_.count,
        usual={day: n + next_.usual[day] for day, n in run.usual.items() if day in next_.usual},
        days=run.days if run.days == next_.days else "days",
        surprise=max(run.surprise, next_.surprise),
    )
