"""Visits by camera, kind and hour on the clock, and which hours a camera recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date, datetime, timedelta
from typing import NamedTuple

from daemon.questions.local_time import microseconds, moment_of
from daemon.questions.question import Question, Span
from daemon.questions.words import ARRIVALS, GROUPS
from daemon.search.search import Search
from daemon.search.selection import sql_list

HISTORY = timedelta(days=28)
HOUR_S = 3600

_QUARTER_S = 900  # every time zone is ahead of UTC by whole quarters of an hour
_MOST_LOST_S = 360.0
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

    An hour is named by its begin on local clocks, in seconds since 1970; counts are those of
    `narrated query --by hour`.

    Args:
        search: the journals, caught up with.
        since, until: the span.

    Attributes:
        visits: by series, the number that arrived in each hour.
        stays: by series, the visits that had ended before the span.
    """

    def __init__(self, search: Search, since: datetime, until: datetime) -> None:
        self._selection, self._local = search.selection, search.local
        self._hours = dict[int, int]()
        self._at = dict[tuple[date, int], int]()
        self._lost: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.visits: defaultdict[Series, Counter[int]] = defaultdict(Counter)
        self.stays = dict[Series, Stays]()
        begin = since - HISTORY
        self._read(begin, since, until)
        for gap in search.selection.gaps(Question(span=Span(begin, until), asked_at=until)):
            if gap.reason != "mask":
                self._lose(gap.camera, max(gap.begin, begin), min(gap.end, until))
        self._watched = {
            camera: (each.first.timestamp(), each.last.timestamp())
            for camera, each in search.selection.watched().items()
        }

    def hour_of(self, second: float) -> int:
        """The hour on local clocks that a time in seconds since 1970 lies in."""
        quarter = int(second) // _QUARTER_S * _QUARTER_S
        if quarter not in self._hours:
            shown = self._local.of(moment_of(quarter * 1_000_000))
            self._hours[quarter] = quarter - 60 * shown.minute - shown.second
        return self._hours[quarter]

    def day_and_hour(self, hour: int) -> tuple[date, int]:
        """The local date and hour that clocks show."""
        shown = self._local.of(moment_of(hour * 1_000_000))
        return shown.date(), shown.hour

    def at(self, day: date, hour: int) -> int:
        """The hour at which clocks show this."""
        if (day, hour) not in self._at:
            shown = datetime(day.year, day.month, day.day, hour)  # noqa: DTZ001 - a local time
            self._at[day, hour] = int(self._local.aware(shown).timestamp())
        return self._at[day, hour]

    def recorded(self, camera: str, hour: int) -> bool:
        """True where a camera was watched for nearly all of an hour."""
        first, last = self._watched.get(camera, (0.0, 0.0))
        return first <= hour and hour + HOUR_S <= last and self._lost[camera][hour] <= _MOST_LOST_S

    def _read(self, begin: datetime, since: datetime, until: datetime) -> None:
        """Counts and stays, each from an index alone."""
        counted = (
            "SELECT time / 900000000, count(DISTINCT coalesce(visit, -1000 * record - n)) "
            "+ total(CASE WHEN visit IS NULL THEN count - 1 ELSE 0 END) FROM sentences INDEXED BY arrivals "
            f"WHERE counted AND kind IN {sql_list(ARRIVALS)} AND camera = ? AND object = ? "
            "AND time / 900000000 >= ? AND time / 900000000 <= ? GROUP BY 1"
        )
        first, last = (microseconds(each) // (_QUARTER_S * 1_000_000) for each in (begin, until))
        selection, kinds = self._selection, defaultdict[str, list[str]](list)
        for name in sorted(selection.objects() - {"scene"}):
            kinds[kind_of(name)].append(name)
        for camera in selection.cameras():
            for kind, names in kinds.items():
                series = Series(camera, kind)
                for name in names:
                    for n, count in selection.connection.execute(counted, (camera, name, first, last)):
                        self.visits[series][self.hour_of(n * _QUARTER_S)] += int(count)
                self.stays[series] = self._read_stays(series, names, begin, since)

    def _read_stays(self, series: Series, names: list[str], begin: datetime, since: datetime) -> Stays:
        execute = self._selection.connection.execute
        ended = (
            f"FROM visits INDEXED BY visits_of_object WHERE camera = ? AND object IN {sql_list(names)} "
            "AND begin >= ? AND begin < ? AND end <= ?"
        )
        values = series.camera, microseconds(begin), *(microseconds(since),) * 2
        (count,) = execute(f"SELECT count(*) {ended}", values).fetchone()
        sql = f"SELECT end - begin {ended} ORDER BY 1 DESC LIMIT 1 OFFSET {count // _LONGER_THAN_USUAL}"
        (usual,) = execute(sql, values).fetchone() or (0,)
        return Stays(count, usual / 1_000_000)

    def _lose(self, camera: str, begin: datetime, end: datetime) -> None:
        second, last = begin.timestamp(), end.timestamp()
        while second < last:
            hour = self.hour_of(second)
            part = min(last, hour + HOUR_S)
            self._lost[camera][hour] += int(part - second)
            second = part
