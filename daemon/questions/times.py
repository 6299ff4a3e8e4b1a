"""Spans of time in words: last night, after 10 pm yesterday, from 9 to 5, 22.11.2026 at 18:19.

A weekday, a date without a year and a clock without a day are the last that have begun. A bare hour that may
be of the morning or of the evening is an error, never a guess; "9 to 5" is read as working hours are. A part
of a day beside a clock says which half is meant: "before 7 this morning" begins at midnight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from itertools import pairwise, product

from daemon.questions.question import (
    DAY_NAMES,
    MINUTES,
    LocalTime,
    SearchError,
    Span,
    beyond_calendar,
    join_spans,
    parse_time_of_day,
)
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
AROUND = 15
"""Minutes on both sides of "around 6 pm", and of an hour without minutes."""

_LONGEST_DAY = timedelta(hours=25)
_LONGEST_UNION = timedelta(days=62)
_LOOSE = HOURS | {"morning": (0, 12)}
"""Their hours where a clock bounds them: this morning before 5."""
_SAID = _LOOSE | {"afternoon": (12, 20), "evening": (16, 24), "night": (17, 30), "lunch": (11, 15)}
"""Clocks that are said with them: 7 last night, 5 in the evening."""
_NIGHTLY = {"am", "dark", "dawn", "early", "midnight", "morning", "mornings", "night", "nights", "overnight"}
_NIGHTLY |= {"asleep", "bed", "small", "sunrise", "tonight"}
_AFTER, _BEFORE = "after|later than|past", "before|earlier than|prior to|ahead of"
_UNTIL = rf"until|till|up to|up until|by(?= (?:\d|noon|midnight|half|quarter|{WEEKDAY}|{either(NUMBERS)}))"


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
class SpanReader:
    """Reads the parts of a question about time.

    Attributes:
        since, until: moments that were given as such.
        low, high: clocks of "after" and "before", or of "from" and "to".
    """

    read: Reading
    now: datetime
    local: LocalTime
    days: Days | None = None  # the days that are meant; the `part` of each
    part: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    low: Clock | None = None
    high: Clock | None = None
    at: Clock | None = None  # a clock, with `near` not to the minute
    near: bool = False
    lasting: bool = False  # the end is open, or was once said to be
    every: bool = False  # hours are of every day; `nightly` only where no day is given
    nightly: bool = False
    apart: bool = False  # before one clock and after another
    usual: str = ""  # it is compared with the usual one, of this weekday where it is one
    compared: bool = False  # the spans are counted beside each other
    listed: bool = False  # there are several
    phrases: list[str] = field(default_factory=list)  # the words of each part
    before: list[SpanReader] = field(default_factory=list)  # spans that were read before this one
    weekdays: frozenset[int] = frozenset()  # only on these
    _hourly: bool = False
    _joined: str = ""  # the word after which what is read now may be of another span
    day_last: bool = False  # the span's last part was its day

    @property
    def said(self) -> str:
        """The words of all parts."""
        return " ".join(self.phrases)

    @property
    def of_day_alone(self) -> bool:
        """True of a time or part of the day without its day."""
        return bool(self.phrases) and not (self.days or self.since or self.until)

    def take(self, joined: str = "") -> bool:
        """Read one more part about time, after "than" of another span; False where none comes next.

        Raises `SearchError` where it is no time, or says something twice.
        """
        begin, before = self.read.place, self.read.previous
        self._joined = joined or (before if self.phrases and before in ("and", "or") else "")
        parts = (self._recent, self._ago, self._side, self._listed, self._range, self._hours, self._point)
        try:
            taken = self.read.first_of(*parts)
        except (OverflowError, ValueError):
            raise beyond_calendar(self.read.words_from(begin)) from None
        if taken:
            self.phrases.append(self.read.words_from(begin))
        return bool(taken)

    # Parts: each reads on and is true, or is false

    def _recent(self) -> bool:
        """The last so long; so many nights or mornings, each a span."""
        last = "(?:the|these) last|last(?! (?:week|month|year)(?: |$))|(?:(?:the|these) )?(?:past|previous)"
        if not self.read.take(f"(?:(?:in|within|during|over|for|from|throughout) )?(?:{last})"):
            return False
        begin, number = self.read.place, self.read.take_number()
        if number and (part := self.read.take(f"({PART})s")):
            newest = self._first(self._one_part(part[1]))
            for back in reversed(range(min(number, _LONGEST_UNION.days))):
                self._set(days=self._part(newest - timedelta(days=back), part[1], part[0]))
                self._joined = "and"
            return True
        self.read.place = begin
        since = self._so_far_back()
        if since is None:
            return False
        if self.read.next in ("before", "after", "preceding", "following"):
            raise SearchError(f"so long {self.read.next} a time is not read: write both times")
        self._set(since=since)
        return True

    def _ago(self) -> bool:
        if days := self.read.first_of(self._days_ago):
            self._set(days=days)
            return True
        length, around = self.read.take_duration(), timedelta(minutes=AROUND)
        if length is None or not self.read.take("ago"):
            return False
        self._set(since=self._back(length) - around, until=self._back(length) + around)
        return True

    def _side(self) -> bool:
        """Since, after, before or until a day, a time, or a time of a day."""
        near = "(?:just|shortly|soon|right|a (?:bit|little)) "
        match = self.read.take(f"since|({near})?({_AFTER}|{_BEFORE})|{_UNTIL}")
        if not match or self.read.words_from(0).endswith(("the till", "our till")):
            return False
        word = match[2] or match[0]
        low, ends = word in f"since|{_AFTER}".split("|"), word not in _BEFORE.split("|")
        day, clock = self._moment(spoken=True)
        if word == "past" and not clock:  # it went past on Monday
            return False
        if match[1] and clock:
            minutes = clock.minutes + (AROUND if low else -AROUND)
            self._set(at=replace(clock, minutes=minutes % MINUTES), days=day)
            self.near = True
        elif clock:
            self._bound(clock, day, low=low, lasting=word == "since")
        elif day is None:
            event = "; of an event ask first when it was" if word in ("before", "after") else ""
            raise self._no_time(f"write {word} 18:00, or {word} yesterday{event}")
        elif low:
            self._set(since=day.begin if word == "since" else day.end)
        elif day.part:
            raise SearchError(f"{word} {day.words!r} may mean its begin or its end: write a time")
        else:
            self._set(until=day.end if ends else day.begin)
        return True

    def _bound(self, clock: Clock, day: Days | None, *, low: bool, lasting: bool) -> None:
        """Set a moment of a day, or a clock of the days that are meant."""
        if day and lasting:
            self.lasting = True
            self._set(since=self._at(day, clock))
        elif day and not low and self.since:
            self._set(until=self._at(day, clock))
        elif day and low and clock.words == "midnight" and not day.part:
            raise self._midnight(day)
        else:
            self._set(**{"low" if low else "high": clock}, days=day)
            self.lasting |= lasting
            self.apart |= low and self.high is not None

    def _range(self) -> bool:
        """Between two days, two times, or a time of a day and one of another."""
        read = self.read
        match = read.take("between|from")
        word = match[0] if match else ""
        if not word:
            read.take("on|in|during|over|for")
        day, clock = self._moment(spoken=word == "between")
        joined = {"between": "and", "from": f"(?:up )?(?:{TO})|and"}.get(word, f"{TO}|/")
        both = not word and clock is not None and clock.words in SPOKEN_MINUTES  # ten to five
        both |= not word and clock is None and self.compared  # compare this week to last week
        if both or not ((day or clock) and read.take(joined)):
            open_end = (
                self.days if day is None else day.begin < self.now < day.end <= day.begin + _LONGEST_DAY
            )
            if word == "from" and clock and open_end:  # today from 8 am
                self._set(low=clock, days=day)
                return True
            if word and clock:
                raise SearchError(f"{word} {clock.words} until when? write since {clock.words}, or a time")
            return False
        if read.take("now|the present"):
            self.lasting = clock is not None
            self._set(**{"since": self._at(day, clock)} if day else {"low": clock})
            return True
        other, end = self._moment(spoken=True, last=True)
        if day and other and bool(clock) == bool(end):
            self._set(since=self._at(day, clock), until=self._at(other, end) if end else other.end)
        elif clock and end:
            self._set(low=clock, high=end, days=day or other)
        elif word:
            raise self._no_time("write between 9:00 and 17:00, from 9 am to 5 pm, or Monday to Friday")
        else:
            return False
        return True

    def _listed(self) -> bool:
        """Days in a list: Saturday and Sunday; Monday, Tuesday and Wednesday."""
        self.read.take("on|in|during|over|for")
        days = [*iter(self._day, None)]
        if not days or self.compared or not self.read.take("(?:and|or)(?: (?:on|in|during|over|for))?"):
            return False
        if not (last := self._day()):
            return False
        self.listed = True
        if last.part and not all(day.part for day in days) and last.words.split()[-2:-1] != ["this"]:
            raise SearchError(f"{last.words!r} may be of one day or of all: write the {last.part} of each")
        days = sorted([*days, last], key=lambda day: day.begin)
        if all(one.end >= other.begin for one, other in pairwise(days)):
            self._set(since=days[0].begin, until=max(day.end for day in days))
            return True
        for day in days:
            self._set(days=day)
            self._joined = "and"
        return True

    def _hours(self) -> bool:
        """Hours of every day, or of some: at night, in the mornings, every day, on Mondays."""
        if self._weekdays():
            return True
        if self.read.take("(?:on |of )?(?:every|each) day"):
            self.every = True
            return True
        match = self.read.take(rf"(?:at|by) nights?|(?:(?:in|during) the )?(?P<part>{PART})s")
        if match:
            self.every, self.nightly = self.every or bool(match["part"]), True
            self._set(part=match["part"] or "night")
        return bool(match)

    def _weekdays(self) -> bool:
        """Some days of every week, or a part of them: on weekdays, on Mondays and Tuesdays, Sunday nights."""
        day = f"(?:{either((*DAY_NAMES, 'weekday', 'workday', 'working day', 'weekend'))})"
        match = self.read.take(
            rf"(?:(?:on|at|over|during|in) )?(?:the )?"
            rf"(?:(?:every|each) {day}|{day}s(?: and {day}s)*|{day}(?= (?:{PART})s))(?: ({PART})s?)?"
        )
        if match:
            said = {n for n, name in enumerate(DAY_NAMES) if name in match[0]}
            self.weekdays = frozenset((5, 6) if "weekend" in match[0] else said or range(5))
            self.every = True
            self._set(part=match[1])
        return bool(match)

    def _point(self) -> bool:
        """A day, a part of the day, or a time."""
        read = self.read
        match = read.take(f"(?:at )?(?:{ABOUT})|at")
        if match and (clock := self._clock(spoken=True)):
            self._set(at=clock)
            self.near |= match[0] != "at"
            return True
        read.take("on|in|during|from|of|over|for|at")
        if day := self._day():
            self._set(days=day)
        elif part := read.take(r"(?:the )?(morning|afternoon|evening|lunch)|the (night)"):
            whole, name = self.days, part[1] or part[2]
            if whole and whole.part and self._joined:  # yesterday morning and evening
                self._set(days=self._part(self._first(whole), name, name))
            else:
                self._set(part=name)
        elif (clock := self._clock()) and not (clock.words.isdecimal() or clock.words in NUMBERS):
            self._set(at=clock)
        else:
            return False
        return True

    def _no_time(self, instead: str) -> SearchError:
        what = f"{self.read.next!r} is not a time" if self.read.next else "it ends too soon"
        return SearchError(f"{what}; {instead}")

    def _set(self, **parts: object) -> None:
        given = {name: value for name, value in parts.items() if value is not None}
        if self._joined == "than" or any(getattr(self, name) is not None for name in given):
            if not self._joined:
                raise SearchError(f"it says two times of one kind ({self.phrases[-1]}); ask them one by one")
            self._begin_another()
        for name, value in given.items():
            setattr(self, name, value)
        self.day_last = "days" in given

    def _begin_another(self) -> None:
        self.before.append(copy(self))
        self.listed = True
        self.days = self.part = self.since = self.until = self.low = self.high = self.at = None
        self.near = self.lasting = self.apart = self.day_last = False
        self._joined = "and"

    def compare(self) -> bool:
        """Read on in a span that is compared with the one that was read, or with today."""
        alone = not self.phrases
        if alone:
            self._mean_today()
        compared = self.take(joined="than")
        self.compared |= compared
        if alone and compared and self.days:
            self.before[-1].days = self._this_like(self.days)
        self.days = self.days if compared or not alone else None
        return compared

    def _mean_today(self) -> None:
        self.days, self.phrases = self._dates(self.today, self.today, "today"), ["today"]

    def _beside_usual(self, span: Span) -> Span:
        """The span as far as it is over, beside the same of the four weeks before."""
        since, until = span.since, min(span.until or self.now, self.now)
        if since is None or span.pieces or span.between or until - since > timedelta(days=7, hours=1):
            raise SearchError("than usual when? write a day, or a part of one")
        if self.local.of(since).weekday() != WEEKDAYS.get(self.usual, self.local.of(since).weekday()):
            raise SearchError(f"{self.said!r} was no {self.usual}: write than usual")
        begin, end = (self.local.of(each).replace(tzinfo=None) for each in (since, until))
        weeks = (timedelta(weeks=n) for n in range(4, -1, -1))
        pieces = tuple((self.local.aware(begin - back), self.local.aware(end - back)) for back in weeks)
        return Span(pieces[0][0], until, pieces=pieces)

    def _this_like(self, days: Days) -> Days | None:
        """Today, this week or this month, as the days are one."""
        length = round((days.end - days.begin) / timedelta(days=1))
        words = {1: "today", 7: "this week", **dict.fromkeys(range(28, 32), "this month")}.get(length)
        if not words or days.part:
            raise SearchError(f"{days.words!r} is compared with what? write both times")
        this = SpanReader(Reading(words.split()), self.now, self.local)
        this.take()
        return this.days

    def _at(self, days: Days, clock: Clock | None) -> datetime:
        if clock is None:
            return days.begin
        return self._wall(self._first(days), self._sure(clock, days, days.part))

    # Days, and times of the day

    @property
    def today(self) -> date:
        """Today's date in the time zone."""
        return self.local.of(self.now).date()

    def _moment(self, *, spoken: bool, last: bool = False) -> tuple[Days | None, Clock | None]:
        """A day with its time, in any order, or one of them; after the `last` no other comes."""
        read = self.read
        clock = self._clock(spoken=bool(read.take(ABOUT)) or spoken)

        def day_of_it() -> Days | None:
            read.take("on|of|in")
            day = self._day()
            return None if clock and last and day and read.take(TO) else day  # 9 to 5, Monday to Friday

        def clock_of_it() -> Clock | None:
            read.take(f"at(?: (?:{ABOUT}))?|,")
            return self._clock(spoken=spoken)

        day = read.first_of(day_of_it)
        if day and clock:
            return replace(day, beside=bool(day.part)), clock
        return day, clock or (read.first_of(clock_of_it) if day else None)

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
        return self.read.first_of(self._night, self._period, self._week_of, self._days_ago, self._one_day)

    def _one_day(self) -> Days | None:
        read, begin = self.read, self.read.place
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
        weeks = "the (week(?:end)?) before last(?: week)?|(?:the )?(weekend)"
        match = self.read.take(f"(this|last) (week(?:end)?|month|year)|{weeks}")
        if not match:
            return None
        back, unit = match[1] == "last" or 2 * bool(match[3]), match[2] or match[3] or match[4]
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
        else:
            first, last = date(today.year - back, 1, 1), date(today.year - back, 12, 31)
        return self._dates(first, last, match[0])

    def _week_of(self) -> Days | None:
        begin = self.read.place
        if not self.read.take(r"(?:the )?week of(?: the)?(?: monday)?(?= \d)") or not (day := self._date()):
            return None
        first = day - timedelta(days=day.weekday())
        return self._dates(first, first + timedelta(days=6), self.read.words_from(begin))

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

    # Together

    def span(self) -> Span:
        """The span that was parsed.

        Raises `SearchError` where a clock may mean two times, or a time is to come.
        """
        if self.usual and not self.phrases:
            self._mean_today()
        every = [*self.before, self]
        if self.before:
            every = [each.with_parts_of(every[:n], every[n + 1 :]) for n, each in enumerate(every)]
        spans = [each.single() for each in every]
        span = spans[0] if len(spans) == 1 else self._union(spans)
        if self.usual:
            return self._beside_usual(span)
        return self._on_weekdays(span) if any(each.weekdays for each in every) else span

    def _on_weekdays(self, span: Span) -> Span:
        until = span.until or self.now
        named = self.weekdays.union(*(each.weekdays for each in self.before))
        if span.pieces or self.apart or span.since is None or until - span.since > _LONGEST_UNION:
            raise SearchError(f"{self.said!r} is of which weeks? write one span of at most two months")
        first, hours = self.local.of(span.since).date(), span.between or (0, MINUTES)
        days = (first + timedelta(days=n) for n in range((until - span.since).days + 2))
        of_days = tuple(self.local.hours_of(day, hours) for day in days if day.weekday() in named)
        parts = [*self.local.parts_of(Span(pieces=of_days), span.since, until)] if of_days else []
        if not parts:
            raise SearchError(f"{self.said!r} has none of these days")
        return self._union(Span(*part) for part in parts)

    def with_parts_of(self, earlier: Sequence[SpanReader], later: Sequence[SpanReader]) -> SpanReader:
        """One of several spans, with the day and the clocks that are said once for all of them."""
        own, others = copy(self), [*later, *reversed(earlier)]
        dated = [each for each in others if each.days or each.since or each.until]
        if dated and not (own.days or own.since or own.until):
            own.days, own.since, own.until = dated[0].days, dated[0].since, dated[0].until
        clocked = [each for each in others if each.low or each.high or each.at or each.part]
        if clocked and not (own.low or own.high or own.at or own.part):
            given = clocked[0]
            if given in earlier and not (given.day_last or self.compared):  # Monday from 8 to 9 and Tuesday
                raise SearchError(f"{self.said!r} may be at any time of the second day: write its time, too")
            own.low, own.high, own.at, own.part = given.low, given.high, given.at, given.part
            own.near, own.apart = given.near, given.apart
        return own

    def _union(self, spans: Iterable[Span]) -> Span:
        """Some spans as pieces of one, joined where they meet unless they are compared."""
        pieces = list[tuple[datetime, datetime]]()
        for span in spans:
            if self.compared and span.between:
                raise SearchError("hours of several days are not compared: ask for each")
            until = span.until or self.now
            if span.since is None or (span.between and until - span.since > _LONGEST_UNION):
                raise SearchError(f"{self.said!r} is more than one span: ask for one, or write its days")
            pieces += self.local.parts_of(span, span.since, until)
        pieces.sort()
        if self.compared and len({*pieces}) < len(pieces):
            raise SearchError(f"{self.said!r} compares a time with itself")
        pieces = pieces if self.compared else join_spans(pieces)
        ends = pieces[0][0], max(until for _, until in pieces)
        return Span(*ends, pieces=tuple(pieces) if pieces[1:] else ())

    def single(self) -> Span:
        since, until, days, part = self.since, self.until, self.days, self.part or ""
        clocks = bool(self.low or self.high or self.at)
        long = days is not None and days.end - days.begin > _LONGEST_DAY
        every = self.every or (self.nightly and days is None)
        self._hourly = hourly = every or long or bool(days is None and (since or until))
        if part and not hourly:
            days = self._one_part(part)
        if days:
            since, until = max(since or days.begin, days.begin), min(until or days.end, days.end)
            if days.begin > self.now and not (clocks and days.part):
                raise SearchError(f"{days.words} is to come: only what was recorded can be asked for")
        if since and until and since >= until:
            raise SearchError(f"{self.said!r} ends before it begins")
        if not clocks and not (part and hourly):
            return Span(since, until)
        if self.at and (self.low or self.high):
            raise SearchError(f"{self.phrases[-1]!r} is a second time of the day: ask for one at a time")
        if self.lasting and self.since and self.high:
            raise SearchError(f"{self.high.words!r} is of which day? write its day, too")
        if not hourly:
            low, high = self.minutes(days, days.part if days else "")
            if days and self.apart and high and low >= high:
                return self._union((self._within(days, 0, high), self._within(days, low, None)))
            return self._within(days, low, high)
        low, high = self.minutes(None, part) if clocks else (60 * hour for hour in HOURS[part])
        return Span(since, until, (low % MINUTES, (high or 0) % MINUTES))

    def _one_part(self, part: str) -> Days:
        """The part of the one day that is meant, or the last that has begun."""
        days, day = self.days, self.today
        if days is None:
            day -= timedelta(days=self._wall(day, 60 * HOURS[part][0]) > self.now)
        elif days.part and days.part != part:
            raise SearchError(f"{days.words} and {part} are two parts of a day: ask for one at a time")
        else:
            day = self._first(days)
        return self._part(day, part, self.said)

    def minutes(self, days: Days | None, part: str) -> tuple[int, int | None]:
        """Minutes since the day's midnight from which on, and before which; None is the end of the days."""
        begin, end = (60 * hour for hour in (_LOOSE[part] if part else (0, 24)))
        if self.at:
            if self.at.words == "midnight" and days and not part:
                raise self._midnight(days)
            minutes = self._sure(self.at, days, part)
            exact = self.at.exact and not self.near
            return (minutes, minutes + 1) if exact else (minutes - AROUND, minutes + AROUND)
        if self.low and self.high and self.apart and not part:
            after, before = replace(self, high=None), replace(self, low=None)
            return after.minutes(days, part)[0], before.minutes(days, part)[1]
        if self.low and self.high:
            return self._between(self.low, self.high, days, part)
        if self.low:
            minutes = self._sure(self.low, days, part)
            return minutes, None if not part else max(end, MINUTES) if days and days.beside else end
        assert self.high is not None  # noqa: S101 - one of the three is there
        of_morning = self.high.is_bare and MORNING <= self.high.minutes < NOON and not part
        minutes = self.high.minutes if of_morning else self._sure(self.high, days, part, last=True) or MINUTES
        if part == "night":  # last night before ten; before two
            begin = 60 * _SAID[part][0] if minutes < MINUTES else begin
        elif days and days.beside:
            begin = 0
        return begin, minutes

    def _between(self, low: Clock, high: Clock, days: Days | None, part: str) -> tuple[int, int]:
        """The span between two clock times; one without am or pm takes the other's."""
        begin, end = low.minutes, high.minutes
        if part:  # this morning between 11 and 2, but not between 11 and 6 this morning
            more = 0 if days and days.beside and part not in ("night", "tonight") else 6
            ends = product(_fitting(low, part), _fitting(high, part, more))
            pairs = [each for each in ends if each[0] < each[1]]
            if not pairs:
                raise SearchError(f"{self.said!r} is not of the {part}")
            pairs.sort(key=lambda each: (each[1] - each[0], each[1]))
            return pairs[0]
        if low.is_bare and high.twelve and begin < MORNING:
            begin = self._sure(low, days)
            return begin, min(high.halves, key=lambda each: (each - begin) % MINUTES or MINUTES)
        lows = low.halves if low.twelve and high.half else (begin,)
        highs = high.halves if high.is_bare or (high.twelve and (low.half or low.is_bare)) else (end,)
        begin, end = min(product(lows, highs), key=lambda each: (each[1] - each[0]) % MINUTES or MINUTES)
        return begin, end or MINUTES

    def _within(self, days: Days | None, low: int, high: int | None) -> Span:
        """The hours of the one day that is meant, or of the last that has begun."""
        rest = high is None
        high = MINUTES if high is None else high
        high += MINUTES * (high < low and not (days and days.part))
        day = self.local.of(days.begin if days else self.now).date()
        last = high if self.high and self.high.words == "midnight" and not self.low else low
        if self.apart and not days:
            raise SearchError(f"{self.said!r} is of which day? write it, too")
        if days is None and self._wall(day, last) > self.now:
            day -= timedelta(days=1)
        since, until = self._wall(day, low), self._wall(day, high, fold=1)
        begin, end = (datetime.combine(day, time()) + timedelta(minutes=each) for each in (low, high))
        if self.local.of(since).replace(tzinfo=None) != begin and until - since < timedelta(hours=1):
            raise SearchError(f"there was no {begin:%H:%M} on that day: clocks went forward")
        if days and since > self.now:
            raise SearchError(f"{self.said!r} is to come: only what was recorded can be asked for")
        if rest:
            return Span(since, days.end if days else None if self.lasting else until)
        if since >= until:
            raise SearchError(f"{self.said!r} ends before it begins")
        clocks = (
            self.local.of(since + timedelta(minutes=n)).replace(tzinfo=None, fold=0)
            for n in range((until - since) // timedelta(minutes=1))
        )
        # Where clocks go back, between the two times of the first and the last minute lie others.
        outside = any(not begin <= clock < end for clock in clocks)
        return Span(since, until, (low % MINUTES, high % MINUTES) if outside else None)

    def _sure(self, clock: Clock, days: Days | None, part: str = "", *, last: bool = False) -> int:
        """Its minutes since the day's midnight; of a bare hour the half that fits the days, or has passed.

        12 is noon. Where 1 to 5 bound a span they are of the afternoon, but not beside a word of the night.

        Raises:
            SearchError: both fit, or none.
        """
        if not (part or clock.is_bare):
            return clock.minutes
        if part:
            end = 60 * _SAID[part][1]
            fitting = [each for each in _fitting(clock, part) if (each > 0 if last else each < end)]
        else:
            day = self.local.of(days.begin if days else self.now).date()
            stop = days.end if days and last else min(days.end, self.now) if days else self.now
            fitting = [minutes for minutes in clock.halves if self._wall(day, minutes) < stop]
            if self._hourly and clock.halves[0] < MORNING:
                fitting = [*clock.halves]
        afternoon = clock is not self.at and MINUTES // 24 <= clock.halves[0] < MORNING
        if clock is self.low and self.high:  # 4 to 8 may be early
            afternoon &= self.high.halves[0] <= MORNING
        settled = fitting[1:] == [NOON] or (afternoon and not {*self.read.words} & _NIGHTLY)
        if len(fitting) == 1 or (fitting and settled):
            return fitting[-1]
        hour, minute = divmod(clock.halves[0], 60)
        shown = f"{hour or 12}:{minute:02d}" if minute else str(hour or 12)
        raise SearchError(f"{clock.words!r} may be of the morning or of the evening: write {shown} am or pm")

    def _midnight(self, days: Days) -> SearchError:
        return SearchError(f"midnight of {days.words} may be its begin or its end: write a day and 0:00")


def _last_of_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def _fitting(clock: Clock, part: str, more: int = 0) -> list[int]:
    """Its minutes since the midnight before a part of a day, of which it is; up to `more` hours after it."""
    begin, end = (60 * hour for hour in _SAID[part])
    halves = clock.halves if clock.twelve else (clock.minutes,)
    return [each for half in halves for each in (half, half + MINUTES) if begin <= each <= end + 60 * more]
