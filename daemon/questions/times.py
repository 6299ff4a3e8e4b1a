"""Spans of time in words: last night, after 10 pm yesterday, from 9 to 5, 22.11.2026 at 18:19.

A weekday, a date without a year and a clock without a day are the last that have begun. A bare hour that may
be of the morning or of the evening is an error, never a guess; "9 to 5" is read as working hours are. A part
of a day beside a clock says which half is meant: "before 7 this morning" begins at midnight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from itertools import pairwise, product

from daemon.questions.moments import (
    ABOUT,
    HOURS,
    MORNING,
    NOON,
    PART,
    SPOKEN_MINUTES,
    TO,
    WEEKDAY,
    WEEKDAYS,
    Clock,
    Days,
    MomentReader,
)
from daemon.questions.question import DAY_NAMES, MINUTES, SearchError, Span, beyond_calendar, join_spans
from daemon.questions.words import NUMBERS, Reading, either

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


@dataclass(slots=True)
class SpanReader(MomentReader):
    """Reads the parts of a question about time.

    Attributes:
        since, until: moments that were given as such.
        low, high: clocks of "after" and "before", or of "from" and "to".
    """

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

    def take_since(self) -> None:
        """Mean all time since the day that was read."""
        if self.days and not (self.since or self.until or self.low or self.high or self.at):
            self.since, self.days = self.days.begin, None

    def take(self, joined: str = "") -> bool:
        """Read one more part about time, after "than" of another span; False where none comes next.

        Raises `SearchError` where it is no time, or says something twice.
        """
        begin, before = self.read.place, self.read.previous
        self._joined = joined or (before if self.phrases and before in ("and", "or") else "")
        parts = (self._recent, self._ago, self._side, self._listed, self._range, self._hours, self._point)
        for part in parts:
            try:
                taken = part()
            except (OverflowError, ValueError):
                raise beyond_calendar(self.read.words_from(begin)) from None
            if taken:
                self.phrases.append(self.read.words_from(begin))
                return True
            self.read.place = begin
        return False

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
        if days := self._days_ago():
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
        days = list[Days]()
        while day := self._day():
            days.append(day)
        if not days or self.compared or not self.read.take("and|or"):
            return False
        self.read.take("on|in|during|over|for")
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
            self.mean_today()
        compared = self.take(joined="than")
        self.compared |= compared
        if alone and compared and self.days:
            self.before[-1].days = self._this_like(self.days)
        self.days = self.days if compared or not alone else None
        return compared

    def mean_today(self) -> None:
        """Mean today, where nothing else is said."""
        self.days, self.phrases = self._dates(self.today, self.today, "today"), ["today"]

    def _beside_usual(self, span: Span) -> Span:
        """The span as far as it is over, beside the same of the four weeks before."""
        since, until = span.since, min(span.until or self.now, self.now)
        if since is None or span.pieces or span.between or until - since > timedelta(days=7, hours=1):
            raise SearchError("than usual when? write a day, or a part of one")
        if self.local.of(since).weekday() != WEEKDAYS.get(self.usual, self.local.of(since).weekday()):
            raise SearchError(f"{self.said!r} was no {self.usual}: write than usual")
        clocks = [self.local.of(each).replace(tzinfo=None) for each in (since, until)]
        weeks = ([self.local.aware(each - timedelta(weeks=n)) for each in clocks] for n in range(4, -1, -1))
        pieces = tuple((begin, end) for begin, end in weeks)
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

    # Together

    def span(self) -> Span:
        """The span that was parsed.

        Raises `SearchError` where a clock may mean two times, or a time is to come.
        """
        if self.usual and not self.phrases:
            self.mean_today()
        every = [*self.before, self]
        if self.before:
            every = [each.with_parts_of(every[:n], every[n + 1 :]) for n, each in enumerate(every)]
        spans = [each.single() for each in every]
        span = spans[0] if len(spans) == 1 else self._union(spans)
        if self.usual:
            return self._beside_usual(span)
        return self._on_weekdays(span) if any(each.weekdays for each in every) else span

    def _on_weekdays(self, span: Span) -> Span:
        until, named = (
            span.until or self.now,
            {*self.weekdays}.union(*(each.weekdays for each in self.before)),
        )
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


def _fitting(clock: Clock, part: str, more: int = 0) -> list[int]:
    """Its minutes since the midnight before a part of a day, of which it is; up to `more` hours after it."""
    begin, end = (60 * hour for hour in _SAID[part])
    halves = clock.halves if clock.twelve else (clock.minutes,)
    return [each for half in halves for each in (half, half + MINUTES) if begin <= each <= end + 60 * more]
