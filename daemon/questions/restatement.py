"""A question in plain words, so that people see how it was understood."""

from collections import defaultdict
from datetime import datetime, timedelta

from daemon.questions.question import SPAN, Filters, LocalTime, Question, Span, join_spans
from daemon.questions.words import GROUPS
from models.families import FIXTURES
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
    **{name: name for name in (N_("came"), N_("left"), N_("entered"), N_("resumed"), N_("crossed"))},
}
"""What somebody or something did; those that are missing say themselves."""
_EVENTS = {
    "light_changed": N_("changes of light"),
    "view_changed": N_("other views"),
    "obstructed": N_("blocked views"),
    "rule": N_("rules that were met"),
    "gap": N_("gaps in the record"),
    "cap_reached": N_("cap reached"),
    "cap_ended": N_("cap ended"),
    **{name: name for name in (N_("deletion"), N_("more"), N_("fewer"), N_("replaced"), N_("unknown"))},
    **{name: name for name in (N_("none"), N_("change"))},
}
"""What happened, as nouns."""
_GROUPS = {
    "hour-of-day": N_("hour of day"),
    SPAN: N_("span"),
    "kind": N_("change"),
    **{name: name for name in (N_("minute"), N_("hour"), N_("day"), N_("week"), N_("month"), N_("weekday"))},
    **{name: name for name in (N_("camera"), N_("object"), N_("colour"))},
}
_WORN = {"dark": N_("dark clothes"), "light": N_("light clothes")}
_FIRST = {
    "first": (N_("the first of {what}"), N_("the first {number} of {what}")),
    "last": (N_("the last of {what}"), N_("the last {number} of {what}")),
    "first and last": (N_("the first and the last of {what}"),),
}
_MARKED = {
    "at all": N_("marked, noted or corrected by users"),
    "mistaken": N_("marked as wrong by users"),
    "corrected": N_("corrected by users"),
}
_WITHOUT = {"came": N_("come"), "stopped": N_("stop"), "parked": N_("park"), "waiting": N_("wait")}
_OR, _AND = N_("{one} or {other}"), N_("{one} and {other}")
_FEW = 3  # spans, each of which is named with its day


def restate(question: Question, local: LocalTime) -> str:
    """The question in words: "People who came, on camera yard, Sun 22 Nov 2026 22:00 to 24:00"."""
    filters, measure = question.filters, question.measure
    longer, shorter = (s is not None and duration_words(s) for s in (filters.longer_s, filters.shorter_s))
    by = join((_(_GROUPS[name]) for name in measure.by), _AND)
    sure = filters.confidence is not None and f"{filters.confidence:.0%}"
    parts: tuple[object, ...] = (
        _subject(question),
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
    persons, fixtures = _are_persons(filters.objects), {*filters.objects} & FIXTURES
    words = _who_did_what(filters, persons=persons)
    of_visits = measure.count or (question.of_visits and not filters.open)
    everything = not (words or of_visits)
    words = words or (_("visits of any kind") if of_visits else _("everything"))
    if measure.there:
        least, most = measure.there
        few = N_("no {what}") if not most else N_("fewer than {number} {what} at once")
        some = N_("exactly {number} {what} at once"), N_("at least {number} {what} at once")
        message = some[least != most] if least else few
        message = N_("the most {what} at once") if measure.most else message
        words = tell(message, what=words, number=least or int(most) + 1)
        words = tell(N_("times with {what}"), what=words) if not measure.most else words
    if filters.ended:
        words = tell(N_("{what} and left again"), what=words)
    for each in filters.lacking:
        words = tell(N_("{what} and were not seen to {act}"), what=words, act=_(_WITHOUT[each]))
    if measure.order in _FIRST:
        words = tell(N_("the {what}"), what=words) if filters.objects else words
        words = tell(_FIRST[measure.order][bool(measure.limit)], number=measure.limit, what=words)
    elif measure.by_length:
        words = _longest(question, words)
    if filters.open:
        still = N_("{what} and are still there") if filters.kinds else N_("{what} still there")
        words = tell(N_("{what} that are open") if fixtures else still, what=words)
    elif question.presence and (fixtures or question.span.since):
        were = N_("{what} who arrived or were there") if persons else N_("{what} that arrived or were there")
        were = N_("{what} that were open") if fixtures else were
        was = everything and measure.order == "all"
        words = tell(N_("{what} that arrived or was there") if was else were, what=words)
    elif measure.by_time and not (filters.kinds or filters.text):
        words = tell("{what} by their arrival", what=words)
    return tell("{what}, and for how long", what=words) if measure.durations else words


def _who_did_what(filters: Filters, *, persons: bool) -> str:
    """Objects, and what they did; empty of everything."""
    did = join((_((_KINDS | _EVENTS).get(kind, kind)) for kind in filters.kinds), _OR)
    words = _objects(filters.objects, filters.colours, worn=persons)
    if filters.other:
        message = N_("got out of {vehicles}") if "got_out" in filters.kinds else N_("got into {vehicles}")
        did = tell(message, vehicles=_objects(filters.other.objects, filters.other.colours, worn=False))
    if words and did:
        message = N_("{objects} who {did}") if persons else N_("{objects} that {did}")
        return tell(message, objects=words, did=did)
    acts = did and not {*filters.kinds} & {*_EVENTS}
    return words or (tell("all that {did}", did=did) if acts else did)


def _longest(question: Question, words: str) -> str:
    """The longest of them, or the shortest, or so many."""
    limit, shortest = question.measure.limit or 1, question.measure.order == "shortest"
    stay = N_("the longest stay of {what}"), N_("the shortest stay of {what}")
    interval = N_("the longest of the {what}"), N_("the shortest of the {what}")
    several = N_("the {number} longest of {what}"), N_("the {number} shortest of {what}")
    told = question.of_intervals or not (question.filters.objects or question.filters.kinds)
    message = (several if limit > 1 else interval if told else stay)[shortest]
    return tell(message, number=limit, what=words)


def _objects(names: tuple[str, ...], colours: tuple[str, ...], *, worn: bool) -> str:
    held = [each for name in names for each in (("person", "rider") if name == "somebody" else (name,))]
    words = join((ngettext(name, plural(name), 2) for name in dict.fromkeys(held)), _OR)
    first = {colours[0]: _WORN.get(colours[0], colours[0])} if colours and worn else {}
    shown = join((_(first.get(colour, colour)) for colour in colours), _OR)
    if not (words and shown):
        return words or shown
    return tell("{thing} in {colour}" if worn else "{colour} {noun}", thing=words, colour=shown, noun=words)


def _are_persons(objects: tuple[str, ...]) -> bool:
    return bool(objects) and {*objects} <= {"somebody", *GROUPS["somebody"]}


def span_words(span: Span, local: LocalTime) -> str:
    """The span in words: "Sun 22 Nov 2026 22:00 to 24:00"; empty where it is open."""
    if span.pieces:
        return _pieces_words(span, local)
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
        hours = tell("every day from {begin} to {end}", begin=begin, end=end.replace("00:00", "24:00"))
        words = ", ".join(filter(None, (words, hours)))
    return words


def _pieces_words(span: Span, local: LocalTime) -> str:
    """Several spans in words; those at the same hours of some days by their hours."""
    days_at = defaultdict[str, list[datetime]](list)
    for begin, end in span.pieces:
        since, until = local.of(begin), local.of(end)
        days_at[f"{since:%H:%M} {_moment(until, since)}"].append(since)
    dates = [[each.date() for each in days] for days in days_at.values()]
    if len(span.pieces) > _FEW and all(each == dates[0] for each in dates):
        clocks = (tell("from {begin} to {end}", begin=a, end=b) for a, b in map(str.split, days_at))
        days = [(local.midnight(day), local.midnight(day + timedelta(days=1))) for day in dates[0]]
        dated = join((span_words(Span(*each), local) for each in join_spans(days)), _AND)
        return ", ".join((dated, join(clocks, _AND)))
    return join((span_words(Span(*piece), local) for piece in span.pieces), _AND)


def _moment(moment: datetime, after: datetime | None = None) -> str:
    if after and _is_midnight(moment) and (moment - timedelta(days=1)).date() == after.date():
        return "24:00"
    clock = f"{moment:%H:%M:%S}".removesuffix(":00")
    return clock if after and moment.date() == after.date() else f"{format_date(moment, _DAY)} {clock}"


def _is_midnight(moment: datetime) -> bool:
    return moment.hour == moment.minute == moment.second == 0
