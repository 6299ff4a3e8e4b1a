"""A question in plain words, so that people see how it was understood."""

from __future__ import annotations

from datetime import datetime, timedelta

from daemon.questions.local_time import LocalTime
from daemon.questions.question import Question, Span
from daemon.questions.words import GROUPS
from pipeline.report.words import duration_words, plural

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
    "gap": "gaps in the record",
}


def restate(question: Question, local: LocalTime) -> str:
    """The question in words: "People who came, on camera yard, Sun 22 Nov 2026 22:00 to 24:00"."""
    filters, measure = question.filters, question.measure
    by = ["change" if name == "kind" else name.replace("-", " ") for name in measure.by]
    parts: tuple[object, ...] = (
        _subject(question),
        filters.longer_s is not None and f"longer than {duration_words(filters.longer_s)}",
        filters.shorter_s is not None and f"shorter than {duration_words(filters.shorter_s)}",
        by and f"by {_join(by, 'and')}",
        measure.most and "the most",
        filters.cameras and f"on camera {_join(filters.cameras, 'or')}",
        filters.zones and f'at "{_join(filters.zones, "or")}"',
        filters.text and f"saying {filters.text}",
        filters.confidence is not None and f"at least {filters.confidence:.0%} sure",
        span_words(question.span, local),
    )
    sentence = ", ".join(str(part) for part in parts if part)
    return sentence[0].upper() + sentence[1:]


def _subject(question: Question) -> str:
    """The subject in words: which objects, and their action."""
    filters, measure = question.filters, question.measure
    somebody = "people, cyclists, motorcyclists and riders"
    names = _join([somebody if name == "somebody" else plural(name) for name in filters.objects], "or")
    colours, persons = _join(filters.colours, "or"), _are_persons(filters.objects)
    words = f"{names} in {colours}" if persons and colours else f"{colours} {names}".strip()
    words = words.replace(" in dark", " in dark clothes").replace(" in light", " in light clothes")
    kinds = _join([_KINDS.get(kind, kind.replace("_", " ")) for kind in filters.kinds], "or")
    if words and kinds:
        words += f" {'who' if persons else 'that'} {kinds}"
    words = (
        words
        or kinds
        or ("visits" if measure.most or (question.of_visits and not filters.open) else "everything")
    )
    if measure.order in ("first", "last"):
        words = f"the {measure.order}{f' {measure.limit}' if measure.limit else ''} of {words}"
    elif measure.order == "longest":
        words = f"the longest stay of {words}"
    if filters.open:
        words += " still there"
    elif question.presence and question.span.since:
        words += f" that arrived or {'was' if words == 'everything' else 'were'} there"
    elif measure.by_time and not filters.kinds:
        words += " by their arrival"
    return f"how long, of {words}" if measure.durations else words


def _are_persons(objects: tuple[str, ...]) -> bool:
    return bool(objects) and {*objects} <= {"somebody", *GROUPS["somebody"]}


def span_words(span: Span, local: LocalTime) -> str:
    """The span in words: "Sun 22 Nov 2026 22:00 to 24:00"; empty where it is open."""
    since, until = (moment and local.of(moment) for moment in (span.since, span.until))
    words = ""
    if since and until and _is_midnight(since) and _is_midnight(until):
        last = until - timedelta(days=1)
        words = f"{since:%a %d %b %Y}" + f" to {last:%a %d %b %Y}" * (last.date() != since.date())
    elif since and until:
        words = f"{_moment(since)} to {_moment(until, since)}"
    elif since:
        words = f"since {_moment(since)}"
    elif until:
        words = f"before {_moment(until)}"
    if span.between:
        begin, end = (f"{minutes // 60:02d}:{minutes % 60:02d}" for minutes in span.between)
        words = f"{words} between {begin} and {end} of every day".strip()
    return words


def _moment(moment: datetime, after: datetime | None = None) -> str:
    if after and _is_midnight(moment) and (moment - timedelta(days=1)).date() == after.date():
        return "24:00"
    clock = f"{moment:%H:%M:%S}".removesuffix(":00")
    return clock if after and moment.date() == after.date() else f"{moment:%a %d %b %Y} {clock}"


def _is_midnight(moment: datetime) -> bool:
    return moment.hour == moment.minute == moment.second == 0


def _join(words: tuple[str, ...] | list[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
