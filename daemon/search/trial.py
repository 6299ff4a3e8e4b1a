"""A rule tried on the past: when it would have fired, by the evaluator that runs live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

from daemon.questions.facts import Fact, Matcher
from daemon.questions.question import Span, microseconds, moment_of, not_here
from daemon.rules.rule import Form, Rule
from daemon.rules.watch import Firing, Watch
from daemon.search.output import local_words
from daemon.search.search import Search
from daemon.search.selection import any_place, ends_of, sql_list, texts_with
from pipeline.record import Record
from pipeline.record_format import format_time

_CHOSEN = "SELECT record, n FROM sentences WHERE"

Firings = Sequence[tuple[str, Firing]]  # with their camera; their records are numbers of the index


def try_rule(search: Search, rule: Rule, span: Span, now: datetime) -> Firings:
    """When a rule would have fired in a span, by time; SearchError where a camera of it has no records."""
    db, watched = search.index.connection, search.selection.watched()
    cameras = rule.filters.cameras or tuple(watched)
    for name in cameras:
        if name not in watched:
            raise not_here(name, "camera", watched)
    watches = {camera: Watch(rule, search.local) for camera in cameras}
    begin, end = ends_of(Span(span.since, span.until or now))
    among, first = f"camera IN {sql_list(cameras)}", "SELECT min(id) FROM records GROUP BY camera"
    sql = f"SELECT camera, id, time FROM records WHERE +{among} AND id IN ({first})"
    for camera, *record in db.execute(sql) if rule.asks_absence else ():
        watches[camera].begin(*record)
    gaps = db.execute(
        "SELECT camera, record, (SELECT time FROM records WHERE id = record), begin, end, reason FROM gaps "
        f"WHERE {among} ORDER BY record DESC"
    ).fetchall()
    for fact in chain(_recorded_facts(search, rule), [None]):
        while gaps and (fact is None or gaps[-1][1] <= fact.record):
            camera, *gap = gaps.pop()
            watches[camera].gap(*gap)
        if fact and fact.time < end and (watch := watches.get(fact.camera)):
            watch.take(fact)
    found = list[tuple[str, Firing]]()
    for camera, watch in watches.items():
        watch.advance(min(microseconds(watched[camera].last), end))
        found += [(camera, each) for each in watch.fired if begin <= each.at < end and watch.admits(each)]
    return sorted(found, key=lambda each: each[1].at)


def _recorded_facts(search: Search, rule: Rule) -> Iterator[Fact]:
    """All sentences that may matter to a rule, in the order of the index."""
    present = {Form.STAY: 0, Form.COUNT: 0, Form.STILL: 1}.get(rule.form, -1)
    asked = [Matcher(each) for each in (rule.filters, rule.then)]
    chosen = [_chosen(each, stays=n == present) for n, each in enumerate(asked)]
    first, then = ({*each.spoken, *each.open_classes} for each in asked)
    if rule.form is Form.STILL and first and first <= then and not rule.then.zones:
        chosen[0] = ""  # among what is said of those stays
    by_words = any(each.filters.zones or any(map(any, each.spoken.values())) for each in asked)
    text = "(SELECT text FROM texts WHERE id = s.text)" if by_words else "''"
    all_chosen = " UNION ".join([*filter(None, chosen), f"{_CHOSEN} kind = 'rule' ORDER BY record, n"])
    rows = search.index.connection.execute(
        "SELECT record, time, camera, at, kind, action, object, colour, confidence, 1, counted, "
        "iif(other IS NULL, NULL, (SELECT id FROM visits v WHERE v.camera = s.camera AND v.track = other)), "
        # Chosen by the indexes alone, then looked up one by one in that order.
        f"visit, {text} FROM ({all_chosen}) CROSS JOIN sentences s USING (record, n)"
    )
    return map(partial(tuple.__new__, Fact), rows)  # as _make does, in half the time


def _chosen(asked: Matcher, *, stays: bool) -> str:
    """SQL for the sentences that may be an event of filters, or of a stay of what they name."""
    names = sorted({*asked.spoken, *asked.open_classes})
    where = [f"object IN {sql_list(names)}"] if names else []
    if asked.filters.zones:  # places are rarer than things: a plus keeps the index of these out
        where = [f"text IN {texts_with(any_place(asked.filters.zones))}", *(f"+{each}" for each in where)]
    if stays:
        mine = " AND ".join(where)
        visits = f"{_CHOSEN} visit IN (SELECT visit FROM sentences WHERE {mine})"
        return f"{visits} UNION {_CHOSEN} visit IS NULL AND {mine}"
    if not (asked.kinds or asked.actions):
        return ""
    kinds, actions = (sql_list(sorted(each)) for each in (asked.kinds, asked.actions))
    return f"{_CHOSEN} {' AND '.join([*where, f'(kind IN {kinds} OR action IN {actions})'])}"


def records_of(search: Search, found: Firings) -> list[list[Record]]:
    """The records on which each rests; those that retention has deleted meanwhile are missing."""
    numbers = {int(number) for _, each in found for number in each.records}
    records = {result.number: result.record for result in search.read(numbers)}
    return [[records[n] for n in map(int, each.records) if n in records] for _, each in found]


def trial_table(search: Search, found: Firings) -> Iterator[str]:
    local = search.local
    for (camera, each), records in zip(found, records_of(search, found), strict=True):
        mark = "  may be: its kind was not sure" if each.maybe else ""
        yield f"{local_words(moment_of(each.at), local):<23}  {camera:<12}  would have fired{mark}"
        for record in records:
            yield f"    {local_words(record.after.moment, local)}  {' '.join(record.text.split())}"


def trial_members(search: Search, found: Firings) -> Iterator[dict[str, Any]]:
    for (camera, each), records in zip(found, records_of(search, found), strict=True):
        yield {
            "time": format_time(moment_of(each.at)),
            "local_time": search.local.of(moment_of(each.at)).isoformat(),
            "camera": camera,
            "may_be": each.maybe,
            "records": [record.id for record in records],
        }
