"""Days and times of the day in words: last night, 22.11.2026, 18:19, half past nine.

A weekday and a date without a year are the last that have begun.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta

from daemon.questions.question import DAY_NAMES, MINUTES, LocalTime, SearchError, parse_time_of_day
from daemon.questions.words import COLOURS, MONTHS, NUMBERS, OBJECT_WORDS, PARTS, UNITS, Reading, either

HOURS = PARTS | {"tonight": (18, 30)}
_MONTH_NUMBERS = {name[:length]: n for n, name in enumerate(MONTHS, 1) for length in (3, 4, len(name))}
WEEKDAYS = {name[:length]: n for n, name in enumerate(DAY_NAMES) for length in (3, 4, 5, len(name))}
NOON, MORNING = 12 * 60, 6 * 60
_TWELVE = 12
_ORDINAL = "(?: ?(?:st|nd|rd|th))?"
MONTH, WEEKDAY, PART = either(_MONTH_NUMBERS), either(WEEKDAYS), either(PARTS)
_YEAR = r"(?: (?P<y>(?:19|20|[3-9]\d)\d\d))?"
_DATES = (
    r"(?P<y>\d{4})[-/](?P<m>\d\d)[-/](?P<d>\d\d)",
    r"(?P<d>\d\d?)(?P<mark>[./-])(?P<m>\d\d?)(?:[./-](?P<y>\d{4}|\d\d)|\.)",
    rf"(?P<d>\d\d?){_ORDINAL}(?: of)? (?P<name>{MONTH}){_YEAR}",
    rf"(?P<name>{MONTH}) (?:the )?(?P<d>\d\d?){_ORDINAL}{_YEAR}",
    r"(?P<d>\d\d?) (?P<mark>/) (?P<m>\d\d?)(?! /)",
    r"(?P<d>\d\d?) ?(?:st|nd|rd|th)(?: of (?P<which>this|last) month)?(?! of (?:each|every) )",
)
_HOUR = rf"\d\d?|{either(NUMBERS[1:])}"
_HALF = r"(?: o'clock)?(?: (?P<half>am|pm))?(?P<part> in the (?:morning|afternoon|evening)| at night)?"
_NO_HOURS = ("quarter", "twenty", "twenty-five")
SPOKEN_MINUTES = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20, "twenty-five": 25}
_SPOKEN = (
    rf"(?:a )?(?P<minutes>{either(SPOKEN_MINUTES)}|\d\d?)(?P<unit> min(?:ute)?s?)? (?P<way>past|to) "
    rf"(?P<hour>{_HOUR}){_HALF}"
)
_MILITARY = r"((?:[01]\d|2[0-4])(?!(?<=20)2\d)[0-5]\d)(?: (?:hrs|hours|h))?"
"""0700 hours; no year."""
_CLOCK = (
    rf"(?P<hour>{_HOUR})(?:(?P<mark>[:.])(?P<minute>\d\d))?{_HALF}"
    r"(?:(?<=[ap]m)|(?! (?:%|percent|/|or more|st|nd|rd|th|"
    rf"(?:{UNITS})s?|(?:of )?(?:{MONTH}))(?: |$)))"
)
TO = "to|until|till|through|-"
ABOUT = "about|around|roughly|approximately"
_BEFORE_DAYS = {*f"on|since|from|until|till|to|through|of|before|after|between|and|{WEEKDAY}".split("|")}


@dataclass(frozen=True, slots=True)
class Days:
    """Some days, or the `part` of one: from `begin` on, before `end`; `words` as the question has them.

    The part is `beside` a clock where it says which half that is of: before 7 this morning.
    """

    begin: datetime
    end: datetime
    words: str
    part: str = ""
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day."""

    minutes: int  # since midnight
    words: str  # as the question has them
    half: str = ""  # am or pm, where given
    twelve: bool = False  # may be of a clock of twelve hours without its half
    exact: bool = False  # given with minutes

    @property
    def is_bare(self) -> bool:
        """It may be of the morning or of the evening: 8, and 3:15, but not 8:30."""
        return self.twelve and not (self.exact and self.minutes >= MORNING)

    @property
    def halves(self) -> tuple[int, int]:
        """Its minutes in the morning, and in the evening."""
        return self.minutes % NOON, self.minutes % NOON + NOON


@dataclass(slots=True)
class MomentReader:
    """Reads days, and times of the day."""

    read: Reading
    now: datetime
    local: LocalTime

    @property
    def today(self) -> date:
        """Today's date in the time zone."""
        return self.local.of(self.now).date()

    def _moment(self, *, spoken: bool, last: bool = False) -> tuple[Days | None, Clock | None]:
        read = self.read
        clock = self._clock(spoken=bool(read.take(ABOUT)) or spoken)
        begin = read.place
        read.take("on|of|in")
        day = self._day()
        if clock and day and last and read.take(TO):  # 9 to 5, Monday to Friday
            day = None
        if day and clock:
            return replace(day, beside=bool(day.part)), clock
        read.place = read.place if day else begin
        begin = read.place
        if day:
            read.take(f"at(?: (?:{ABOUT}))?|,")
            clock = self._clock(spoken=spoken)
            read.place = read.place if clock else begin
        return day, clock

    def _clock(self, *, spoken: bool = False) -> Clock | None:
        """A time of day; only where it is `spoken` is "10 to 5" one, else it is a span."""
        read, begin = self.read, self.read.place
        if name := read.take("(?:12 |twelve )?(noon|midday|midnight)"):
            return Clock(parse_time_of_day(name[1]), name[1])
        if digits := read.take(_MILITARY):
            return Clock(parse_time_of_day(f"{digits[1][:2]}:{digits[1][2:]}"), digits[0], exact=True)
        match, shift = self._spoken(spoken=spoken)
        if not (match := match or read.take(_CLOCK)):
            return None
        things = {word for word, name in OBJECT_WORDS.items() if name != "somebody"}
        if match[0].isalnum() and read.next in (*things, *COLOURS, "of", "other"):
            read.place = begin  # 5 cars
            return None
        hour = NUMBERS.index(match["hour"]) if match["hour"] in NUMBERS else int(match["hour"])
        parts = match.groupdict()
        minute, half, part = parts.get("minute"), match["half"] or "", match["part"]
        dated = (
            parts.get("mark") == "." and not half and read.words[begin - 1] not in ("at", *ABOUT.split("|"))
        )
        if dated and int(minute or 0) <= _TWELVE:
            month = MONTHS[(int(minute or 0) or 1) - 1].capitalize()
            clock = f"{hour}.{minute}"
            raise SearchError(f"{clock!r} may be a time or a date: write {hour}:{minute}, or {hour} {month}")
        if part and hour <= _TWELVE:
            late = "night" in part and not 6 <= hour < _TWELVE  # noqa: PLR2004 - 2 at night
            half = "am" if "morning" in part or late else "pm"
        if shift < 0 and hour == _TWELVE:  # quarter to twelve in the morning; quarter to 12 pm may be both
            half, shift = (half, shift + NOON * ("night" not in part)) if part else ("", shift)
        shown = parse_time_of_day(f"{hour}{(minute and ':' + minute) or ''} {half}".strip())
        twelve = not half and 1 <= hour <= _TWELVE and match["hour"][0] != "0"
        return Clock(
            (shown + shift) % MINUTES if shift else shown, match[0], half, twelve, exact=bool(minute)
        )

    def _spoken(self, *, spoken: bool) -> tuple[re.Match[str] | None, int]:
        """Half past nine or ten to four, and its minutes from the hour."""
        begin, match = self.read.place, self.read.take(_SPOKEN)
        if not match:
            return None, 0
        minutes, to = match["minutes"], match["way"] == "to"
        if to and not (spoken or match["unit"] or minutes in _NO_HOURS):
            self.read.place = begin
            return None, 0
        return match, int(SPOKEN_MINUTES.get(minutes, minutes)) * (-1 if to else 1)

    def _day(self) -> Days | None:
        """A day, a part of one, a weekend, week, month or year."""
        read, begin = self.read, self.read.place
        if period := self._night() or self._period() or self._days_ago():
            return period
        day: date | None
        if match := read.take(rf"(?:the )?(day before yesterday|yesterday|today|this(?= (?:{PART})))"):
            day = self.today - timedelta(days={"yesterday": 1, "day before yesterday": 2}.get(match[1], 0))
        else:
            read.take("the")
            weekday = self._weekday()
            read.take(r"the(?= \d)")
            day = self._date()
            if weekday and day and weekday.weekday() != day.weekday():
                raise SearchError(f"{read.words_from(begin)!r} was a {DAY_NAMES[day.weekday()].capitalize()}")
            day = day or weekday
        if day is None:
            read.place = begin
            return None
        if part := read.take(PART):
            return self._part(day, part[0], read.words_from(begin))
        return self._dates(day, day, read.words_from(begin))

    def _night(self) -> Days | None:
        read, begin = self.read, self.read.place
        if read.take("tonight"):
            return self._part(self.today, "tonight", "tonight")
        if match := read.take("(?:the )?last (night|evening)|the (night|evening) before last"):
            back = timedelta(days=1 if match[1] else 2)
            return self._part(self.today - back, match[1] or match[2], match[0])
        match = read.take(
            "(?:the )?(?:(night)(?= (?:of|from|between))|overnight)(?: (?:of|on|from|between))?"
        )
        if not match:
            return None
        named = self._day()
        day = self._first(named) if named else self.today - timedelta(days=1)
        if match[1] and not named:
            raise SearchError(f"{read.next!r} is not a day: write the night of 22 November")
        if named and read.take(f"{TO}|and|/"):
            other = self._day()
            apart = (self._first(other) - day).days if other else 0
            if apart not in (1, 1 - len(DAY_NAMES)):  # a weekday is the last that has begun
                raise SearchError(f"{read.words_from(begin)!r} is not one night: write the night of 22 May")
            day += timedelta(days=apart - 1)
        return self._part(day, "night", read.words_from(begin))

    def _days_ago(self) -> Days | None:
        begin, length = self.read.place, self.read.take_duration()
        hours = "hour" in self.read.words_from(begin)
        if length is None or hours or length % timedelta(days=1) or not self.read.take("ago"):
            self.read.place = begin
            return None
        day = self.local.of(self._back(length)).date()
        return self._dates(day, day, f"{day:%d %B %Y}")

    def _weekday(self) -> date | None:
        if not (match := self.read.take(rf"(?:(last|this) )?({WEEKDAY})")):
            return None
        if match[0] == "sat" and self.read.next in ("in", "at", "on", "by", "near", "there"):
            raise SearchError("'sat' may be Saturday or who sits there: write Saturday, or was")
        back = (self.today.weekday() - WEEKDAYS[match[2]]) % 7
        if week := self.read.take("(?:of )?(last|this) week"):
            back = self.today.weekday() - WEEKDAYS[match[2]] + 7 * (week[1] == "last")
            return self.today - timedelta(days=back)
        back = back or 7 * (match[1] == "last")
        return self.today - timedelta(days=back + 7 * bool(self.read.take("a week before")))

    def _date(self) -> date | None:
        before = self.read.words[: self.read.place]
        result = next(filter(None, map(self.read.take, _DATES)), None)
        if result is None:
            return None
        parts = result.groupdict()
        day, given = int(parts["d"]), parts.get("y")
        if "name" not in parts and "m" not in parts:  # on the 10th, not the 10th van
            if not {*before[-2:]} & _BEFORE_DAYS and not parts["which"]:
                self.read.place = len(before)
                return None
            first = self.today.replace(day=1)
            first -= timedelta(days=parts["which"] == "last" or (not parts["which"] and day > self.today.day))
            with suppress(ValueError):
                return first.replace(day=day)
            raise SearchError(f"there is no {result[0]} of that month: write its month")
        month = _MONTH_NUMBERS.get(parts.get("name") or "") or int(parts["m"])
        slashed = parts.get("mark") in ("/", "-") and day != month and max(day, month) <= _TWELVE
        if slashed and self._month_first():
            day, month = month, day
        elif slashed and self._month_first() is None:
            name = MONTHS[month - 1].capitalize()
            raise SearchError(f"{result[0]} may be of two months: write {day} {name} {given or ''}".rstrip())
        if month > _TWELVE >= day:
            day, month = month, day
        year = self.today.year
        for each in [int(f"20{given}"[-4:])] if given else range(year, year - 5, -1):  # for 29 February
            with suppress(ValueError):
                if given or date(each, month, day) <= self.today:
                    return date(each, month, day)
        raise SearchError(f"there is no {result[0]}: write 3 May 2026, or 2026-05-03")

    def _month_first(self) -> bool | None:
        """True of 6/10/2026 for 10 June: by a date of the question whose day is above 12, or by the zone."""
        dates = re.findall(r"(?<!\S)(\d\d?) ?/ ?(\d\d?)(?!\d)", " ".join(self.read.words))
        orders = {int(d) <= _TWELVE for d, m in dates if (int(d) > _TWELVE) != (int(m) > _TWELVE)}
        if not orders and getattr(self.local.zone, "key", "").startswith("Europe/"):
            return False
        return orders.pop() if len(orders) == 1 else None

    def _period(self) -> Days | None:
        """This or last weekend, week, month or year, or a month by its name."""
        today = self.today
        if match := self.read.take(rf"({MONTH})(?: (\d{{4}}))?(?! (?:the )?\d)"):
            month = _MONTH_NUMBERS[match[1]]
            first = date(int(match[2]) if match[2] else today.year - (month > today.month), month, 1)
            return self._dates(first, _last_of_month(first), match[0])
        year = "(?:the )?(?:calendar )?year "
        if match := self.read.take(rf"(?:{year}){'?' if self.read.previous == 'in' else ''}(20\d\d)"):
            return self._dates(date(int(match[1]), 1, 1), date(int(match[1]), 12, 31), match[1])
        if match := self.read.take(r"week (\d\d?)(?:(?: of)? (20\d\d))?"):
            week, of = int(match[1]), int(match[2] or today.year)
            with suppress(ValueError):
                first = date.fromisocalendar(of - (not match[2] and week > today.isocalendar().week), week, 1)
                return self._dates(first, first + timedelta(days=6), match[0])
        begin = self.read.place
        if self.read.take(r"(?:the )?week of(?: the)?(?: monday)?(?= \d)") and (day := self._date()):
            first = day - timedelta(days=day.weekday())
            return self._dates(first, first + timedelta(days=6), self.read.words_from(begin))
        self.read.place = begin
        weeks = "the (week(?:end)?) before last(?: week)?|(?:the )?(weekend)"
        match = self.read.take(f"(this|last) (week(?:end)?|month|year)|{weeks}")
        if not match:
            return None
        back, unit = match[1] == "last" or 2 * bool(match[3]), match[2] or match[3] or match[4]
        first, last = date(today.year - back, 1, 1), date(today.year - back, 12, 31)
        if unit == "weekend":
            first = today - timedelta(days=today.weekday() - 5)
            first -= timedelta(days=7 * max(first > today, back))
            last = first + timedelta(days=1)
        elif unit == "week":
            first = today - timedelta(days=today.weekday() + 7 * back)
            last = first + timedelta(days=6)
        elif unit == "month":
            first = (today.replace(day=1) - timedelta(days=back)).replace(day=1)
            last = _last_of_month(first)
        return self._dates(first, last, match[0])

    def _first(self, days: Days) -> date:
        return self.local.of(days.begin).date()

    def _dates(self, first: date, last: date, words: str) -> Days:
        return Days(self.local.midnight(first), self.local.midnight(last + timedelta(days=1)), words)

    def _part(self, day: date, part: str, words: str) -> Days:
        begin, end = (self._wall(day, 60 * hour) for hour in HOURS[part])
        return Days(begin, end, words, part)

    def _so_far_back(self) -> datetime | None:
        """So long ago; months and years are those of the calendar. None where no length comes next."""
        begin, number = self.read.place, self.read.take_number()
        if not (unit := self.read.take("(month|year)s?")):
            self.read.place = begin
            return self._back(length) if (length := self.read.take_duration(recent=True)) else None
        wall = self.local.of(self.now).replace(tzinfo=None)
        back = (1 if number is None else number) * (1 if unit[1] == "month" else 12)
        year, month = divmod(12 * wall.year + wall.month - 1 - back, 12)
        day = min(wall.day, _last_of_month(date(year, month + 1, 1)).day)
        return self.local.aware(wall.replace(year=year, month=month + 1, day=day))

    def _back(self, length: timedelta) -> datetime:
        return self.local.aware(self.local.of(self.now - length).replace(tzinfo=None))

    def _wall(self, day: date, minutes: int, fold: int = 0) -> datetime:
        wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
        return self.local.aware(wall.replace(fold=fold))


def _last_of_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
