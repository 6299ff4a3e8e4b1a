"""Words for numbers, times and reasons."""

from datetime import UTC, date, datetime, tzinfo

from models.families import KINDS
from models.language.catalogue import N_, _, ngettext, tell

GAPS = {
    "overload": N_("the computer could not keep up"),
    "camera_down": N_("the camera was down"),
    "outage": N_("narrated was not working"),
    "mask": N_("a mask hides it"),
    "limit": N_("the hourly limit was reached"),
}
_CALENDAR = {
    "%A": N_("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "%a": N_("Mon Tue Wed Thu Fri Sat Sun"),
    "%B": N_("January February March April May June July August September October November December"),
    "%b": N_("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
}
"""Names by their code in shapes of dates."""
_NO_CLOCK = 1970  # footage without a time of its own begins there


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
