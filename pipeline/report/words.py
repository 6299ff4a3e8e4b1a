"""English words for the names, reasons and numbers of records."""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.record import Record

EVENTS = {
    "light_changed": "light changed",
    "view_changed": "view changed",
    "obstructed": "view blocked",
    "summary": "summary",
    "rule": "rule met",
    "gap": "not recorded",
    "deletion": "records deleted",
    "cap_reached": "hourly limit reached",
    "cap_ended": "held back by the hourly limit",
}
"""Labels of events that are not about objects."""

NOT_RECORDED = ("gap", "deletion", "cap_ended")
"""Events of records that say what is missing; `cap_ended` in narrated/1 alone."""

TYPES = {
    "appeared": "came or appeared",
    "disappeared": "left or disappeared",
    "moved": "moved",
    "more": "more of them",
    "fewer": "fewer of them",
    "replaced": "replaced by another",
    "unknown": "changed in some way",
    "none": "no change",
}
"""Labels of types of sentences."""

GAPS = {
    "overload": "the computer could not keep up",
    "camera_down": "the camera was down",
    "outage": "narrated was not running",
    "mask": "a mask hides it",
    "limit": "the hourly limit was reached",
}
_FALLBACKS = {
    "late": "the computer could not keep up",
    "captioner failed": "the captioner failed",
}
_ABSTAINED = {
    "unsure": "Something else may have changed here, but with too little confidence to be reported.",
    "held": "The list is shortened, because a limit held this record: its first line has everything.",
    "nothing of an object": "What changed is nothing that the program has a name for.",
}
_NO_CLOCK = 1970  # footage without a time of its own begins there
_IRREGULAR = {"person": "people", "something": "something"}


def fallback_words(reason: str) -> str:
    """The reason of a record's `fallback`, such as "the computer could not keep up"."""
    return _FALLBACKS.get(reason, reason)


def abstained_words(reason: str) -> str:
    """The sentence of a record's `abstained`."""
    return _ABSTAINED.get(reason, f"Not everything is reported here: {reason}.")


def gap_words(record: Record, zone: tzinfo | None = UTC) -> str:
    """The sentence of a record of `NOT_RECORDED`: camera, span and reason."""
    if record.deletion:
        number = many(record.deletion.records, "record")
        return (
            f"{record.camera}: retention deleted {number}, up to {moment_words(record.before.moment, zone)}."
        )
    if record.reason == "mask":
        return f"{record.camera}, from {moment_words(record.after.moment, zone)} on: {record.text}"
    since, until = record.since or record.before.time, record.until or record.after.time
    begin, end = (moment_words(datetime.fromisoformat(text), zone) for text in (since, until))
    why = GAPS[record.reason or "limit"]
    return f"Nothing was recorded of {record.camera} from {begin} to {end}: {why}."


def moment_words(moment: datetime, zone: tzinfo | None = UTC, shape: str = "%-d %B %Y, %H:%M:%S") -> str:
    """A time by its zone, None is this machine's; of footage without a date how far into it."""
    if not has_date(moment):
        return format_offset(moment.timestamp())
    return moment.astimezone(zone).strftime(shape)


def plural(noun: str) -> str:
    """Such as "people" or "buses"."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "z", "ch", "sh")) else "s")


def many(count: int, noun: str) -> str:
    """Such as "1 car" or "1,200 people"."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def confidence_words(confidence: float) -> str:
    """Such as "87% sure", rounded down."""
    return f"{math.floor(100 * confidence + 1e-9)}% sure"


def has_date(time: datetime) -> bool:
    """True where the footage knows the time of day."""
    return time.year > _NO_CLOCK


def duration_words(seconds: float) -> str:
    """Such as "1 hour 2 minutes" or "9 seconds", rounded to what matters."""
    rest = max(0, round(seconds))
    if rest >= 3600:  # noqa: PLR2004
        rest = round(rest / 60) * 60
    parts = [(rest // 3600, "hour"), (rest // 60 % 60, "minute"), (rest % 60, "second")]
    return " ".join(many(n, unit) for n, unit in parts if n) or "0 seconds"


def format_offset(seconds: float) -> str:
    """``HH:MM:SS`` of an offset into footage; negative ones get a minus."""
    whole = int(abs(seconds))
    sign = "-" if seconds < 0 else ""
    return f"{sign}{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
