"""Visits by camera, kind and hour on local clocks, and which hours a camera recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import NamedTuple

from daemon.questions.local_time import microseconds, moment_of
from daemon.questions.question import Question, Span
from daemon.questions.words import ARRIVALS, GROUPS
from daemon.search.search import Search
from daemon.search.selection import sql_list

HISTORY = timedelta(days=28)
HOUR = timedelta(hours=1)

_MOST_LOST_S = 360
"""An hour of which more was not recorded is compared with no other."""
_LONGER_THAN_USUAL = 50
"""One of so many visits is longer than usual."""
_KIND_OF = {
    **dict.fromkeys(GROUPS["vehicle"], "vehicle"),
    **dict.fromkeys(("cyclist", "motorcyclist", "rider"), "rider"),
}


class Series(NamedTuple):
    """What is counted: one kind on one camera."""

    camera: str
    kind: str


class Stays(NamedTuple):
    """How many visits have ended, and the length that 98 of 100 do not exceed."""

    number: int
    usual_s: float


def kind_of(name: str) -> str:
    """An object's kind: vehicles are one, riders another, anything else is its own."""
    return _KIND_OF.get(name, name)


def objects_of_kind(kind: str) -> list[str]:
    """The objects that are of a kind."""
    return [name for name, group in _KIND_OF.items() if group == kind] or [kind]


class HourlyCounts:
    """Counts of visits in a span and in the four weeks before it.

    An hour is named by what local clocks show at its begin, a naive time; counts are those of
    `narrated query --by hour`.

    Args:
        search: the journals, caught up with.
        since, until: the span.

    Attributes:
        visits: by series, the number that arrived in each hour.
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
                self._lose(gap.camera, max(gap.begin, begin), min(gap.end, until))
        self._watched = {
            camera: (self.shown(each.first), self.shown(each.last))
            for camera, each in self._selection.watched().items()
        }

    def shown(self, moment: datetime) -> datetime:
        """What local clocks show at a moment."""
        return self._local.of(moment).replace(tzinfo=None, fold=0)

    def hour_of(self, moment: datetime) -> datetime:
        """The hour that a moment lies in."""
        return self.shown(moment).replace(minute=0, second=0, microsecond=0)

    def hours(self, since: datetime, until: datetime) -> list[datetime]:
        """The hours of a span, whole or begun."""
        steps = range(-((since - until) // HOUR) + 1)
        every = [self.hour_of(min(since + n * HOUR, until - timedelta(microseconds=1))) for n in steps]
        return list(dict.fromkeys(every))

    def recorded(self, camera: str, hour: datetime) -> bool:
        """True where a camera was watched for nearly all of an hour."""
        first, last = self._watched.get(camera, (datetime.max, datetime.min))  # noqa: DTZ901 - local times
        return first <= hour and hour + HOUR <= last and self._lost[camera][hour] <= _MOST_LOST_S

    def stays(self, since: datetime) -> dict[Series, Stays]:
        """By series, the visits of the four weeks before a moment that had ended by then."""
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
                found[Series(camera, kind)] = Stays(count, usual / 1_000_000)
        return found

    def _count(self, begin: datetime, until: datetime) -> None:
        """The visits, from an index alone."""
        sql = (
            "SELECT time / 900000000 AS quarter, count(DISTINCT coalesce(visit, -1000 * record - n)) "
            "+ total(CASE WHEN visit IS NULL THEN count - 1 ELSE 0 END) FROM sentences INDEXED BY arrivals "
            f"WHERE counted AND kind IN {sql_list(ARRIVALS)} AND camera = ? AND object = ? "
            "AND time / 900000000 BETWEEN ? AND ? GROUP BY 1"
        )
        first, last = (microseconds(each) // 900_000_000 for each in (begin, until))
        shown = {n: self.hour_of(moment_of(n * 900_000_000)) for n in range(first, last + 1)}
        for camera in self._selection.cameras():
            for kind, names in self._kinds.items():
                visits = self.visits[Series(camera, kind)]
                for name in names:
                    for quarter, count in self._selection.connection.execute(
                        sql, (camera, name, first, last)
                    ):
                        visits[shown[quarter]] += int(count)

    def _lose(self, camera: str, begin: datetime, end: datetime) -> None:
        """Count the seconds of a gap in each hour."""
        while begin < end:
            hour = self.hour_of(begin)
            until = min(end, begin + (hour + HOUR - self.shown(begin)))
            self._lost[camera][hour] += int((until - begin).total_seconds())
            begin = until
