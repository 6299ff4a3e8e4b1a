"""Words for the names, reasons and numbers of records."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING

from models.families import KINDS
from models.language.catalogue import N_, _, ngettext, tell

if TYPE_CHECKING:
    from pipeline.record import Record

EVENTS = {
    "light_changed": N_("light changed"),
    "view_changed": N_("view changed"),
    "obstructed": N_("view blocked"),
    "summary": N_("summary"),
    "rule": N_("rule met"),
    "gap": N_("not recorded"),
    "deletion": N_("records deleted"),
    "cap_reached": N_("hourly limit reached"),
    "cap_ended": N_("held back by the hourly limit"),
}
"""Labels of events that are not about objects."""

NOT_RECORDED = ("gap", "deletion", "cap_ended")  # what is missing; `cap_ended` in narrated/1 alone
TYPES = {
    "appeared": N_("came or appeared"),
    "disappeared": N_("left or disappeared"),
    "moved": N_("moved"),
    "more": N_("more of them"),
    "fewer": N_("fewer of them"),
    "replaced": N_("replaced by another"),
    "unknown": N_("changed in some way"),
    "none": N_("no change"),
}
"""Labels of types of sentences."""

GAPS = {
    "overload": N_("the computer could not keep up"),
    "camera_down": N_("the camera was down"),
    "outage": N_("narrated was not working"),
    "mask": N_("a mask hides it"),
    "limit": N_("the hourly limit was reached"),
}
_FALLBACKS = {"late": N_("the computer could not keep up"), "captioner failed": N_("the captioner failed")}
_ABSTAINED = {
    "unsure": N_("Something else may have changed here, but with too little confidence to be reported."),
    "held": N_("The list is shortened, because a limit held this record: its first line has everything."),
    "nothing of an object": N_("Something changed that narrated has no name for."),
}
_CALENDAR = {
    "%A": N_("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "%a": N_("Mon Tue Wed Thu Fri Sat Sun"),
    "%B": N_("January February March April May June July August September October November December"),
    "%b": N_("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
}
"""Names by their code in shapes of dates."""
_NO_CLOCK = 1970  # footage without a time of its own begins there


def fallback_words(reason: str) -> str:
    return _(_FALLBACKS.get(reason, reason))


def abstained_words(reason: str) -> str:
    known = _ABSTAINED.get(reason)
    return _(known) if known else tell("Not everything is reported here: {reason}.", reason=reason)


def gap_words(record: Record, zone: tzinfo | None = UTC) -> str:
    """The sentence of a record of `NOT_RECORDED`: camera, span and reason."""
    if record.deletion:
        number, last = counted(record.deletion.records, "record"), moment_words(record.before.moment, zone)
        message = N_("{camera}: retention deleted {records}, up to {last}.")
        return tell(message, camera=record.camera, records=number, last=last)
    if record.reason == "mask":
        begin = moment_words(record.after.moment, zone)
        return tell("{camera}, from {begin} on: {text}", camera=record.camera, begin=begin, text=record.text)
    since, until = record.since or record.before.time, record.until or record.after.time
    begin, end = (moment_words(datetime.fromisoformat(text), zone) for text in (since, until))
    span = {"camera": record.camera, "begin": begin, "end": end}
    if record.text:  # which knows more reasons than a record has
        return tell("{camera}, {begin} to {end}: {text}", text=record.text, **span)
    message = N_("Nothing was recorded of {camera} from {begin} to {end}: {reason}.")
    return tell(message, reason=_(GAPS[record.reason or "limit"]), **span)


def moment_words(moment: datetime, zone: tzinfo | None = UTC, shape: str = N_("%-d %B %Y, %H:%M:%S")) -> str:
    """A time by its zone, None is this machine's; of footage without a date how far into it."""
    if not has_date(moment):
        return format_offset(moment.timestamp())
    return format_date(moment.astimezone(zone), shape)


def format_date(moment: datetime | date, shape: str) -> str:
    """As `strftime`, by the language's own shape and names."""
    shape = _(shape)
    for code, names in _CALENDAR.items():
        number = moment.weekday() if code in ("%A", "%a") else moment.month - 1
        shape = shape.replace(code, "".join(_(names).split()[number : number + 1]))
    return moment.strftime(shape)


def plural(noun: str) -> str:
    if noun in KINDS:
        return KINDS[noun].plural
    return noun if noun == "something" else f"{noun}es" if noun.endswith("x") else f"{noun}s"


def many(count: int, noun: str) -> str:
    """Such as "1 car" or "1,200 people", for commands and logs."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def counted(count: int, noun: str) -> str:
    """Likewise, in the language."""
    return tell("{number} {nouns}", number=f"{count:,}", nouns=ngettext(noun, plural(noun), count))


def confidence_words(confidence: float) -> str:
    """Such as "87% sure", rounded down."""
    return tell("{percent}% sure", percent=math.floor(100 * confidence + 1e-9))


def has_date(time: datetime) -> bool:
    return time.year > _NO_CLOCK


def duration_words(seconds: float) -> str:
    """Such as "1 hour 2 minutes" or "9 seconds", rounded to what matters."""
    rest = max(0, round(seconds))
    if rest >= 3600:  # noqa: PLR2004
        rest = round(rest / 60) * 60
    hours, minutes, seconds = rest // 3600, rest // 60 % 60, rest % 60
    parts = hours and counted(hours, "hour"), minutes and counted(minutes, "minute")
    second = counted(seconds, "second") if seconds or not rest else ""
    return " ".join(part for part in (*parts, second) if part)


def format_offset(seconds: float) -> str:
    """``HH:MM:SS`` of an offset into footage; negative ones get a minus."""
    whole = int(abs(seconds))
    sign = "-" if seconds < 0 else ""
    return f"{sign}{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
