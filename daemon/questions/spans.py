"""Spans of time in words: yesterday, last night, the last 7 days, 3 May, this week."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from daemon.questions.errors import SearchError
from daemon.questions.local_time import DAY_NAMES, LocalTime

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
NUMBERS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)

PARTS = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 22), "night": (22, 6)}
"""Hours of the parts of a day."""

_MONTH = "|".join(f"{name}|{name[:3]}" for name in MONTHS) + "|sept"
_PART = "|".join(PARTS)
_WEEKDAY = "|".join(DAY_NAMES)
DAY_PATTERN = (
    rf"(?:the day before )?yesterday(?: (?:{_PART}))?|today|tonight|this (?:{_PART}|week|month|year)|"
    rf"last night|last (?:week|month|year)|(?:(?:last|this) )?(?:{_WEEKDAY})(?: (?:{_PART}))?|"
    r"\d{4}-\d\d-\d\d|"
    rf"\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})(?: \d{{4}})?|"
    rf"(?:{_MONTH}) \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?|(?:a|\d+|{'|'.join(NUMBERS)}) (?:day|week)s? ago"
)
"""Regular expression of every day, or longer span, that has words."""

_DATE = re.compile(
    rf"(?:(?P<d>\d+)(?:st|nd|rd|th)?(?: of)? (?P<m>{_MONTH})|(?P<m2>{_MONTH}) (?P<d2>\d+)(?:st|nd|rd|th)?)"
    r"(?:,? (?P<y>\d{4}))?"
)
_RECENT = re.compile(
    rf"(?:last|past) (?:(\d+|{'|'.join(NUMBERS)}|few) )?(minute|hour|day|week|month|year)s?$"
)
_UNIT_DAYS = {"week": 7, "month": 30, "year": 365}


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From one moment on, before another; None where it is open."""

    begin: datetime | None
    end: datetime | None


def number_of(word: str) -> int:
    """Of digits or a word up to twelve; "a" is one."""
    return 1 if word == "a" else NUMBERS.index(word) if word in NUMBERS else int(word)


def recent_span(words: str, now: datetime) -> TimeSpan:
    """Such as "in the last 7 days": up to now."""
    found = _RECENT.search(words)
    if found is None or found[1] == "few":
        raise SearchError(f"{words!r} is not understood: write in the last 7 days, or the last hour")
    count, unit = number_of(found[1] or "a"), found[2]
    length = (
        timedelta(days=count * _UNIT_DAYS[unit]) if unit in _UNIT_DAYS else timedelta(**{f"{unit}s": count})
    )
    return TimeSpan(now - length, None)


def day_span(words: str, now: datetime, local: LocalTime) -> TimeSpan:
    """A day, a part of one, a week, a month: what `DAY_PATTERN` matches.

    A day of the week is the last that has begun, a date without a year likewise; "last Monday" is not today.

    Raises:
        SearchError: there is no such day.
    """
    words = (
        re.sub(r"^(?:on|in|during) ", "", words).removeprefix("the ") if "day before" not in words else words
    )
    today = local.of(now).date()
    if period := _period(words, today, local):
        return period
    day, part = _day_and_part(words, today, now, local)
    if part:
        begin, end = PARTS[part]
        return _between(day, day + timedelta(days=end < begin), local, begin, end)
    return _between(day, day + timedelta(days=1), local)


def _day_and_part(words: str, today: date, now: datetime, local: LocalTime) -> tuple[date, str]:
    *front, last = words.split()
    part = last if last in PARTS else ""
    named = " ".join(front) if part else words
    if named.endswith("day before yesterday"):
        return today - timedelta(days=2), part
    if ago := re.fullmatch(r"(\w+) (day|week)s? ago", named):
        return today - timedelta(days=number_of(ago[1]) * (7 if ago[2] == "week" else 1)), part
    if found := _DATE.fullmatch(named):
        return _date(found, today), part
    if named == "this":
        return today, part
    day = local.day(named.removeprefix("last ").removeprefix("this "), now)
    return day - timedelta(days=7 * (named.startswith("last ") and day == today)), part


def _date(found: re.Match[str], today: date) -> date:
    name = (found["m"] or found["m2"])[:3]
    month = next(n for n, each in enumerate(MONTHS, 1) if each.startswith(name))
    try:
        if found["y"]:
            return date(int(found["y"]), month, int(found["d"] or found["d2"]))
        for year in range(today.year, today.year - 5, -1):  # 29 February comes every four years
            try:
                day = date(year, month, int(found["d"] or found["d2"]))
            except ValueError:
                continue
            if day <= today:
                return day
    except ValueError:
        pass
    raise SearchError(f"there is no {found[0]}: write 3 May 2026, or 2026-05-03")


def _between(first: date, last: date, local: LocalTime, begin: int = 0, end: int = 0) -> TimeSpan:
    return TimeSpan(
        local.aware(datetime.combine(first, time(begin))), local.aware(datetime.combine(last, time(end)))
    )


def _period(words: str, today: date, local: LocalTime) -> TimeSpan | None:
    """This or last night, week, month or year; None for a day."""
    which, _, unit = words.replace("tonight", "this night").partition(" ")
    back = {"this": 0, "last": 1}.get(which)
    if back is None:
        return None
    if unit == "night":
        evening = today - timedelta(days=back)
        return _between(evening, evening + timedelta(days=1), local, *PARTS["night"])
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * back)
        return _between(monday, monday + timedelta(days=7), local)
    if unit == "month":
        first = (today.replace(day=1) - timedelta(days=back)).replace(day=1)
        return _between(first, (first + timedelta(days=31)).replace(day=1), local)
    if unit == "year":
        return _between(date(today.year - back, 1, 1), date(today.year - back + 1, 1, 1), local)
    return None
