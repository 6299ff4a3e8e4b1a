"""A question in plain words, so that people see how it was understood."""

from __future__ import annotations

from datetime import datetime, timedelta

from daemon.questions.local_time import LocalTime, format_time_of_day
from daemon.questions.question import TIME_GROUPINGS, Filters, Question
from daemon.questions.words import GROUPS, NOUNS

_KINDS = {
    "came": "came",
    "left": "left",
    "got_in": "got in",
    "got_out": "got out",
    "placed": "were put down",
    "waiting": "waited",
    "removed": "were taken away",
    "light_changed": "changes of light",
    "view_changed": "other views",
    "obstructed": "blocked views",
}
_PLURALS = {"somebody": "people, cyclists and motorcyclists", "person": "people", "object": "objects"}


def restate(question: Question, local: LocalTime) -> str:
    """As in "People who came, on camera yard, Sun 22 Nov 2026 22:00 to 24:00"."""
    filters = question.filters
    parts = [_subject(question)]
    for bound, words in ((filters.longer_s, "longer than"), (filters.shorter_s, "shorter than")):
        if bound is not None:
            parts.append(f"{words} {duration_words(bound)}")
    if question.by:
        by = ["change" if name == "kind" else name.replace("-", " ") for name in question.by]
        parts.append(f"by {_joined(by, 'and')}")
    if question.most:
        parts.append("the most")
    if filters.cameras:
        parts.append(f"on camera {_joined(filters.cameras, 'or')}")
    if filters.zones:
        parts.append(f'at "{_joined(filters.zones, "or")}"')
    if filters.text:
        parts.append(f"saying {filters.text}")
    if filters.confidence is not None:
        parts.append(f"at least {filters.confidence:.0%} sure")
    sentence = ", ".join([*parts, *filter(None, [span_words(filters, local)])])
    return sentence[0].upper() + sentence[1:]


def _subject(question: Question) -> str:
    """Who or what did what, and which of them."""
    filters = question.filters
    names = _joined([_plural(name) for name in filters.objects], "or")
    things = " ".join(filter(None, (_joined(filters.colours, "or"), names)))
    kinds = _joined([_KINDS.get(kind, kind.replace("_", " ")) for kind in filters.kinds], "or")
    visits = question.of_visits or question.most
    if things or not kinds:
        things = things or ("visits" if visits else "everything")
        kinds = kinds and f" {'who' if _persons(filters) else 'that'} {kinds}"
    said = things + kinds
    if question.order in ("first", "last"):
        said = f"the {question.order}{f' {question.limit}' if question.limit else ''} of {said}"
    elif question.order == "longest":
        said = f"the longest stay of {said}"
    if question.open:
        said += " still there"
    elif question.presence and filters.since:
        said += " that arrived or were there"
    elif set(question.by) & {*TIME_GROUPINGS} and not filters.kinds:
        said += " by their arrival"
    return f"how long, of {said}" if question.durations else said


def span_words(filters: Filters, local: LocalTime) -> str:
    """The span of some filters, empty where it is open."""
    since, until = (moment and local.of(moment) for moment in (filters.since, filters.until))
    words = ""
    if since and until:
        words = f"{_moment(since)} to {_moment(until, since)}"
        if _is_midnight(since) and _is_midnight(until):
            last = until - timedelta(days=1)
            words = f"{since:%a %d %b %Y}" + (
                f" to {last:%a %d %b %Y}" if last.date() != since.date() else ""
            )
    elif since:
        words = f"since {_moment(since)}"
    elif until:
        words = f"before {_moment(until)}"
    if filters.between:
        begin, end = map(format_time_of_day, filters.between)
        words = " ".join(filter(None, (words, f"between {begin} and {end} of every day")))
    return words


def duration_words(seconds: float) -> str:
    """As "3 h 20 min", "12 min", "40 s"."""
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 - a minute
        return f"{whole} s"
    days, hours, minutes, rest = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest if whole < 3600 else 0, "s")]  # noqa: PLR2004
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def _moment(moment: datetime, after: datetime | None = None) -> str:
    if after and _is_midnight(moment) and (moment - timedelta(days=1)).date() == after.date():
        return "24:00"
    clock = f"{moment:%H:%M:%S}".removesuffix(":00")
    return clock if after and moment.date() == after.date() else f"{moment:%a %d %b %Y} {clock}"


def _is_midnight(moment: datetime) -> bool:
    return moment.hour == moment.minute == moment.second == 0


def _plural(name: str) -> str:
    nouns = NOUNS.get(name, [])
    plural = next(
        (noun for noun in nouns if noun.endswith("s") and noun.startswith(name[:-1]) and noun != name), ""
    )
    return _PLURALS.get(name) or plural or (f"{name}es" if name.endswith("s") else f"{name}s")


def _persons(filters: Filters) -> bool:
    return bool(filters.objects) and set(filters.objects) <= {"somebody", *GROUPS["somebody"]}


def _joined(words: tuple[str, ...] | list[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
