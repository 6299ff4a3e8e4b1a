"""Times as people write and read them: of their own time zone, of today, of so long ago."""

from __future__ import annotations

import re
import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from daemon.config.durations import DURATION_PATTERN, parse_duration
from daemon.questions.errors import SearchError

DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
Number = TypeVar("Number", bound=np.generic)

QUARTER_S = 900
"""Seconds within which no time zone changes its offset."""
DAY_S = 86_400

_TABLE = 8_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTERS = 96  # of a day
_WEEKS = re.compile(r"(\d+(?:\.\d+)?)w")


def microseconds(moment: datetime) -> int:
    """Since 1970 of an aware time."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A time zone.

    Attributes:
        zone: None is this machine's.
    """

    zone: tzinfo | None = None

    @classmethod
    def named(cls, name: str | None) -> LocalTime:
        """Of a name such as ``Europe/London`` or ``UTC``; None is this machine's.

        Raises:
            SearchError: there is no such time zone.
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
        """The moment at which clocks here show this."""
        shown = wall.astimezone() if self.zone is None else wall.replace(tzinfo=self.zone)
        return shown.astimezone(UTC)  # two times of one zone are compared by what clocks showed

    def midnight(self, day: date) -> datetime:
        """At which a day begins here."""
        return self.aware(datetime.combine(day, time()))

    def offsets(self, quarters: NDArray[np.int64]) -> NDArray[np.int64]:
        """Seconds by which clocks here are ahead of UTC.

        Args:
            quarters: quarters of an hour since 1970, of any shape.
        """
        if not quarters.size:
            return np.zeros(quarters.shape, np.int64)
        low = int(quarters.min()) // _QUARTERS
        days = np.zeros(int(quarters.max()) // _QUARTERS - low + 1, bool)
        days[quarters // _QUARTERS - low] = True
        found = np.zeros((len(days), _QUARTERS), np.int64)
        for day in np.flatnonzero(days):
            first = (int(day) + low) * _QUARTERS
            begin, end = self._offset(first), self._offset(first + _QUARTERS)
            found[day] = begin
            if begin != end:
                found[day] = [self._offset(first + n) for n in range(_QUARTERS)]
        return found.reshape(-1)[quarters - low * _QUARTERS]

    def by_quarter(
        self, quarters: NDArray[np.int32], value: Callable[[NDArray[np.int64]], NDArray[Number]]
    ) -> NDArray[Number]:
        """A value that depends on the quarter of an hour alone, worked out once for each that there is.

        Args:
            quarters: since 1970, shape ``(n,)``.
            value: of what clocks here show at the beginning of quarters, in seconds since their 1970.

        Returns:
            One per quarter given, shape ``(n,)``.
        """
        if not quarters.size:
            return value(np.zeros(0, np.int64))
        low, high = int(quarters.min()), int(quarters.max())
        if high - low > _TABLE:  # footage of 1970 beside that of today
            apart, place = np.unique(quarters, return_inverse=True)
            wide = apart.astype(np.int64)
            return value(wide * QUARTER_S + self.offsets(wide))[place]
        present = np.zeros(high - low + 1, bool)
        present[quarters - low] = True
        known = np.flatnonzero(present) + low
        values = value(known * QUARTER_S + self.offsets(known))
        table = np.zeros(high - low + 1, values.dtype)
        table[known - low] = values
        return table[quarters - low]

    def parse(self, text: str, now: datetime) -> datetime:
        """A moment: so long ago (``7d``, ``2w``, ``90m``), a day, or a time; local where no zone is said.

        A day is the moment at which it begins.

        Raises:
            SearchError: it cannot be read as one.
        """
        try:
            return self._parsed(text, now)
        except OverflowError:
            raise SearchError(
                f"{text!r} is beyond the calendar: write a time of the years 1 to 9999"
            ) from None

    def _parsed(self, text: str, now: datetime) -> datetime:
        wanted = text.strip().lower()
        if weeks := _WEEKS.fullmatch(wanted):
            return now - timedelta(weeks=float(weeks[1]))
        if re.match(DURATION_PATTERN, wanted):
            return now - timedelta(seconds=parse_duration(wanted))
        try:
            return self.midnight(self.day(wanted, now))
        except SearchError:
            pass
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            raise SearchError(
                f"{text!r} is not a time: write 7d (seven days ago), monday, 2026-05-01 or 2026-05-01T22:00"
            ) from None
        return self.aware(moment) if moment.tzinfo is None else moment

    def day(self, text: str, now: datetime) -> date:
        """A day: ``today``, ``yesterday``, the last ``monday`` that has begun, or ``2026-05-01``.

        Raises:
            SearchError: it cannot be read as one.
        """
        today, wanted = self.of(now).date(), text.strip().lower()
        if wanted in ("today", "yesterday"):
            return today - timedelta(days=wanted == "yesterday")
        if wanted in DAY_NAMES:
            return today - timedelta(days=(today.weekday() - DAY_NAMES.index(wanted)) % 7)
        try:
            return date.fromisoformat(wanted)
        except ValueError:
            raise SearchError(f"{text!r} is not a day: write yesterday, monday or 2026-05-01") from None

    def _offset(self, quarter: int) -> int:
        if self.zone is None:
            return clock.localtime(quarter * QUARTER_S).tm_gmtoff
        moment = _EPOCH + timedelta(seconds=quarter * QUARTER_S)
        offset = moment.astimezone(self.zone).utcoffset()
        return int(offset.total_seconds()) if offset else 0
