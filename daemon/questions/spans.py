"""Spans of time in words: last night, after 10 pm yesterday, from 9 to 5, in the last 7 days, 22.11.2026 at 18:19.

A day of the week, a date without a year and a clock without a day are the last that have begun. A bare hour that may be
of the morning or of the evening is an error, never a guess; "9 to 5" is read as working hours are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from daemon.questions.errors import SearchError
from daemon.questions.local_time import DAY_NAMES, LocalTime, beyond_calendar, parse_time_of_day
from daemon.questions.reading import Reading

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
PARTS = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 22), "night": (22, 6)}
"""Hours of the parts of a day; a night ends on the next one."""
AROUND = timedelta(minutes=15)
"""On both sides of "around 6 pm", and of an hour without minutes."""

_MONTH_NUMBERS = {
    **{name: n for n, name in enumerate(MONTHS, 1)},
    **{name[:3]: n for n, name in enumerate(MONTHS, 1)},
    "sept": 9,
}
_DAYS = {name: n for n, name in enumerate(DAY_NAMES)} | {name[:3]: n for n, name in enumerate(DAY_NAMES)}
_UNITS = {"second": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_CALENDAR_UNITS = {"month": 30 * 86400, "year": 365 * 86400}
_HALF_DAY = 12 * 60
_DAY = 24 * 60
_MORNING = 6
_FIRST_DATE = 12


@dataclass(frozen=True, slots=True)
class Days:
    """Some days, or one part of a day, from the one local time on, before the other."""

    begin: datetime
    end: datetime
    words: str

    @property
    def one(self) -> bool:
        """A day or a night, within which a clock shows a time once."""
        return self.end - self.begin <= timedelta(hours=25)


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day.

    Attributes:
        minutes: since midnight.
        bare: an hour of 1 to 12 that may be of the morning or of the evening.
        exact: said with minutes.
    """

    minutes: int
    bare: bool
    exact: bool
    words: str


@dataclass(slots=True)
class Span:
    """What a question says of time, while it is read.

    Attributes:
        days: the days that are meant.
        since, until: moments that were said as such.
        low, high: clocks of "after" and "before", or of "from" and "to".
        at: a clock, with `near` not to the minute.
        every: hours are of every day.
    """

    reading: Reading
    now: datetime
    local: LocalTime
    days: Days | None = None
    since: datetime | None = None
    until: datetime | None = None
    low: Clock | None = None
    high: Clock | None = None
    at: Clock | None = None
    near: bool = False
    open_end: bool = False
    every: bool = False
    said: list[str] = field(default_factory=list)

    def take(self) -> bool:
        """Read one more part about time; False where none comes next.

        Raises:
            SearchError: it is no time, or says something twice.
        """
        begin = self.reading.place
        for part in (self._recent, self._ago, self._bounded, self._generic, self._day_or_clock):
            if part():
                self.said.append(self.reading.said(begin))
                return True
            self.reading.place = begin
        return False

    # Parts

    def _recent(self) -> bool:
        read = self.reading
        read.take_one_of(("in", "within", "during", "over", "for"))
        the = bool(read.take("the"))
        which = read.take("last", "past", "previous")
        if not which or (which == "last" and not the and read.next in ("week", "month", "year")):
            return False
        length = take_duration(read, calendar=True)
        if length is None:
            return False
        self._set(since=self._back(length))
        return True

    def _ago(self) -> bool:
        read = self.reading
        begin = read.place
        length = take_duration(read)
        if length is None or not read.take("ago"):
            return False
        moment = self._back(length)
        if length < timedelta(days=1):
            self._set(since=moment - AROUND, until=moment + AROUND)
        else:
            day = self.local.of(moment).date()
            self._set(days=self._of_dates(day, day, read.said(begin)))
        return True

    def _bounded(self) -> bool:
        read = self.reading
        if word := read.take("since", "after", "later than"):
            return self._side(word, low=True)
        if word := read.take("until", "till", "up to", "before", "earlier than"):
            return self._side(word, low=False)
        middle = (
            ("and",) if read.take("between") else ("to", "until", "till", "and") if read.take("from") else ()
        )
        if not middle:
            return False
        first = self._day_of_same_month(middle) or self._moment()
        if first == (None, None) or not read.take(*middle):
            return False
        last = self._moment()
        if last == (None, None):
            if read.next:
                raise SearchError(
                    f"{read.next!r} is not a time: write between 9:00 and 17:00, or from 9 am to 5 pm"
                )
            raise SearchError("it ends too soon: the span has no end")
        (day, clock), (other, end) = first, last
        if clock is None and end is None and day and other:
            self._set(since=day.begin, until=other.end)
        elif clock and end and day and other:
            low, high = self._sure(clock), self._sure(end)
            self._set(since=self._at(day, low), until=self._at(other, high))
        elif clock and end:
            self._set(low=clock, high=end, days=day or other)
        else:
            raise SearchError(
                f"{read.said(read.place - 2)!r}: say a day on both sides, or a time on both sides"
            )
        return True

    def _day_of_same_month(self, middle: tuple[str, ...]) -> tuple[Days | None, Clock | None] | None:
        """The first day of "from 20 to 22 November"; the rest is still to be read."""
        read, begin = self.reading, self.reading.place
        number = self._day_number()
        if not number or not read.take(*middle):
            read.place = begin
            return None
        place = read.place - 1
        last = self._date()
        read.place = place if last else begin
        if last is None or number >= last.day:
            read.place = begin
            return None
        first = last.replace(day=number)
        return self._of_dates(first, first, f"{first}"), None

    def _side(self, word: str, *, low: bool) -> bool:
        begin = self.reading.place
        day, clock = self._moment()
        if day is None and clock is None:
            if self.reading.next:
                raise SearchError(
                    f"{self.reading.next!r} is not a time: write {word} 18:00, or {word} yesterday"
                )
            raise SearchError(f"it ends too soon: {word} when?")
        if clock is None and day:
            part = day.end - day.begin < timedelta(hours=23)
            if part and not low:
                raise SearchError(
                    f"{word} {self.reading.said(begin)!r} may mean its beginning or its end: write a time"
                )
            if low:
                self._set(since=day.begin if word == "since" else day.end)
            else:
                self._set(until=day.end if word in ("until", "till", "up to") else day.begin)
        elif low and day and clock and word == "since":
            self._set(since=self._at(day, self._sure(clock, day)))
        else:
            self.open_end |= word == "since"
            self._set(**{"low" if low else "high": clock}, days=day)
        return True

    def _generic(self) -> bool:
        """Hours of every day: at night, in the mornings, every day."""
        read = self.reading
        if read.take("every day", "each day", "on each day", "on every day", "of every day"):
            self.every = True
            return True
        if read.take("at night", "by night", "at nights", "in the night"):
            self.every = self.every or self.days is None
            self._part("night")
            return True
        read.take("in the", "during the")
        if plural := read.take_one_of([f"{part}s" for part in PARTS]):
            self.every = True
            self._part(plural[:-1])
            return True
        return False

    def _day_or_clock(self) -> bool:
        read = self.reading
        if near := read.take("around", "about", "at about", "at around"):
            pass
        else:
            near = ""
            if read.take("at"):
                clock = self._clock()
                if clock:
                    self._set(at=clock)
                    return True
                if re.match(r"\d", read.next):
                    raise SearchError(f"{read.next!r} is not a time of day: write 22:00, 6 pm or noon")
                read.place -= 1
        if near:
            clock = self._clock()
            if clock:
                self.near = True
                self._set(at=clock)
            return clock is not None
        read.take("on", "in", "during", "at", "from", "of")
        if day := self._day():
            self._set(days=day)
            return True
        if part := read.take("the morning", "the afternoon", "the evening"):
            self._part(part.split()[-1])
            return True
        if re.fullmatch(r"\d{1,2}[:.]\d\d|noon|midday|midnight", read.next) or (
            read.place + 1 < len(read.words) and read.words[read.place + 1] in ("am", "pm", "o'clock")
        ):
            clock = self._clock()
            if clock:
                self._set(at=clock)
                return True
        return False

    def _part(self, name: str) -> None:
        begin, end = PARTS[name]
        self._set(
            low=Clock(60 * begin, bare=False, exact=True, words=name),
            high=Clock(60 * end, bare=False, exact=True, words=name),
        )

    # Days and clocks

    def _moment(self) -> tuple[Days | None, Clock | None]:
        clock = self._clock()
        self.reading.take("on", "of")
        day = self._day()
        if day and not clock:
            self.reading.take("at")
            clock = self._clock()
        return day, clock

    def _clock(self) -> Clock | None:
        read, begin = self.reading, self.reading.place
        if read.take_one_of(("noon", "midday", "midnight")):
            minutes = parse_time_of_day(read.said(begin))
            return Clock(minutes, bare=False, exact=False, words=read.said(begin))
        if not (found := read.take_match(r"\d{1,2}(?:[:.](\d\d))?")):
            return None
        number = found[0]
        if "." in number and int(found[1]) <= _FIRST_DATE and read.next not in ("am", "pm"):
            hour, minute = number.split(".")
            raise SearchError(f"{number!r} may be a time or a date: write {hour}:{minute}, or {hour} {_month(minute)}")
        if read.next in ("%", "percent", *_MONTH_NUMBERS, "days", "day", "people") or (
            read.place < len(read.words) and read.next.rstrip("s") in (_UNITS | _CALENDAR_UNITS)
        ):
            read.place = begin
            return None
        half = read.take_one_of(("am", "pm"))
        if not half:
            read.take("o'clock")
            if part := read.take("in the morning", "in the afternoon", "in the evening", "at night"):
                half = "am" if part == "in the morning" else "pm"
        minutes = parse_time_of_day(f"{number} {half}".strip())
        bare = not half and not found[1] and not number.startswith("0") and 1 <= int(number) <= _FIRST_DATE
        return Clock(minutes % _DAY, bare=bare, exact=bool(found[1]), words=read.said(begin))

    def _day(self) -> Days | None:
        """A day, a part of one, a weekend, week, month or year."""
        read, begin, today = self.reading, self.reading.place, self.local.of(self.now).date()
        if read.take("overnight", "last night", "the last night", "the night"):
            if read.take("of"):
                night = self._date() or self._weekday()
                if night is None:
                    raise SearchError(f"{read.next!r} is not a day: write the night of 22 November")
                return self._of_part(night, "night", read.said(begin))
            return self._of_part(today - timedelta(days=1), "night", read.said(begin))
        if read.take("tonight"):
            return self._of_hours(today, 18, 30, "tonight")
        if period := self._period(today, begin):
            return period
        read.take("the")
        day = None
        if read.take("day before yesterday"):
            day = today - timedelta(days=2)
        elif word := read.take("today", "yesterday", "this"):
            day = today - timedelta(days=word == "yesterday")
            if word == "this" and read.next not in PARTS:
                read.place = begin
                return None
        else:
            day = self._weekday()
            date_there = self._date()
            if day and date_there and day.weekday() != date_there.weekday():
                raise SearchError(f"{read.said(begin)!r} was a {DAY_NAMES[date_there.weekday()].capitalize()}")
            day = date_there or day
        if day is None:
            read.place = begin
            return None
        if part := read.take_one_of(PARTS):
            return self._of_part(day, part, read.said(begin))
        return self._of_dates(day, day, read.said(begin))

    def _weekday(self) -> date | None:
        read, begin, today = self.reading, self.reading.place, self.local.of(self.now).date()
        which = read.take("last", "this")
        name = read.take_one_of(_DAYS)
        if not name:
            read.place = begin
            return None
        back = (today.weekday() - _DAYS[name]) % 7
        return today - timedelta(days=back or 7 * (which == "last"))

    def _date(self) -> date | None:
        read, begin, today = self.reading, self.reading.place, self.local.of(self.now).date()
        year = month = number = 0
        if found := read.take_match(r"(\d{4})-(\d\d)-(\d\d)"):
            year, month, number = map(int, found.groups())
        elif found := read.take_match(r"(\d{1,2})([./])(\d{1,2})[./](\d{4})"):
            number, month, year = int(found[1]), int(found[3]), int(found[4])
            if found[2] == "/" and number <= _FIRST_DATE and month <= _FIRST_DATE and number != month:
                raise SearchError(
                    f"{found[0]} may be of two months: write {number} {MONTHS[month - 1].capitalize()} {year}"
                )
            if month > _FIRST_DATE:
                number, month = month, number
        elif found := read.take_match(r"(\d{1,2})\.(\d{1,2})\."):
            number, month = int(found[1]), int(found[2])
        elif name := read.take_one_of(_MONTH_NUMBERS):
            month = _MONTH_NUMBERS[name]
            number = self._day_number()
            year = self._year()
            if not number:
                read.place = begin
                return None
        elif number := self._day_number():
            read.take("of")
            name = read.take_one_of(_MONTH_NUMBERS)
            if not name:
                read.place = begin
                return None
            month, year = _MONTH_NUMBERS[name], self._year()
        if not number:
            return None
        said = read.said(begin)
        try:
            if year:
                return date(year, month, number)
            for before in range(5):  # 29 February comes every four years
                try:
                    day = date(today.year - before, month, number)
                except ValueError:
                    continue
                if day <= today:
                    return day
        except ValueError:
            pass
        raise SearchError(f"there is no {said}: write 3 May 2026, or 2026-05-03")

    def _day_number(self) -> int:
        read = self.reading
        if not (found := read.take_match(r"\d{1,2}")):
            return 0
        read.take_one_of(("st", "nd", "rd", "th"))
        return int(found[0])

    def _year(self) -> int:
        found = self.reading.take_match(r"\d{4}")
        return int(found[0]) if found else 0

    def _period(self, today: date, begin: int) -> Days | None:
        """This or last weekend, week, month or year, or a month by its name."""
        read = self.reading
        if name := read.take_one_of(_MONTH_NUMBERS):
            if read.next and re.fullmatch(r"\d{1,2}", read.next):
                read.place = begin
                return None
            month, year = _MONTH_NUMBERS[name], self._year()
            year = year or today.year - (month > today.month)
            first = date(year, month, 1)
            return self._of_dates(first, _last_of_month(first), read.said(begin))
        which = read.take("this", "last", "the")
        unit = read.take_one_of(("weekend", "week", "month", "year"))
        if not which or not unit or (which == "the" and unit != "weekend"):
            read.place = begin
            return None
        back, said = which == "last", f"{which} {unit}"
        monday = today - timedelta(days=today.weekday())
        if unit == "weekend":
            saturday = monday + timedelta(days=5)
            if saturday > today or back:
                saturday -= timedelta(days=7)
            return self._of_dates(saturday, saturday + timedelta(days=1), said)
        if unit == "week":
            monday -= timedelta(days=7 * back)
            return self._of_dates(monday, monday + timedelta(days=6), said)
        if unit == "year":
            return self._of_dates(date(today.year - back, 1, 1), date(today.year - back, 12, 31), said)
        first = (today.replace(day=1) - timedelta(days=back)).replace(day=1)
        return self._of_dates(first, _last_of_month(first), said)

    def _of_dates(self, first: date, last: date, words: str) -> Days:
        midnight = self.local.midnight
        try:
            return Days(midnight(first), midnight(last + timedelta(days=1)), words)
        except OverflowError:
            raise beyond_calendar(words) from None

    def _of_part(self, day: date, part: str, words: str) -> Days:
        begin, end = PARTS[part]
        return self._of_hours(day, begin, end + 24 * (end < begin), words)

    def _of_hours(self, day: date, begin: int, end: int, words: str) -> Days:
        midnight = datetime.combine(day, time())
        return Days(
            self.local.aware(midnight + timedelta(hours=begin)),
            self.local.aware(midnight + timedelta(hours=end)),
            words,
        )

    def _back(self, length: timedelta) -> datetime:
        try:
            return self.local.aware(self.local.of(self.now - length).replace(tzinfo=None))
        except OverflowError:
            raise beyond_calendar(f"{length.days} days ago") from None

    def _set(self, **parts: object) -> None:
        for name, value in parts.items():
            if value is None:
                continue
            if getattr(self, name) is not None:
                raise SearchError(
                    f"it says two times of the same kind ({self.said[-1]}); ask them one by one"
                )
            setattr(self, name, value)

    # Together

    def bounds(self) -> tuple[datetime | None, datetime | None, tuple[int, int] | None]:
        """``(since, until, between)`` of `Filters`.

        Raises:
            SearchError: a clock is not sure, or a time is to come.
        """
        since, until = self.since, self.until
        if self.days:
            since = max(since, self.days.begin) if since else self.days.begin
            until = min(until, self.days.end) if until else self.days.end
            if self.days.begin > self.now:
                raise SearchError(f"{self.days.words} is to come: only what was recorded can be asked for")
        if not (self.low or self.high or self.at):
            return since, until, None
        several = self.every or since is not None or until is not None
        if several and not (self.days and self.days.one and not self.every):
            low, high = self._hours(None)
            return since, until, (low, high % _DAY)
        low, high = self._hours(self.days)
        return self._within(low, high)

    def _hours(self, days: Days | None) -> tuple[int, int]:
        """Minutes of the day from which on, and before which."""
        if self.at:
            if self.at.words == "midnight" and days:
                raise SearchError(
                    f"midnight of {days.words} may be its beginning or its end: write a day and 0:00"
                )
            minutes, near = self._sure(self.at, days), AROUND.seconds // 60
            if self.at.exact and not self.near:
                return minutes, minutes + 1
            return minutes - near, minutes + near
        if self.low and self.high:
            return self._range(self.low, self.high, days)
        if self.low:
            return self._sure(self.low, days), _DAY if days is None else 0
        assert self.high is not None  # noqa: S101 - one of the three is there
        if self.high.bare and _MORNING <= self.high.minutes // 60 < _FIRST_DATE:
            return 0, self.high.minutes
        return 0, self._sure(self.high, days)

    def _within(self, low: int, high: int) -> tuple[datetime, datetime | None, tuple[int, int] | None]:
        """The hours of the one day that is meant, or of the last that has begun."""
        days, rest = self.days, self.low is not None and self.high is None and self.at is None
        day = self.local.of(days.begin if days else self.now).date()
        if days and self.local.of(days.begin).hour >= _FIRST_DATE and low < _HALF_DAY:
            low, high = low + _DAY, high + _DAY  # after the midnight of a night
        high += _DAY * (high < low)
        if days is None and self.local.aware(datetime.combine(day, time()) + timedelta(minutes=low)) > self.now:
            day -= timedelta(days=1)
        midnight = datetime.combine(day, time())
        begin, end = midnight + timedelta(minutes=low), midnight + timedelta(minutes=high)
        since, until = self.local.aware(begin), self.local.aware(end.replace(fold=1))
        if rest and days:
            until = days.end
        elif days and self.local.of(days.begin).hour:
            since, until = max(since, days.begin), min(until, days.end)
        shown = self.local.of(since).replace(tzinfo=None, fold=0)
        if shown != begin and until - since < timedelta(hours=1):
            raise SearchError(f"there was no {begin:%H:%M} on {begin:%d %B %Y}: clocks went forward")
        if self.open_end and rest:
            return since, None, None
        clocks = (self.local.of(since + timedelta(minutes=n)) for n in range((until - since) // timedelta(minutes=1)))
        outside = any(not begin <= clock.replace(tzinfo=None, fold=0) < end for clock in clocks)
        between = (low % _DAY, high % _DAY) if outside and not rest and until - since < timedelta(days=1) else None
        return since, until, between  # a clock that goes back shows some minutes twice, others between them

    def _range(self, low: Clock, high: Clock, days: Days | None) -> tuple[int, int]:
        begin, end = low.minutes, high.minutes
        if not high.bare and not low.bare:
            return begin, end or _DAY
        if low.bare and high.bare:
            if begin < _MORNING * 60:
                return self._sure(low, days), self._sure(high, days)
            if begin == _HALF_DAY or end > begin:
                return begin, end + _HALF_DAY * (end <= begin and end < _HALF_DAY)
            return begin, end + _HALF_DAY
        if high.bare:
            return begin, min(
                end % _DAY, (end + _HALF_DAY) % _DAY, key=lambda minute: (minute - begin) % _DAY or _DAY
            )
        if end > _HALF_DAY and begin % _HALF_DAY + _HALF_DAY < end and high.words.endswith("pm"):
            return begin % _HALF_DAY + _HALF_DAY, end
        return (begin, end) if begin < end else (self._sure(low, days), end)

    def _sure(self, clock: Clock, days: Days | None = None) -> int:
        """Its minutes; of a bare hour the only reading that fits the day, or has passed today.

        Raises:
            SearchError: both fit, or none.
        """
        if not clock.bare:
            return clock.minutes
        both = sorted({clock.minutes % _HALF_DAY, clock.minutes % _HALF_DAY + _HALF_DAY})
        begin, end = (days.begin, days.end) if days else (None, self.now)
        day = self.local.of(begin or self.now).date()
        fitting = []
        for minutes in both:
            for following in (0, 1) if days else (0,):
                wall = datetime.combine(day + timedelta(days=following), time()) + timedelta(minutes=minutes)
                moment = self.local.aware(wall)
                if (begin is None or begin <= moment) and moment < end:
                    fitting.append(minutes)
        if len(fitting) == 1:
            return fitting[0]
        hour = clock.minutes // 60 % 12
        raise SearchError(
            f"{clock.words!r} may be of the morning or of the evening: write {hour or 12} am or {hour or 12} pm, "
            f"{hour:02d}:00 or {hour + 12}:00"
        )

    def _at(self, day: Days, minutes: int) -> datetime:
        midnight = datetime.combine(self.local.of(day.begin).date(), time())
        return self.local.aware(midnight + timedelta(minutes=minutes))


def take_duration(read: Reading, *, calendar: bool = False) -> timedelta | None:
    """A length such as "10 min", "half an hour", "a day"; with `calendar` also months and years, "hour" alone is one.

    Raises:
        SearchError: it is beyond the calendar.
    """
    begin = read.place
    half = read.take("half a", "half an", "half")
    number = None if half else read.take_number()
    more = number is not None and bool(read.take("and a half"))
    units = _UNITS | (_CALENDAR_UNITS if calendar else {})
    unit = read.take_one_of({form for name in units for form in (name, f"{name}s")})
    if not unit or (number is None and not half and not calendar):
        read.place = begin
        return None
    seconds = units[unit.removesuffix("s")]
    try:
        return timedelta(seconds=seconds * (0.5 if half else (1 if number is None else number) + 0.5 * more))
    except OverflowError:
        raise beyond_calendar(read.said(begin)) from None


def _month(number: str) -> str:
    return MONTHS[(int(number) or 1) - 1].capitalize()


def _last_of_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
