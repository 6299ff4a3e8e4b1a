"""A question in plain words, so that people see how it was understood."""

from datetime import datetime, timedelta

from daemon.questions.local_time import LocalTime
from daemon.questions.question import Question, Span
from daemon.questions.words import GROUPS
from models.language.catalogue import N_, _, join, ngettext, tell
from pipeline.report.words import duration_words, format_date, plural

_DAY = N_("%a %d %b %Y")

_KINDS = {
    "got_in": N_("got in"),
    "got_out": N_("got out"),
    "placed": N_("were put down"),
    "waiting": N_("waited"),
    "removed": N_("were taken away"),
    "lost": N_("were lost from view"),
    "light_changed": N_("changes of light"),
    "view_changed": N_("other views"),
    "obstructed": N_("blocked views"),
    "rule": N_("rules that were met"),
    "gap": N_("gaps in the record"),
    "cap_reached": N_("cap reached"),
    "cap_ended": N_("cap ended"),
    **{
        name: name
        for name in (N_("came"), N_("left"), N_("entered"), N_("resumed"), N_("crossed"), N_("deletion"))
    },
    **{
        name: name
        for name in (N_("more"), N_("fewer"), N_("replaced"), N_("unknown"), N_("none"), N_("change"))
    },
}
"""Kinds of what happened; those that are missing say themselves."""
_GROUPS = {
    "hour-of-day": N_("hour of day"),
    "kind": N_("change"),
    **{name: name for name in (N_("minute"), N_("hour"), N_("day"), N_("week"), N_("month"), N_("weekday"))},
    **{name: name for name in (N_("camera"), N_("object"), N_("colour"))},
}
_WORN = {"dark": N_("dark clothes"), "light": N_("light clothes")}
_FIRST = {
    "first": (N_("the first of {what}"), N_("the first {number} of {what}")),
    "last": (N_("the last of {what}"), N_("the last {number} of {what}")),
}
_MARKED = {
    "at all": N_("marked, noted or corrected by users"),
    "mistaken": N_("marked as wrong by users"),
    "corrected": N_("corrected by users"),
}
_OR = N_("{one} or {other}")


def restate(question: Question, local: LocalTime) -> str:
    """The question in words: "People who came, on camera yard, Sun 22 Nov 2026 22:00 to 24:00"."""
    filters, measure = question.filters, question.measure
    longer, shorter = (s is not None and duration_words(s) for s in (filters.longer_s, filters.shorter_s))
    by = join((_(_GROUPS[name]) for name in measure.by), N_("{one} and {other}"))
    sure = filters.confidence is not None and f"{filters.confidence:.0%}"
    parts: tuple[object, ...] = (
        _subject(question),
        filters.other
        and tell("vehicle: {what}", what=_objects(filters.other.objects, filters.other.colours, worn=False)),
        longer and tell("longer than {length}", length=longer),
        shorter and tell("shorter than {length}", length=shorter),
        by and tell("by {groups}", groups=by),
        measure.most and not measure.there and _("the most"),
        measure.fewest and (_("only those without any") if measure.none else _("the fewest")),
        filters.cameras and tell("on camera {cameras}", cameras=join(filters.cameras, _OR)),
        filters.zones and tell('at "{places}"', places=join(filters.zones, _OR)),
        filters.marked and _(_MARKED[filters.marked]),
        filters.text and tell("saying {words}", words=filters.text),
        sure and tell("at least {percent} sure", percent=sure),
        span_words(question.span, local),
        *(tell('"{word}" read as {meant}', word=word, meant=meant) for word, meant in question.mended),
    )
    sentence = ", ".join(str(part) for part in parts if part)
    return sentence[0].upper() + sentence[1:]


def _subject(question: Question) -> str:
    """The subject in words: which objects, and their action."""
    filters, measure = question.filters, question.measure
    persons = _are_persons(filters.objects)
    kinds = join((_(_KINDS.get(kind, kind)) for kind in filters.kinds), _OR)
    words = _objects(filters.objects, filters.colours, worn=persons)
    if words and kinds:
        message = N_("{objects} who {did}") if persons else N_("{objects} that {did}")
        words = tell(message, objects=words, did=kinds)
    of_visits = measure.most or measure.fewest or (question.of_visits and not filters.open)
    everything = not (words or kinds or of_visits)
    words = words or kinds or (_("visits") if of_visits else _("everything"))
    if measure.there:
        least, most = measure.there
        few = N_("no {what}") if not most else N_("fewer than {number} {what} at once")
        some = N_("exactly {number} {what} at once"), N_("at least {number} {what} at once")
        message = some[least != most] if least else few
        message = N_("the most {what} at once") if measure.most else message
        words = tell(message, what=words, number=least or int(most) + 1)
        words = tell(N_("the times with {what}"), what=words) if not measure.most else words
    if filters.ended:
        words = tell(N_("{what} and left again"), what=words)
    if measure.order in _FIRST:
        words = tell(_FIRST[measure.order][bool(measure.limit)], number=measure.limit, what=words)
    elif measure.by_length:
        words = _longest(question, words)
    if filters.open and question.presence and question.span.since:
        words = tell("{what} that arrived or were there, and are still there", what=words)
    elif filters.open:
        words = tell("{what} still there", what=words)
    elif question.presence and question.span.since:
        was = everything and measure.order == "all"
        message = N_("{what} that arrived or was there") if was else N_("{what} that arrived or were there")
        words = tell(message, what=words)
    elif measure.by_time and not (filters.kinds or filters.text):
        words = tell("{what} by their arrival", what=words)
    return tell("how long, of {what}", what=words) if measure.durations else words


def _longest(question: Question, words: str) -> str:
    """The longest of them, or the shortest, or so many."""
    limit, shortest = question.measure.limit or 1, question.measure.order == "shortest"
    stay = N_("the longest stay of {what}"), N_("the shortest stay of {what}")
    spell = N_("the longest of {what}"), N_("the shortest of {what}")
    several = N_("the {number} longest of {what}"), N_("the {number} shortest of {what}")
    message = (several if limit > 1 else spell if question.of_spells else stay)[shortest]
    return tell(message, number=limit, what=words)


def _objects(names: tuple[str, ...], colours: tuple[str, ...], *, worn: bool) -> str:
    somebody = N_("people, cyclists, motorcyclists and riders")
    words = join(
        (_(somebody) if name == "somebody" else ngettext(name, plural(name), 2) for name in names), _OR
    )
    first = {colours[0]: _WORN.get(colours[0], colours[0])} if colours and worn else {}
    shown = join((_(first.get(colour, colour)) for colour in colours), _OR)
    if not (words and shown):
        return words or shown
    return tell("{thing} in {colour}" if worn else "{colour} {noun}", thing=words, colour=shown, noun=words)


def _are_persons(objects: tuple[str, ...]) -> bool:
    return bool(objects) and {*objects} <= {"somebody", *GROUPS["somebody"]}


def span_words(span: Span, local: LocalTime) -> str:
    """The span in words: "Sun 22 Nov 2026 22:00 to 24:00"; empty where it is open."""
    since, until = (moment and local.of(moment) for moment in (span.since, span.until))
    words = ""
    if since and until and _is_midnight(since) and _is_midnight(until):
        first, last = (format_date(day, _DAY) for day in (since, until - timedelta(days=1)))
        words = first if first == last else tell("{begin} to {end}", begin=first, end=last)
    elif since and until:
        words = tell("{begin} to {end}", begin=_moment(since), end=_moment(until, since))
    elif since:
        words = tell("since {begin}", begin=_moment(since))
    elif until:
        words = tell("before {end}", end=_moment(until))
    if span.between:
        begin, end = (f"{minutes // 60:02d}:{minutes % 60:02d}" for minutes in span.between)
        hours = tell("between {begin} and {end} of every day", begin=begin, end=end)
        words = f"{words} {hours}".strip()
    return words


def _moment(moment: datetime, after: datetime | None = None) -> str:
    if after and _is_midnight(moment) and (moment - timedelta(days=1)).date() == after.date():
        return "24:00"
    clock = f"{moment:%H:%M:%S}".removesuffix(":00")
    return clock if after and moment.date() == after.date() else f"{format_date(moment, _DAY)} {clock}"


def _is_midnight(moment: datetime) -> bool:
    return moment.hour == moment.minute == moment.second == 0
