"""Times of day as people write them, without a date."""

from __future__ import annotations

import re

from daemon.questions.errors import SearchError

MINUTES = 24 * 60
"""Of a day."""

_TIME_OF_DAY = re.compile(r"(\d{1,2})(?:[:.](\d\d))? ?(am|pm|o'clock)?", re.IGNORECASE)
_NAMED_TIMES = {"midnight": 0, "noon": 12 * 60, "midday": 12 * 60}
_NOON = 12


def parse_time_of_day(text: str) -> int:
    """Minutes since midnight of ``22:00``, ``6``, ``6am``, ``6:30 pm`` or ``noon``.

    Raises:
        SearchError: it is no time of the day.
    """
    wanted = text.strip().lower()
    if wanted in _NAMED_TIMES:
        return _NAMED_TIMES[wanted]
    if found := _TIME_OF_DAY.fullmatch(wanted):
        hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
        fits = hour <= 24 and minute < 60 and (half not in ("am", "pm") or 1 <= hour <= _NOON)  # noqa: PLR2004
        if half in ("am", "pm"):
            hour = hour % _NOON + (_NOON if half == "pm" else 0)
        if fits and hour * 60 + minute <= MINUTES:
            return hour * 60 + minute
    raise SearchError(f"{text!r} is not a time of day: write 22:00, 6, 6am or noon")


def format_time_of_day(minutes: int) -> str:
    """As ``22:00``."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
