"""Spans of time in words: last night, after 10 pm yesterday, from 9 to 5, 22.11.2026 at 18:19.

A weekday, a date without a year and a clock without a day are the last that have begun. A bare hour that may
be of the morning or of the evening is an error, never a guess; "9 to 5" is read as working hours are.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from itertools import product

from daemon.questions.local_time import (
    DAY_NAMES,
    MINUTES,
    NAMED_TIMES,
    LocalTime,
    beyond_calendar,
    parse_time_of_day,
)
from daemon.questions.question import SearchError, Span
from daemon.questions.reading import NUMBERS, UNITS, Reading, either
from daemon.questions.words import COLOURS, OBJECT_WORDS

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
PARTS = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (22, 6), "lunch": (12, 14)}
"""Hours of the parts of a day; a night ends on the next one."""
AROUND = 15
"""Minutes on both sides of "around 6 pm", and of an hour without minutes."""

_MONTH_NUMBERS = {name[:length]: n for n, name in enumerate(MONTHS, 1) for length in (3, 4, len(name))}
_WEEKDAYS = {name[:length]: n for n, name in enumerate(DAY_NAMES) for length in (3, 4, 5, len(name))}
_NOON, _MORNING, _AFTERNOON, _NIGHT = 12 * 60, 6 * 60, 17 * 60, 22 * 60
_EARLY = 0, 6
"""The small hours."""
_TWELVE = 12
_ALMOST_A_DAY, _LONGEST_DAY = timedelta(hours=22, minutes=59), timedelta(hours=25)
_ORDINAL = "(?: ?(?:st|nd|rd|th))?"
MONTH, WEEKDAY, _PART = either(_MONTH_NUMBERS), either(_WEEKDAYS), "|".join(PARTS)
_DATES = (
    r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)",
    r"(?P<d>\d\d?)(?P<mark>[./])(?P<m>\d\d?)(?:[./](?P<y>\d{4})|\.)",
    rf"(?P<d>\d\d?){_ORDINAL}(?: of)? (?P<name>{MONTH})(?: (?P<y>(?:19|20|[3-9]\d)\d\d))?",
    rf"(?P<name>{MONTH}) (?P<d>\d\d?){_ORDINAL}(?: (?P<y>(?:19|20|[3-9]\d)\d\d))?",
    r"(?P<d>\d\d?) (?P<mark>/) (?P<m>\d\d|\d(?= \d\d))(?! /)",
    r"(?P<d>\d\d?) ?(?:st|nd|rd|th)",
)
_MINUTES = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20, "twenty-five": 25}
_SPOKEN = (
    rf"(?:a )?(?:({either(_MINUTES)}|\d\d?)(?: min(?:ute)?s?)? past|(?:{either(_MINUTES)}) to) "
    rf"(\d\d?|{either(NUMBERS)})(?: (am|pm))?( in the (?:morning|afternoon|evening)| at night)?"
)
_MILITARY = r"((?:[01]\d|2[0-4])(?!(?<=20)2\d)[0-5]\d)(?: (?:hrs|hours|h))?"
"""0700 hours; no year."""
_CLOCK = (
    rf"(?P<clock>(?P<hour>\d\d?|{either(NUMBERS[1:])})(?:(?P<mark>[:.])(?P<minute>\d\d))?"
    r"(?: (?P<half>am|pm|o'clock))?)"
    rf"(?P<part> in the (?:morning|afternoon|evening)| at night)?(?! (?:%|percent|people|/|{UNITS}|{MONTH}))"
)
_AFTER, _UNTIL = "after|later than|past", rf"until|till|up to|by(?= (?:\d|noon|midnight|{WEEKDAY}))"
_TO = "to|until|till|-|/"
_BEFORE_CLOCKS = {"at", "about", "around", "since", "after", "before", "until", "till", "by", "between"}
_BEFORE_DAYS = {"on", "since", "from", "until", "till", "to", "of", "before", "after", "between", "and"}


@dataclass(frozen=True, slots=True)
class Days:
    """Some days or a part of one: from `begin` on, before `end`; `words` as the question has them."""

    begin: datetime
    end: datetime
    words: str

    @property
    def is_part(self) -> bool:
        """Less than a day; one on which clocks go forward has 23 hours."""
        return self.end - self.begin <= _ALMOST_A_DAY


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day.

    Attributes:
        minutes: since midnight.
        words: as the question has them.
        half: am or pm, where given.
        twelve: may be of a clock of twelve hours without its half.
        exact: given with minutes.
    """

    minutes: int
    words: str
    half: str = ""
    twelve: bool = False
    exact: bool = False

    @property
    def is_bare(self) -> bool:
        """It may be of the morning or of the evening: 8, and 3:15, but not 8:30."""
        return self.twelve and not (self.exact and self.minutes >= _MORNING)

    @property
    def halves(self) -> tuple[int, int]:
        """Its minutes in the morning, and in the evening."""
        return self.minutes % _NOON, self.minutes % _NOON + _NOON


@dataclass(slots=True)
class SpanReader:
    """Reads the parts of a question about time.

    Attributes:
        days: the days that are meant.
        since, until: moments that were given as such.
        low, high: clocks of "after" and "before", or of "from" and "to".
        at: a clock, with `near` not to the minute.
        lasting: the end is open.
        every: hours are of every day; `nightly` only where no day is given.
        apart: before one clock and after another.
        phrases: the words of each part.
    """

    read: Reading
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
    apart: bool = False
    phrases: list[str] = field(default_factory=list)

    @property
    def today(self) -> date:
        """Today's date in the time zone."""
        return self.local.of(self.now).date()

    def take(self) -> bool:
        """Read one more part about time; False where none comes next.

        Raises:
            SearchError: it is no time, or says something twice.
        """
        begin, joined = self.read.place, bool(self.phrases) and self.read.previous == "or"
        for part in (self._recent, self._ago, self._side, self._range, self._hours, self._point):
            try:
                taken = part()
            except OverflowError:
                raise beyond_calendar(self.read.words_from(begin)) from None
            if taken:
                self.phrases.append(self.read.words_from(begin))
                if joined:
                    raise SearchError(f"{self.phrases[-1]!r} is a second span: ask for one at a time")
                return True
            self.read.place = begin
        return False

    # Parts: each reads on and is true, or is false

    def _recent(self) -> bool:
        match = self.read.take("(?:(?:in|within|during|over|for) )?(the |these )?(last|past|previous)")
        unit = match and match[2] == "last" and not match[1] and self.read.next in ("week", "month", "year")
        length = self.read.take_duration(recent=True) if match and not unit else None
        if length is not None:
            self._set(since=self._back(length))
        return length is not None

    def _ago(self) -> bool:
        begin, length = self.read.place, self.read.take_duration()
        if length is None or not self.read.take("ago"):
            return False
        moment, around = self._back(length), timedelta(minutes=AROUND)
        day = self.local.of(moment).date()
        if length < timedelta(days=1) or "hour" in self.read.words_from(begin):
            self._set(since=moment - around, until=moment + around)
        else:
            self._set(days=self._dates(day, day, f"{day:%d %B %Y}"))
        return True

    def _side(self) -> bool:
        """Since, after, before or until a day, a time, or a time of a day."""
        match = self.read.take(f"since|{_AFTER}|{_UNTIL}|before|earlier than")
        if not match:
            return False
        begin, word = self.read.place, match[0]
        low, ends = word in f"since|{_AFTER}".split("|"), word not in ("before", "earlier than")
        day, clock = self._moment()
        if clock is None and day is None:
            raise self._no_time(f"write {word} 18:00, or {word} yesterday")
        if day and word == "since":
            self._set(since=self._at(day, clock) if clock else day.begin)
        elif clock:
            self.lasting |= word == "since"
            self.apart |= low and self.high is not None
            self._set(**{"low" if low else "high": clock}, days=day)
        elif day and low:
            self._set(since=day.end)
        elif day and day.is_part:
            raise SearchError(
                f"{word} {self.read.words_from(begin)!r} may mean its begin or its end: write a time"
            )
        elif day:
            self._set(until=day.end if ends else day.begin)
        return True

    def _range(self) -> bool:
        """Between two days, two times, or a time of a day and one of another."""
        read, match = self.read, self.read.take("between|from")
        word = match[0] if match else ""
        if not word:
            read.take("on|in|during|over|for")
        day, clock = self._moment()
        if (day is None and clock is None) or (not word and clock and clock.words in _MINUTES):
            return False
        if not read.take("and" if word == "between" else f"{_TO}|and" if word else _TO):
            if word and clock:
                raise SearchError(f"{word} {clock.words} until when? write since {clock.words}, or a time")
            return False
        other, end = self._moment()
        if word and other is None and end is None:
            raise self._no_time("write between 9:00 and 17:00, or from 9 am to 5 pm")
        if day and other and clock and end:
            self._set(since=self._at(day, clock), until=self._at(other, end))
        elif clock and end:
            self._set(low=clock, high=end, days=day or other)
        elif day and other and not clock and not end:
            self._set(since=day.begin, until=other.end)
        elif word:
            raise SearchError("a day needs a day on the other side, and a time needs a time")
        else:
            return False
        return True

    def _hours(self) -> bool:
        """Hours of every day: at night, in the mornings, every day."""
        if self.read.take("(?:on |of )?(?:every|each) day"):
            self.every = True
            return True
        match = self.read.take(rf"(?:at|by) nights?|(?:(?:in|during) the )?(?P<part>{_PART})s")
        if match:
            self.every, self.nightly = self.every or bool(match["part"]), True
            self._set_part(match["part"] or "night")
        return bool(match)

    def _point(self) -> bool:
        """A day, a part of the day, or a time."""
        read = self.read
        if match := read.take("at about|at around|around|about|at"):
            if clock := self._clock():
                self.near |= match[0] != "at"
                self._set(at=clock)
                return True
            if match[0] == "at" and read.next[:1].isdecimal():
                raise SearchError(f"{read.next!r} is not a time of day: write 22:00, 6 pm or noon")
        read.take("on|in|during|from|of|over|for|at")
        if day := self._day():
            self._set(days=day)
        elif part := read.take("(?:the )?(morning|afternoon|evening|lunch)(?: ?time)?"):
            self._set_part(part[1])
        elif (clock := self._clock()) and (not clock.words.isalnum() or clock.words in NAMED_TIMES):
            self._set(at=clock)
        else:
            return False
        return True

    def _no_time(self, instead: str) -> SearchError:
        what = f"{self.read.next!r} is not a time" if self.read.next else "it ends too soon"
        return SearchError(f"{what}; {instead}")

    def _set_part(self, part: str) -> None:
        begin, end = PARTS[part]
        self._set(low=Clock(60 * begin, part), high=Clock(60 * end, part))

    def _set(self, **parts: object) -> None:
        for name, value in parts.items():
            if value is not None and getattr(self, name) is not None:
                raise SearchError(f"it says two times of one kind ({self.phrases[-1]}); ask them one by one")
            if value is not None:
                setattr(self, name, value)

    def compare(self) -> str:
        """Read a day, week or month beside the one that was read, and span both; the unit, or nothing."""
        begin, days, other = self.read.place, self.days, self._day()
        if days is None or other is None or days.begin == other.begin:
            self.read.place = begin
            return ""
        self.days = Days(min(days.begin, other.begin), max(days.end, other.end), self.read.words_from(begin))
        self.phrases.append(self.days.words)
        lengths = {round((each.end - each.begin) / timedelta(days=1)) for each in (days, other)}
        if lengths == {1} and not (days.is_part or other.is_part):
            return "day"
        if lengths == {7} or lengths <= {28, 29, 30, 31}:
            return "week" if lengths == {7} else "month"
        raise SearchError(f"{days.words} and {other.words} are not alike: compare two days, weeks or months")

    # Days and clocks

    def _moment(self) -> tuple[Days | None, Clock | None]:
        clock = self._clock()
        self.read.take("on|of")
        day = self._day()
        if day and not clock:
            self.read.take("at")
            clock = self._clock()
        return day, clock

    def _clock(self) -> Clock | None:
        if name := self.read.take("noon|midday|midnight"):
            return Clock(parse_time_of_day(name[0]), name[0])
        if digits := self.read.take(_MILITARY):
            return Clock(parse_time_of_day(f"{digits[1][:2]}:{digits[1][2:]}"), digits[0], exact=True)
        if spoken := self._spoken_clock():
            return spoken
        if not (match := self.read.take(_CLOCK)):
            return None
        minute, half = match["minute"], (match["half"] or "").replace("o'clock", "")
        if match[0].isalnum() and self.read.next in (*OBJECT_WORDS, *COLOURS, "of", "other"):
            self.read.place -= 1  # 5 cars
            return None
        hour = NUMBERS.index(match["hour"]) if match["hour"] in NUMBERS else int(match["hour"])
        shown = match["clock"].replace(match["hour"], str(hour), 1)
        if match["mark"] == "." and int(minute) <= _TWELVE and not match["half"]:
            month = MONTHS[(int(minute) or 1) - 1].capitalize()
            clock = shown.replace(".", ":")
            raise SearchError(f"{match['clock']!r} may be a time or a date: write {clock}, or {hour} {month}")
        if part := match["part"]:
            late = "night" in part and not 6 <= hour < _TWELVE  # noqa: PLR2004 - 2 at night
            half = "am" if "morning" in part or late else "pm"
        minutes = parse_time_of_day(shown if match["half"] else f"{shown} {half}".strip())
        twelve = not half and 1 <= hour <= _TWELVE and match["hour"][0] != "0"
        return Clock(minutes, match[0], half, twelve, exact=bool(minute))

    def _spoken_clock(self) -> Clock | None:
        """Twenty past four, quarter to five; "ten to five" is one after at or between, else a span."""
        before = self.read.previous not in _BEFORE_CLOCKS
        match = self.read.take(_SPOKEN)
        if not match or (before and not match[1] and "quarter" not in match[0]):
            self.read.place -= len(match[0].split()) if match else 0
            return None
        count = match[1] or match[0].removeprefix("a ").split()[0]
        minutes = int(_MINUTES.get(count, count))
        hour = NUMBERS.index(match[2]) if match[2] in NUMBERS else int(match[2])
        half = match[3] or (match[4] and ("am" if "morning" in match[4] else "pm")) or ""
        shown = parse_time_of_day(f"{hour} {half}".strip()) + (minutes if match[1] else -minutes)
        return Clock(shown % MINUTES, match[0], half, twelve=not half and hour <= _TWELVE)

    def _day(self) -> Days | None:
        """A day, a part of one, a weekend, week, month or year."""
        read, begin = self.read, self.read.place
        if period := self._night() or self._period():
            return period
        day: date | None
        if match := read.take(rf"(?:the )?(day before yesterday|yesterday|today|this(?= (?:{_PART})))"):
            day = self.today - timedelta(days={"yesterday": 1, "day before yesterday": 2}.get(match[1], 0))
        else:
            read.take("the")
            weekday, day = self._weekday(), self._date()
            if weekday and day and weekday.weekday() != day.weekday():
                raise SearchError(f"{read.words_from(begin)!r} was a {DAY_NAMES[day.weekday()].capitalize()}")
            day = day or weekday
        if day is None:
            read.place = begin
            return None
        if part := read.take(_PART):
            return self._part(day, PARTS[part[0]], read.words_from(begin))
        return self._dates(day, day, read.words_from(begin))

    def _night(self) -> Days | None:
        read, begin = self.read, self.read.place
        if read.take("tonight"):
            return self._part(self.today, (18, 30), "tonight")
        if read.take("(?:the )?(?:early|small) hours"):
            day = (read.take("of(?: the)?") and (self._weekday() or self._date())) or self.today
            return self._part(day, _EARLY, read.words_from(begin))
        night: date | None = self.today - timedelta(days=1)
        if read.take("(?:the )?night (?:of|from)"):
            night = self._weekday() or self._date()
            if night and read.take(_TO) and (self._weekday() or self._date()) != night + timedelta(days=1):
                raise SearchError(
                    f"{read.words_from(begin)!r} is not one night: write the night of 22 November"
                )
        elif not read.take("(?:the )?last night"):
            return None
        if night is None:
            raise SearchError(f"{read.next!r} is not a day: write the night of 22 November")
        return self._part(night, PARTS["night"], read.words_from(begin))

    def _weekday(self) -> date | None:
        if not (match := self.read.take(rf"(?:(last|this) )?({WEEKDAY})")):
            return None
        if match[0] == "sat" and self.read.next in ("in", "at", "on", "by", "near", "there"):
            raise SearchError("'sat' may be Saturday or who sits there: write Saturday, or was")
        back = (self.today.weekday() - _WEEKDAYS[match[2]]) % 7
        if week := self.read.take("(?:of )?(last|this) week"):
            back = self.today.weekday() - _WEEKDAYS[match[2]] + 7 * (week[1] == "last")
            return self.today - timedelta(days=back)
        return self.today - timedelta(days=back or 7 * (match[1] == "last"))

    def _date(self) -> date | None:
        before = self.read.words[: self.read.place]
        result = next(filter(None, map(self.read.take, _DATES)), None)
        if result is None:
            return None
        parts = result.groupdict()
        day, given = int(parts["d"]), parts.get("y")
        if "name" not in parts and "m" not in parts:  # on the 10th, not the 10th van
            if not {*before[-2:]} & _BEFORE_DAYS:
                self.read.place = len(before)
                return None
            first = self.today.replace(day=1)
            first -= timedelta(days=day > self.today.day)
            with suppress(ValueError):
                return first.replace(day=day)
            raise SearchError(
                f"there is no {result[0]} of {MONTHS[first.month - 1].capitalize()}: write its month"
            )
        month = _MONTH_NUMBERS.get(parts.get("name") or "") or int(parts["m"])
        if parts.get("mark") == "/" and day <= _TWELVE and month <= _TWELVE and day != month:
            name = MONTHS[month - 1].capitalize()
            raise SearchError(f"{result[0]} may be of two months: write {day} {name} {given or ''}".rstrip())
        if month > _TWELVE >= day:
            day, month = month, day
        year = self.today.year
        for each in [int(given)] if given else range(year, year - 5, -1):  # for 29 February
            with suppress(ValueError):
                if given or date(each, month, day) <= self.today:
                    return date(each, month, day)
        raise SearchError(f"there is no {result[0]}: write 3 May 2026, or 2026-05-03")

    def _period(self) -> Days | None:
        """This or last weekend, week, month or year, or a month by its name."""
        today = self.today
        if match := self.read.take(rf"({MONTH})(?: (\d{{4}}))?(?! \d)"):
            month = _MONTH_NUMBERS[match[1]]
            first = date(int(match[2]) if match[2] else today.year - (month > today.month), month, 1)
            return self._dates(first, _last_of_month(first), match[0])
        match = self.read.take("(this|last) (weekend|week|month|year)|the (weekend)")
        if not match:
            return None
        back, unit = match[1] == "last", match[2] or match[3]
        first, last = date(today.year - back, 1, 1), date(today.year - back, 12, 31)
        if unit == "weekend":
            first = today - timedelta(days=today.weekday() - 5)
            first -= timedelta(days=7 * (first > today or back))
            last = first + timedelta(days=1)
        elif unit == "week":
            first = today - timedelta(days=today.weekday() + 7 * back)
            last = first + timedelta(days=6)
        elif unit == "month":
            first = (today.replace(day=1) - timedelta(days=back)).replace(day=1)
            last = _last_of_month(first)
        return self._dates(first, last, match[0])

    def _dates(self, first: date, last: date, words: str) -> Days:
        return Days(self.local.midnight(first), self.local.midnight(last + timedelta(days=1)), words)

    def _part(self, day: date, hours: tuple[int, int], words: str) -> Days:
        begin, end = hours
        return Days(self._wall(day, 60 * begin), self._wall(day, 60 * (end + 24 * (end < begin))), words)

    def _back(self, length: timedelta) -> datetime:
        return self.local.aware(self.local.of(self.now - length).replace(tzinfo=None))

    def _wall(self, day: date, minutes: int, fold: int = 0) -> datetime:
        wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
        return self.local.aware(wall.replace(fold=fold))

    def _at(self, day: Days, clock: Clock) -> datetime:
        return self._wall(self.local.of(day.begin).date(), self._sure(clock, day))

    # Together

    def span(self) -> Span:
        """The span that was parsed.

        Raises:
            SearchError: a clock may mean two times, or a time is to come.
        """
        self._settle()
        since, until, days = self.since, self.until, self.days
        if days:
            since, until = max(since or days.begin, days.begin), min(until or days.end, days.end)
            if days.begin > self.now:
                raise SearchError(f"{days.words} is to come: only what was recorded can be asked for")
        if since and until and since >= until:
            raise SearchError(f"{' '.join(self.phrases)!r} ends before it begins")
        if not (self.low or self.high or self.at):
            return Span(since, until)
        if self.at and (self.low or self.high):
            raise SearchError(f"{self.phrases[-1]!r} is a second time of the day: ask for one at a time")
        if self.low and self.low.words == "midnight" and not (self.high or self.lasting) and days:
            raise SearchError("after midnight until when? write between midnight and 6 am")
        every = self.every or (self.nightly and days is None)
        one = days is not None and days.end - days.begin <= _LONGEST_DAY and not every
        if one and self.apart and self.low and self.high and self.low.minutes >= self.high.minutes:
            raise SearchError(f"{' '.join(self.phrases)!r} is two spans: ask for one at a time")
        if one or not (every or since or until):
            return self._within(*self._minutes(days))
        low, high = self._minutes(None)
        return Span(since, until, (low, (high or 0) % MINUTES))

    def _settle(self) -> None:
        """A part of a day says which half of it clocks are of, and no more; a night also has an evening."""
        days, given = self.days, {name: getattr(self, name) for name in ("low", "high", "at")}
        clocks = {name: clock for name, clock in given.items() if clock}
        if days is None or not days.is_part or not clocks:
            return
        begin = self.local.of(days.begin)
        if self.local.of(days.end).hour * 60 == _MORNING:
            late = [each.halves[1] if each.is_bare else each.minutes for each in clocks.values()]
            if begin.hour * 60 == _NIGHT and any(_AFTERNOON <= each < _NIGHT for each in late):
                self.days = replace(days, begin=self._wall(begin.date(), _AFTERNOON))  # at 9 last night
            return
        for name, clock in clocks.items():
            if clock.twelve:
                minutes = clock.halves[begin.hour >= _TWELVE] if clock.minutes % _NOON else _NOON
                late_twelve = minutes == _NOON and begin.hour > _TWELVE
                setattr(self, name, replace(clock, minutes=minutes + _NOON * late_twelve, twelve=False))
        self.days = self._dates(begin.date(), begin.date(), days.words)

    def _minutes(self, days: Days | None) -> tuple[int, int | None]:
        """Minutes of the day from which on, and before which; None is the end of the days."""
        if self.at:
            if self.at.words == "midnight" and days:
                raise SearchError(
                    f"midnight of {days.words} may be its begin or its end: write a day and 0:00"
                )
            minutes = self._sure(self.at, days)
            exact = self.at.exact and not self.near
            return (minutes, minutes + 1) if exact else (minutes - AROUND, minutes + AROUND)
        if self.low and self.high:
            return self._between(self.low, self.high, days)
        if self.low:
            return self._sure(self.low, days), None
        assert self.high is not None  # noqa: S101 - one of the three is there
        low = self.local.of(days.begin).hour * 60 if days else 0
        of_morning = self.high.is_bare and _MORNING <= self.high.minutes < _NOON and not low
        return low, self.high.minutes if of_morning else self._sure(self.high, days) or MINUTES

    def _between(self, low: Clock, high: Clock, days: Days | None) -> tuple[int, int]:
        """The span between two clock times; one without am or pm takes the other's."""
        begin, end = low.minutes, high.minutes
        if (days and days.is_part) or (low.is_bare and high.twelve and begin < _MORNING):
            return self._sure(low, days), self._sure(high, days)
        lows = low.halves if low.twelve and high.half else (begin,)
        highs = high.halves if high.is_bare or (high.twelve and (low.half or low.is_bare)) else (end,)
        begin, end = min(product(lows, highs), key=lambda each: (each[1] - each[0]) % MINUTES or MINUTES)
        return begin, end or MINUTES

    def _within(self, low: int, high: int | None) -> Span:
        """The hours of the one day that is meant, or of the last that has begun."""
        days, rest = self.days, high is None
        high = MINUTES if high is None else high
        of_night = days is not None and self.local.of(days.begin).hour * 60 >= _NOON > low
        day = self.local.of(days.begin if days else self.now).date() + timedelta(days=of_night)
        high += MINUTES * (high < low)
        if days is None and self._wall(day, low) > self.now:
            day -= timedelta(days=1)
        since, until = self._wall(day, low), self._wall(day, high, fold=1)
        shown = self.local.of(since)
        if (shown.hour * 60 + shown.minute - low) % MINUTES and until - since < timedelta(hours=1):
            raise SearchError(f"there was no {low // 60:02d}:{low % 60:02d} on that day: clocks went forward")
        if rest:
            return Span(since, days.end if days else None if self.lasting else until)
        if days and days.is_part and not (self.low and self.high and since < days.end and until > days.begin):
            since, until = max(since, days.begin), min(until, days.end)
        if since >= until:
            raise SearchError(f"{' '.join(self.phrases)!r} ends before it begins")
        begin, end = (datetime.combine(day, time()) + timedelta(minutes=each) for each in (low, high))
        clocks = (
            self.local.of(since + timedelta(minutes=n)).replace(tzinfo=None, fold=0)
            for n in range((until - since) // timedelta(minutes=1))
        )
        # Where clocks go back, between the two times of the first and the last minute lie others.
        outside = any(not begin <= clock < end for clock in clocks)
        return Span(since, until, (low % MINUTES, high % MINUTES) if outside else None)

    def _sure(self, clock: Clock, days: Days | None = None) -> int:
        """Its minutes; of a bare hour the only half that fits the days, or that has passed today.

        Raises:
            SearchError: both fit, or none.
        """
        if not clock.is_bare:
            return clock.minutes
        day = self.local.of(days.begin if days else self.now).date()
        begin, end = (days.begin, days.end) if days else (self._wall(day, 0), self.now)
        walls = {m: (self._wall(day, m), self._wall(day + timedelta(days=1), m)) for m in clock.halves}
        fitting = [m for m, both in walls.items() if any(begin <= each < end for each in both)]
        if len(fitting) == 1:
            return fitting[0]
        if clock.minutes == _NOON and _NOON in fitting:
            return _NOON
        hour = clock.halves[0] // 60 or 12
        raise SearchError(
            f"{clock.words!r} may be of the morning or of the evening: write {hour} am or {hour} pm"
        )


def read_span(words: str, now: datetime, local: LocalTime) -> Span:
    """A span alone: "yesterday", "last night", "since 8 am", "since I left at 8".

    Raises:
        SearchError: it is none; the message names the word.
    """
    reader = SpanReader(Reading.of(words, [("since i left(?: at)?", "since")]), now, local)
    while reader.read.next:
        if not reader.take():
            raise SearchError(f"{reader.read.next!r} is no time: write yesterday, last night or since 8 am")
    return reader.span()


def _last_of_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
