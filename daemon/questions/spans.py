"""Spans of time in words: last night, after 10 pm yesterday, from 9 to 5, 22.11.2026 at 18:19.

A weekday, a date without a year and a clock without a day are the last that have begun. A bare hour that may
be of the morning or of the evening is an error, never a guess; "9 to 5" is read as working hours are.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from daemon.questions.errors import SearchError
from daemon.questions.local_time import DAY_NAMES, MINUTES, LocalTime, beyond_calendar, parse_time_of_day
from daemon.questions.reading import Reading

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
PARTS = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 22), "night": (22, 6)}
"""Hours of the parts of a day; a night ends on the next one."""
AROUND = 15
"""Minutes on both sides of "around 6 pm", and of an hour without minutes."""

_MONTH_NUMBERS = {name[:length]: n for n, name in enumerate(MONTHS, 1) for length in (3, 4, len(name))}
_WEEKDAYS = {name[:length]: n for n, name in enumerate(DAY_NAMES) for length in (3, len(name))}
_UNIT_S = {"second": 1, "min": 60, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_LONG_UNIT_S = {"month": 30 * 86400, "year": 365 * 86400}
_NOON = 12 * 60
_MORNING = 6 * 60
_TWELVE = 12
_ORDINAL = "(?: ?(?:st|nd|rd|th))?"
_MONTH = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_PART = "|".join(PARTS)
_DATES = (
    r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)",
    r"(?P<d>\d\d?)(?P<mark>[./])(?P<m>\d\d?)(?:[./](?P<y>\d{4})|\.)",
    rf"(?P<d>\d\d?){_ORDINAL}(?: of)? (?P<name>{_MONTH})(?: (?P<y>\d{{4}}))?",
    rf"(?P<name>{_MONTH}) (?P<d>\d\d?){_ORDINAL}(?: (?P<y>\d{{4}}))?",
)
_NO_CLOCK = rf"(?! (?:%|percent|people|{'|'.join({**_UNIT_S, **_LONG_UNIT_S})}|{_MONTH}))"
_CLOCK = (
    r"(?P<clock>(?P<hour>\d\d?)(?:(?P<mark>[:.])(?P<minute>\d\d))?(?: (?P<half>am|pm|o'clock))?)"
    rf"(?P<part> in the (?:morning|afternoon|evening)| at night)?{_NO_CLOCK}"
)
_SINCE, _AFTER = ("since",), ("after", "later than")
_UNTIL, _BEFORE = ("until", "till", "up to"), ("before", "earlier than")


@dataclass(frozen=True, slots=True)
class Days:
    """Some days, or a part of one, from the one moment on, before the other; and their words."""

    begin: datetime
    end: datetime
    words: str


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day.

    Attributes:
        minutes: since midnight.
        words: as they were said.
        half: am or pm, where that was said.
        twelve: of a clock of twelve hours, as far as can be seen.
        exact: said with minutes.
    """

    minutes: int
    words: str
    half: str = ""
    twelve: bool = False
    exact: bool = True

    @property
    def bare(self) -> bool:
        """An hour that may be of the morning or of the evening."""
        return self.twelve and not self.half and not self.exact


@dataclass(slots=True)
class Span:
    """What a question says of time, while it is read.

    Attributes:
        days: the days that are meant.
        since, until: moments that were said as such.
        low, high: clocks of "after" and "before", or of "from" and "to".
        at: a clock, with `near` not to the minute.
        lasting: the end is open.
        every: hours are of every day.
        nightly: so they are where no day is said.
        said: the words of each part.
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
    lasting: bool = False
    every: bool = False
    nightly: bool = False
    said: list[str] = field(default_factory=list)

    def take(self) -> bool:
        """Read one more part about time; False where none comes next.

        Raises:
            SearchError: it is no time, or says something twice.
        """
        begin = self.reading.place
        joined = bool(self.said) and begin > 0 and self.reading.words[begin - 1] == "or"
        for part in (self._recent, self._ago, self._side, self._range, self._hours_of_days, self._point):
            if part():
                if joined:
                    raise SearchError(f"{self.reading.said(begin)!r} is a second span: ask for one at a time")
                self.said.append(self.reading.said(begin))
                return True
            self.reading.place = begin
        return False

    # Parts: each reads on and is true, or is false

    def _recent(self) -> bool:
        read = self.reading
        read.take("in", "within", "during", "over", "for")
        the, which = read.take("the"), read.take("last", "past", "previous")
        if not which or (which == "last" and not the and read.next in ("week", "month", "year")):
            return False
        length = take_duration(read, recent=True)
        if length is not None:
            self._set(since=self._back(length))
        return length is not None

    def _ago(self) -> bool:
        length = take_duration(self.reading)
        if length is None or not self.reading.take("ago"):
            return False
        moment = self._back(length)
        if length < timedelta(days=1):
            around = timedelta(minutes=AROUND)
            self._set(since=moment - around, until=moment + around)
        else:
            day = self.local.of(moment).date()
            self._set(days=self._of_dates(day, day, f"{day:%d %B %Y}"))
        return True

    def _side(self) -> bool:
        """Since, after, before or until a day, a time, or a time of a day."""
        read = self.reading
        word = read.take(*_SINCE, *_AFTER, *_UNTIL, *_BEFORE)
        if not word:
            return False
        begin, low = read.place, word in _SINCE + _AFTER
        day, clock = self._moment()
        if clock is None and day is None:
            what = f"{read.next!r} is not a time" if read.next else f"it ends too soon: {word} when?"
            raise SearchError(f"{what}; write {word} 18:00, or {word} yesterday")
        if day and word == "since":
            self._set(since=self._at(day, self._sure(clock, day)) if clock else day.begin)
        elif clock:
            self.lasting |= word == "since"
            self._set(**{"low" if low else "high": clock}, days=day)
        elif day and low:
            self._set(since=day.end)
        elif day and day.end - day.begin < timedelta(hours=23):
            raise SearchError(f"{word} {read.said(begin)!r} may mean its begin or its end: write a time")
        elif day:
            self._set(until=day.end if word in _UNTIL else day.begin)
        return True

    def _range(self) -> bool:
        """Between two days, two times, or a time of a day and one of another."""
        read = self.reading
        word = read.take("between", "from")
        middle = ("and",) if word == "between" else ("to", "until", "till", "and")
        if not word:
            return False
        day, clock = self._day_before(middle) or self._moment()
        if day is None and clock is None:
            return False
        if not read.take(*middle):
            if clock:
                raise SearchError(f"{word} {clock.words} until when? write since {clock.words}, or a time")
            return False
        other, end = self._moment()
        if other is None and end is None:
            what = f"{read.next!r} is not a time" if read.next else "it ends too soon"
            raise SearchError(f"{what}; write between 9:00 and 17:00, or from 9 am to 5 pm")
        if day and other and clock and end:
            self._set(
                since=self._at(day, self._sure(clock, day)), until=self._at(other, self._sure(end, other))
            )
        elif clock and end:
            self._set(low=clock, high=end, days=day or other)
        elif day and other and not clock and not end:
            self._set(since=day.begin, until=other.end)
        else:
            raise SearchError(f"say a day on both sides of {middle[0]!r}, or a time on both sides")
        return True

    def _hours_of_days(self) -> bool:
        """Hours of every day: at night, in the mornings, every day."""
        read = self.reading
        if read.take_pattern("(?:on |of )?(?:every|each) day"):
            self.every = True
            return True
        found = read.take_pattern(rf"(?:at|by) nights?|(?:(?:in|during) the )?(?P<part>{_PART})s")
        if found:
            self.every, self.nightly = self.every or bool(found["part"]), True
            self._of_hours(found["part"] or "night")
        return bool(found)

    def _point(self) -> bool:
        """A day, a part of the day, or a time."""
        read = self.reading
        if word := read.take("at about", "at around", "around", "about", "at"):
            if clock := self._clock():
                self.near |= word != "at"
                self._set(at=clock)
                return True
            if word == "at" and re.match(r"\d", read.next):
                raise SearchError(f"{read.next!r} is not a time of day: write 22:00, 6 pm or noon")
        read.take("on", "in", "during", "from", "of")
        if day := self._day():
            self._set(days=day)
            return True
        if found := read.take_pattern(r"the (morning|afternoon|evening)"):
            self._of_hours(found[1])
            return True
        clock = self._clock()
        if clock and not re.fullmatch(r"\d+", clock.words):
            self._set(at=clock)
            return True
        return False

    def _of_hours(self, part: str) -> None:
        begin, end = PARTS[part]
        self._set(low=Clock(60 * begin, part), high=Clock(60 * end, part))

    def _set(self, **parts: object) -> None:
        for name, value in parts.items():
            if value is not None and getattr(self, name) is not None:
                raise SearchError(f"it says two times of one kind ({self.said[-1]}); ask them one by one")
            if value is not None:
                setattr(self, name, value)

    # Days and clocks

    def _moment(self) -> tuple[Days | None, Clock | None]:
        clock = self._clock()
        self.reading.take("on", "of")
        day = self._day()
        if day and not clock:
            self.reading.take("at")
            clock = self._clock()
        return day, clock

    def _day_before(self, middle: tuple[str, ...]) -> tuple[Days | None, Clock | None] | None:
        """The first day of "20 to 22 November"; None where that is not said."""
        read, begin = self.reading, self.reading.place
        found = read.take_pattern(rf"(\d\d?){_ORDINAL}(?= (?:{'|'.join(middle)}) )")
        place = read.place
        last = self._date() if found and read.take(*middle) else None
        read.place = place if last else begin
        if not found or not last or int(found[1]) >= last.day:
            read.place = begin
            return None
        first = last.replace(day=int(found[1]))
        return self._of_dates(first, first, f"{first}"), None

    def _clock(self) -> Clock | None:
        read = self.reading
        if name := read.take("noon", "midday", "midnight"):
            return Clock(parse_time_of_day(name), name, exact=False)
        found = read.take_pattern(_CLOCK)
        if not found:
            return None
        if found["mark"] == "." and int(found["minute"]) <= _TWELVE and not found["half"]:
            month = MONTHS[(int(found["minute"]) or 1) - 1].capitalize()
            raise SearchError(
                f"{found['clock']!r} may be a time or a date: write {found['clock'].replace('.', ':')}, "
                f"or {found['hour']} {month}"
            )
        half = found["half"] or ""
        if part := found["part"]:
            late = "night" in part and not 6 <= int(found["hour"]) < _TWELVE  # noqa: PLR2004 - 2 at night
            half = "am" if "morning" in part or late else "pm"
        minutes = parse_time_of_day(found["clock"] if found["half"] else f"{found['clock']} {half}".strip())
        twelve = 1 <= int(found["hour"]) <= _TWELVE and found["hour"][0] != "0"
        half = half.replace("o'clock", "")
        return Clock(minutes, found[0], half, twelve, exact=bool(found["minute"]))

    def _day(self) -> Days | None:
        """A day, a part of one, a weekend, week, month or year."""
        read, begin, today = self.reading, self.reading.place, self.local.of(self.now).date()
        if found := self.reading.take_pattern("overnight|(?:the )?last night|the night of|tonight"):
            if found[0] == "tonight":
                return self._of_part(today, (18, 30), found[0])
            night = self._date() or self._weekday() if found[0].endswith("of") else today - timedelta(days=1)
            if night is None:
                raise SearchError(f"{read.next!r} is not a day: write the night of 22 November")
            return self._of_part(night, PARTS["night"], read.said(begin))
        if period := self._period(today):
            return period
        if found := read.take_pattern(
            rf"(?:the )?(day before yesterday|yesterday|today|this(?= (?:{_PART})))"
        ):
            back = {"yesterday": 1, "day before yesterday": 2}.get(found[1], 0)
            day: date | None = today - timedelta(days=back)
        else:
            read.take("the")
            weekday, day = self._weekday(), self._date()
            if weekday and day and weekday.weekday() != day.weekday():
                raise SearchError(f"{read.said(begin)!r} was a {DAY_NAMES[day.weekday()].capitalize()}")
            day = day or weekday
        if day is None:
            read.place = begin
            return None
        if part := read.take(*PARTS):
            return self._of_part(day, PARTS[part], read.said(begin))
        return self._of_dates(day, day, read.said(begin))

    def _weekday(self) -> date | None:
        today = self.local.of(self.now).date()
        found = self.reading.take_pattern(rf"(?:(last|this) )?({'|'.join(_WEEKDAYS)})")
        if not found:
            return None
        back = (today.weekday() - _WEEKDAYS[found[2]]) % 7
        return today - timedelta(days=back or 7 * (found[1] == "last"))

    def _date(self) -> date | None:
        found = next(filter(None, map(self.reading.take_pattern, _DATES)), None)
        if found is None:
            return None
        parts = found.groupdict()
        day = int(parts["d"])
        month = _MONTH_NUMBERS[parts["name"]] if parts.get("name") else int(parts["m"])
        if parts.get("mark") == "/" and day <= _TWELVE and month <= _TWELVE and day != month:
            month_name = MONTHS[month - 1].capitalize()
            raise SearchError(f"{found[0]} may be of two months: write {day} {month_name} {parts['y']}")
        if month > _TWELVE >= day:
            day, month = month, day
        today = self.local.of(self.now).date()
        years = [int(parts["y"])] if parts["y"] else range(today.year, today.year - 5, -1)  # for 29 February
        for year in years:
            with suppress(ValueError):
                read = date(year, month, day)
                if parts["y"] or read <= today:
                    return read
        raise SearchError(f"there is no {found[0]}: write 3 May 2026, or 2026-05-03")

    def _period(self, today: date) -> Days | None:
        """This or last weekend, week, month or year, or a month by its name."""
        read = self.reading
        if found := read.take_pattern(rf"({_MONTH})(?: (\d{{4}}))?(?! \d)"):
            month = _MONTH_NUMBERS[found[1]]
            first = date(int(found[2]) if found[2] else today.year - (month > today.month), month, 1)
            return self._of_dates(first, _last_of_month(first), found[0])
        found = read.take_pattern("(this|last) (weekend|week|month|year)|the (weekend)")
        if not found:
            return None
        back, unit, words = found[1] == "last", found[2] or found[3], found[0]
        monday = today - timedelta(days=today.weekday())
        if unit == "weekend":
            saturday = monday + timedelta(days=5)
            saturday -= timedelta(days=7 * (saturday > today or back))
            return self._of_dates(saturday, saturday + timedelta(days=1), words)
        if unit == "week":
            monday -= timedelta(days=7 * back)
            return self._of_dates(monday, monday + timedelta(days=6), words)
        if unit == "year":
            return self._of_dates(date(today.year - back, 1, 1), date(today.year - back, 12, 31), words)
        first = (today.replace(day=1) - timedelta(days=back)).replace(day=1)
        return self._of_dates(first, _last_of_month(first), words)

    def _of_dates(self, first: date, last: date, words: str) -> Days:
        try:
            return Days(self.local.midnight(first), self.local.midnight(last + timedelta(days=1)), words)
        except OverflowError:
            raise beyond_calendar(words) from None

    def _of_part(self, day: date, hours: tuple[int, int], words: str) -> Days:
        begin, end = hours
        last = end + 24 * (end < begin)
        return Days(self._wall(day, 60 * begin), self._wall(day, 60 * last), words)

    def _back(self, length: timedelta) -> datetime:
        try:
            return self.local.aware(self.local.of(self.now - length).replace(tzinfo=None))
        except OverflowError:
            raise beyond_calendar(f"{length.days} days ago") from None

    def _wall(self, day: date, minutes: int, fold: int = 0) -> datetime:
        wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
        return self.local.aware(wall.replace(fold=fold))

    def _at(self, day: Days, minutes: int) -> datetime:
        return self._wall(self.local.of(day.begin).date(), minutes)

    # Together

    def bounds(self) -> tuple[datetime | None, datetime | None, tuple[int, int] | None]:
        """``(since, until, between)`` of `Filters`.

        Raises:
            SearchError: a clock is not sure, or a time is to come.
        """
        since, until, days = self.since, self.until, self.days
        if days:
            since, until = max(since or days.begin, days.begin), min(until or days.end, days.end)
            if days.begin > self.now:
                raise SearchError(f"{days.words} is to come: only what was recorded can be asked for")
        if since and until and since >= until:
            raise SearchError(f"{' '.join(self.said)!r} ends before it begins")
        if not (self.low or self.high or self.at):
            return since, until, None
        every = self.every or (self.nightly and days is None)
        one = days is not None and days.end - days.begin <= timedelta(hours=25) and not every
        if one or not (every or since or until):
            return self._within(*self._minutes(days))
        low, high = self._minutes(None)
        return since, until, (low, (high or 0) % MINUTES)

    def _minutes(self, days: Days | None) -> tuple[int, int | None]:
        """Minutes of the day from which on, and before which; None is the end of the days."""
        if self.at:
            if self.at.words == "midnight" and days:
                raise SearchError(
                    f"midnight of {days.words} may be its begin or its end: write a day and 0:00"
                )
            minutes = self._sure(self.at, days)
            if self.at.exact and not self.near:
                return minutes, minutes + 1
            return minutes - AROUND, minutes + AROUND
        if self.low and self.high:
            return self._between(self.low, self.high, days)
        if self.low:
            return self._sure(self.low, days), None
        assert self.high is not None  # noqa: S101 - one of the three is there
        of_morning = self.high.bare and _MORNING <= self.high.minutes < _NOON
        begin = self.local.of(days.begin) if days else None
        low = begin.hour * 60 if begin else 0
        return low, self.high.minutes if of_morning and not low else self._sure(self.high, days) or MINUTES

    def _within(self, low: int, high: int | None) -> tuple[datetime, datetime | None, tuple[int, int] | None]:
        """The hours of the one day that is meant, or of the last that has begun."""
        days, rest = self.days, high is None
        high = MINUTES if high is None else high
        day = self.local.of(days.begin if days else self.now).date()
        if days and self.local.of(days.begin).hour * 60 >= _NOON > low:
            low, high = low + MINUTES, high + MINUTES  # after the midnight of a night
        high += MINUTES * (high < low)
        if days is None and self._wall(day, low) > self.now:
            day -= timedelta(days=1)
        since, until = self._wall(day, low), self._wall(day, high, fold=1)
        shown = self.local.of(since)
        if (shown.hour * 60 + shown.minute - low) % MINUTES and until - since < timedelta(hours=1):
            raise SearchError(f"there was no {low // 60:02d}:{low % 60:02d} on that day: clocks went forward")
        if rest:
            return since, days.end if days else None if self.lasting else until, None
        if days and self.local.of(days.begin).hour:
            since, until = max(since, days.begin), min(until, days.end)
        if since >= until:
            raise SearchError(f"{' '.join(self.said)!r} ends before it begins")
        begin, end = (datetime.combine(day, time()) + timedelta(minutes=each) for each in (low, high))
        count = (until - since) // timedelta(minutes=1)
        clocks = (
            self.local.of(since + timedelta(minutes=n)).replace(tzinfo=None, fold=0) for n in range(count)
        )
        # Where clocks go back, between the two times of the first and the last minute lie others.
        outside = any(not begin <= clock < end for clock in clocks)
        return since, until, (low % MINUTES, high % MINUTES) if outside else None

    def _between(self, low: Clock, high: Clock, days: Days | None) -> tuple[int, int]:
        """Of two clocks; one without am or pm is read by the other."""
        begin, end = low.minutes, high.minutes
        if days and days.end - days.begin < timedelta(hours=23):  # of a night, or a morning
            return self._sure(low, days), self._sure(high, days)
        if low.bare and high.bare:
            if begin < _MORNING:
                return self._sure(low, days), self._sure(high, days)
            later = end + _NOON if end < _NOON else end
            return begin, end if begin < end and begin != _NOON else later
        if high.bare or (low.half and not high.half and high.twelve):  # the first that follows
            both = (end % _NOON, end % _NOON + _NOON)
            return begin, min(both, key=lambda minute: (minute - begin) % MINUTES or MINUTES)
        if low.twelve and not low.half and high.half == "pm" and begin % _NOON + _NOON < end:
            return begin % _NOON + _NOON, end
        return (self._sure(low, days) if low.bare and begin >= end else begin), end or MINUTES

    def _sure(self, clock: Clock, days: Days | None = None) -> int:
        """Its minutes; of a bare hour the only reading that fits the days, or that has passed today.

        Raises:
            SearchError: both fit, or none.
        """
        if not clock.bare:
            return clock.minutes
        both = (clock.minutes % _NOON, clock.minutes % _NOON + _NOON)
        day = self.local.of(days.begin if days else self.now).date()
        begin, end = (days.begin, days.end) if days else (self._wall(day, 0), self.now)
        following = [day, day + timedelta(days=1)]
        fitting = [m for m in both if any(begin <= self._wall(each, m) < end for each in following)]
        if len(fitting) == 1:
            return fitting[0]
        hour = both[0] // 60
        raise SearchError(
            f"{clock.words!r} may be of the morning or of the evening: "
            f"write {hour or 12} am or {hour or 12} pm"
        )


def take_duration(read: Reading, *, recent: bool = False) -> timedelta | None:
    """A length such as "10 min", "half an hour", "a day"; of recent time also "hour" and "3 months".

    Raises:
        SearchError: it is beyond the calendar.
    """
    begin = read.place
    half = read.take("half a", "half an", "half")
    number = None if half else read.take_number()
    more = 0.5 if number is not None and read.take("and a half") else 0.0
    units = _UNIT_S | (_LONG_UNIT_S if recent else {})
    unit = read.take(*units, *(f"{name}s" for name in units))
    if not unit or (number is None and not half and not recent):
        read.place = begin
        return None
    try:
        length = 0.5 if half else (1 if number is None else number) + more
        return timedelta(seconds=units[unit.removesuffix("s")] * length)
    except OverflowError:
        raise beyond_calendar(read.said(begin)) from None


def _last_of_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
