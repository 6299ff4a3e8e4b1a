"""Answers: an address as a question by the options of `narrated query`, its plots, and rules tried out."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

import yaml
from starlette.datastructures import QueryParams

from daemon.config.units import parse_duration
from daemon.questions.question import (
    DAY_NAMES,
    LISTS,
    LocalTime,
    Measure,
    Question,
    SearchError,
    Span,
    microseconds,
    moment_of,
    parse_hours,
    question_of,
)
from daemon.questions.restatement import restate
from daemon.rules.rule import read_rule
from daemon.search.occupancy import count, levels, unseen
from daemon.search.output import caveats, counted_how_well, local_words, span_rows
from daemon.search.search import Search
from daemon.search.selection import Group
from daemon.search.trial import records_of, try_rule
from models.language.catalogue import _, tell
from pipeline.report.words import counted, format_date, has_date

ALL_DAYS = "all"

_SHOWN = 50
_NAMES = (*LISTS, "q", "text", "confidence", "since", "until", "between", "day", "held")
"""Parameters that are read; others are ignored."""
_LONGEST, _MOST = 300, 12
_PAGE = re.compile(r"[1-9][0-9]{0,4}")
_BY_MINUTES, _BY_HOURS, _LONGEST_PLOT = timedelta(hours=3), timedelta(days=2), timedelta(days=92)
"""Spans up to so long are shown by minutes, and by hours; others by days, so many at most."""
_PARTS = 96  # of a span, of each of which occupancy is the highest


class Bar(NamedTuple):
    """Visits of a minute, an hour or a day; `narrations` also count what is no visit."""

    words: str
    visits: int
    narrations: int
    address: str


class Occupancy(NamedTuple):
    """How many were there at the same time, the most in each of equal parts of a span."""

    name: str
    most: Sequence[int]
    dark: Sequence[tuple[float, float]]  # begin and length of what was not recorded, in shares of the span


@dataclass(frozen=True, slots=True)
class ReviewQuery:
    given: tuple[tuple[str, str], ...] = ()  # its parameters that are not empty
    question: Question = field(default_factory=Question)
    day: date | None = None  # None for all days, or a span of its own
    understood: str = ""  # a question in words restated, else empty
    page: int = 1  # of the answer, from 1

    @classmethod
    def read(cls, parameters: QueryParams, search: Search, now: datetime) -> Self:
        """Read an address; without a time it is of the newest day. SearchError where it is not understood."""
        given = tuple((n, v.strip()) for n, v in parameters.multi_items() if n in _NAMES and v.strip())
        if len(given) > _MOST * len(_NAMES) or any(len(value) > _LONGEST for _, value in given):
            raise SearchError(f"this is too much at once: {_LONGEST} characters each, {_MOST} of a kind")
        one, local, understood = dict(given), search.local, ""
        asked = search.asker().read(one["q"], now) if "q" in one else Question()
        question = question_of(_options(given), local, now, asked)
        if "q" in one:
            understood = restate(question, local)
        held = "held" in one or "q" in one or question.measure.count  # no answer is false by a limit
        question = replace(question, filters=replace(question.filters, held=held))
        span, measure, day = question.span, question.measure, None
        if text := one.get("day"):
            try:
                day = None if text == ALL_DAYS else date.fromisoformat(text)
            except ValueError:
                raise SearchError(f"{text!r} is not a day: write 2026-05-01") from None
        elif not (span.since or span.until or measure.order != "all" or measure.count):
            newest = next(search.answer(Question(question.filters, measure=Measure("last"))).results, None)
            day = local.of(newest.record.after.moment if newest else now).date()
        if day:
            begin, end = local.bounds(day)
            since, until = max(begin, span.since or begin), min(end, span.until or end)
            question = replace(question, span=replace(span, since=since, until=until))
        number = parameters.get("page", "1")
        return cls(given, question, day, understood, int(number) if _PAGE.fullmatch(number) else 1)

    @property
    def one(self) -> Mapping[str, str]:
        return dict(self.given)

    def query(self, **changed: str | date | None) -> str:
        """The address's query with some parameters changed, or left out where they are None or empty."""
        unchanged = [(name, value) for name, value in self.given if name not in changed]
        return urlencode(unchanged + [(name, f"{value}") for name, value in changed.items() if value])

    def nearer(self, begin: datetime, end: datetime, local: LocalTime) -> str:
        if end - begin > _BY_MINUTES:
            return self.query(day=local.of(begin).date(), since=None, until=None)
        since, until = (local.of(moment).replace(tzinfo=None).isoformat() for moment in (begin, end))
        return self.query(since=since, until=until, day=None)


def review(search: Search, parameters: QueryParams, now: datetime) -> dict[str, Any]:
    """The values of the template for an address; one that cannot be read fills in the form again.

    `results` are newest first, or in the order of the question; `more` where older ones are left, `counts`
    None for a question that counts nothing.
    """
    selection = search.selection
    values: dict[str, Any] = {"cameras": selection.cameras(), "places": selection.places()}
    values |= {"objects": sorted(selection.objects() - {"scene"}), "faults": search.index.faults()}
    values |= {"title": _("Review"), "all_days": ALL_DAYS, "counts": None, "more": False, "error": ""}
    values |= {name: [] for name in ("results", "visits", "bars", "occupancies", "ticks", "beside", "gaps")}
    try:
        asked = ReviewQuery.read(parameters, search, now)
        values |= _answer(search, asked, now)
    except SearchError as refused:
        given = tuple((name, value[:_LONGEST]) for name, value in parameters.multi_items() if value)
        asked, values["error"] = ReviewQuery(given[:50]), str(refused).replace("--", "")
    return values | {"asked": asked}


def _answer(search: Search, asked: ReviewQuery, now: datetime) -> dict[str, Any]:
    question, measure, local = asked.question, asked.question.measure, search.local
    every, span = measure.order == "all", question.span
    answer: dict[str, Any] = {"gaps": caveats(search, question), "beside": _days(asked, local, now)}
    if measure.count:
        rows = [
            (*map(_label, measure.by, group.labels), group.visits, group.narrations)
            for group in count(search.selection, question)
        ]
        answer["counts"] = rows or [(*[""] * len(measure.by), 0, 0)]
        answer["counted_how_well"] = counted_how_well(question)
        answer["groups"] = [_(name.replace("-", " ")) for name in measure.by]
    if not (question.of_intervals or measure.most or measure.fewest):
        listed = replace(question, measure=Measure()) if measure.count else question
        matches = search.answer(listed, _SHOWN, skip=(asked.page - 1) * _SHOWN if every else 0)
        answer["results"] = list(matches.results)[:: 1 if measure.order == "first" else -1]
        answer["more"] = matches.more and every
    if (question.of_visits or question.of_intervals) and not measure.count:
        answer["visits"] = [row[:-1] for row in span_rows(search, question)[:_SHOWN]]
    elif every and not measure.count:
        axis = local.bounds(asked.day) if asked.day else (span.since, span.until)
        answer |= _plots(search, asked, *axis)
    return answer | {"title": _title(asked, answer)}


def _title(asked: ReviewQuery, answer: Mapping[str, Any]) -> str:
    results, ticks, shape = answer.get("results"), answer.get("ticks"), "%A %-d %B %Y"
    if asked.day:
        undated = results and not has_date(results[0].record.after.moment)
        return _("Footage without a date") if undated else format_date(asked.day, shape)
    if ticks and answer["beside"]:
        begin, end = (format_date(each, "%H:%M") for each in (ticks[0], ticks[-1]))
        day = format_date(ticks[0], shape)
        return tell("{day}, {begin} to {end}", day=day, begin=begin, end=end)
    return _("Results") if asked.understood else _("All days")


def _label(grouping: str, label: str) -> str:
    """A group's label in the language; names of cameras, numbers and moments stay."""
    if grouping == "weekday":
        return format_date(date(2024, 1, 1) + timedelta(days=DAY_NAMES.index(label.lower())), "%A")
    return _(label) if grouping in ("object", "kind", "colour") else label


def _options(given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Parameters of an address as options of `question_of`."""
    options: dict[str, Any] = dict(given)
    options |= {name: [v for n, v in given if n == name] for name in LISTS}
    if "between" in options:
        options["between"] = options["between"].partition("-")[::2]
    try:
        options |= {"confidence": float(options["confidence"])} if "confidence" in options else {}
    except ValueError:
        raise SearchError("the confidence is not a number from 0 to 1") from None
    return options


def _days(asked: ReviewQuery, local: LocalTime, now: datetime) -> list[tuple[str, str, str]]:
    """Links to the days beside the one that is shown: their relation, words and query."""
    if asked.day is None or not has_date(local.midnight(asked.day)):
        return []
    before, after = (asked.day + timedelta(days=n) for n in (-1, 1))
    days = [("prev", f"← {before}", asked.query(day=before))]
    if after <= local.of(now).date():
        days.append(("next", f"{after} →", asked.query(day=after)))
    return [*days, ("up", _("all days"), asked.query(day=ALL_DAYS))]


# Plots


def _plots(
    search: Search, asked: ReviewQuery, begin: datetime | None, end: datetime | None
) -> dict[str, Any]:
    """Bars, occupancies, five local moments of the axis, and of a zoomed one the links beside it.

    The axis from begin to end is of days, from the first to the last with narrations, where it is long.
    """
    local, short = search.local, begin and end and end - begin <= _BY_HOURS
    unit = "hour" if short else "day"
    if begin and end and end - begin <= _BY_MINUTES:
        unit = "minute"
    filters = replace(asked.question.filters, held=True)  # no count is false by a limit
    question = replace(asked.question, filters=filters, measure=Measure(count=True, by=(unit,)))
    groups = {group.labels[0]: group for group in search.selection.count(question)}
    if not groups or not has_date(datetime.fromisoformat(min(groups))):
        return {}
    if not short or begin is None or end is None:
        begin, end = (local.aware(datetime.fromisoformat(each(groups))) for each in (min, max))
        end = local.bounds(local.of(end).date())[1]
        begin = max(begin, end - _LONGEST_PLOT)
    length, bars = end - begin, list[Bar]()
    for label, since, until in search.selection.periods(unit, question.span, begin, end):
        group = groups.get(label) or Group((label,), 0, 0)
        words = f"{label}: {counted(group.visits or 0, 'visit')}, {counted(group.narrations, 'narration')}"
        bars.append(Bar(words, group.visits or 0, group.narrations, asked.nearer(since, until, local)))
    plots: dict[str, Any] = {
        "bars": bars,
        "ticks": [local.of(begin + n * length / 4) for n in range(5)],
        "occupancies": _occupancies(search, question, begin, end) if short else (),
    }
    if unit == "minute" and "q" not in asked.one:
        plots["beside"] = [
            ("prev", f"← {local.of(begin - length):%H:%M}", asked.nearer(begin - length, begin, local)),
            ("next", f"{local.of(end):%H:%M} →", asked.nearer(end, end + length, local)),
            ("up", _("whole day"), asked.query(day=local.of(begin).date(), since=None, until=None)),
        ]
    return plots


def _occupancies(search: Search, question: Question, begin: datetime, end: datetime) -> list[Occupancy]:
    """By camera; those where nobody was are left out."""
    shown, now = [], datetime.now(UTC)
    for camera, stays in sorted(search.selection.stays(question.filters, Span(begin, end)).items()):
        if any(most := most_at_once(stays, begin, end)):
            known = search.selection.watched()[camera]
            dark = unseen(search.selection, camera, (begin, min(end, now)), (known.first, known.until(now)))
            spans = [(max(moment_of(a), begin), min(moment_of(b), end)) for a, b in dark]
            shares = [((a - begin) / (end - begin), (b - a) / (end - begin)) for a, b in spans if a < b]
            shown.append(Occupancy(camera, most, shares))
    return shown


def most_at_once(stays: Sequence[tuple[int, int]], begin: datetime, end: datetime) -> list[int]:
    """The most stays at the same time in each of equal parts of a span; a stay has begin and end in us."""
    first, last = microseconds(begin), microseconds(end)
    edges = [first + (last - first) * n // _PARTS for n in range(_PARTS + 1)]
    most = [0] * _PARTS
    for since, until, number in levels(stays, (), first, last):
        for part in range(bisect_right(edges, since) - 1, bisect_left(edges, until)):
            most[part] = max(most[part], number)
    return most


# Rules


def try_out(search: Search, when: str, hours: str, cooldown: str, since: str) -> dict[str, Any]:
    """Try a rule on the past; the newest times at which it would have fired, and its lines of YAML."""
    between, local, now = parse_hours(hours) if hours else None, search.local, datetime.now(UTC)
    try:
        cooldown_s = parse_duration(cooldown) if cooldown else 0.0
    except ValueError as error:
        raise SearchError(str(error)) from None
    rule = read_rule(when[:60], when, search.asker(), between=between, cooldown_s=cooldown_s)
    fired = try_rule(search, rule, Span(local.parse(since, now) if since else None), now)
    newest = fired[: -_SHOWN - 1 : -1]
    if between:
        hours = "-".join(f"{minutes // 60 % 24:02d}:{minutes % 60:02d}" for minutes in between)
    written = {"name": when[:60].replace('"', "").strip(), "when": when, "hours": hours, "cooldown": cooldown}
    rules = [{key: value for key, value in written.items() if value}]
    return {
        "understood": rule.restate(local),
        "times": len(fired),
        "found": list(zip(newest, records_of(search, newest), strict=True)),
        "clock": partial(local_words, local=local),
        "moment_of": moment_of,
        "lines": yaml.safe_dump({"rules": rules}, allow_unicode=True, sort_keys=False, width=1000),
    }
