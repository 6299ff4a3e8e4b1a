"""A rule tried on the past: when it would have fired, by the evaluator that runs live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from daemon.questions.local_time import microseconds, moment_of
from daemon.questions.question import Filters, SearchError, Span
from daemon.questions.words import ANIMALS
from daemon.rules.rule import Form, Matcher, RecordedFact, Rule
from daemon.rules.watch import Cooldown, Watch
from daemon.search.search import Search
from daemon.search.selection import any_place, sql_list
from pipeline.record import Record


class WouldHaveFired(NamedTuple):
    """A rule would have fired: where, when, by which records of the index, and whether it only may be so."""

    camera: str
    at: datetime
    numbers: tuple[int, ...]
    maybe: bool


def try_rule(search: Search, rule: Rule, span: Span, now: datetime) -> list[WouldHaveFired]:
    """When a rule would have fired, had it been in force in a span; by time.

    Raises:
        SearchError: a camera of the rule has no records.
    """
    db, selection = search.index.store.connection, search.selection
    known = selection.cameras()
    cameras = rule.filters.cameras or known
    for name in cameras:
        if name not in known:
            raise SearchError(f"no camera of the journals is called {name!r}; there are: {', '.join(known)}")
    watches = {camera: Watch(rule, search.local) for camera in cameras}
    seen, end = selection.last_seen(), microseconds(span.until or now)
    sql = "SELECT camera, id, time FROM records WHERE id IN (SELECT min(id) FROM records GROUP BY camera)"
    for camera, first, time in db.execute(sql) if rule.asks_absence else ():
        if camera in watches:
            watches[camera].begin(first, time)
    gaps = db.execute("SELECT record, camera, begin, end, reason FROM gaps ORDER BY record").fetchall()
    times = dict(db.execute("SELECT id, time FROM records WHERE id IN (SELECT record FROM gaps)"))
    gaps.reverse()
    for camera, fact in _recorded_facts(search, rule):
        while gaps and gaps[-1][0] <= fact.record:
            _take_gap(watches, gaps.pop(), times)
        if camera in watches and fact.time < end:
            watches[camera].take(fact)
    for gap in reversed(gaps):
        _take_gap(watches, gap, times)
    found = list[WouldHaveFired]()
    begin = microseconds(span.since) if span.since else -(2**62)
    for camera, watch in watches.items():
        (newest,) = db.execute("SELECT max(time) FROM records WHERE camera = ?", (camera,)).fetchone()
        last = max(newest, microseconds(seen[camera]) if camera in seen else newest)
        watch.advance(min(last, end))
        cooldown = Cooldown(rule)
        fired = (each for each in watch.fired if begin <= each.at < end)
        found += [
            WouldHaveFired(camera, moment_of(each.at), tuple(map(int, each.records)), each.maybe)
            for each in fired
            if cooldown.admits(each)
        ]
    return sorted(found, key=lambda each: each.at)


def _take_gap(watches: dict[str, Watch], row: tuple[int, str, int, int, str], times: dict[int, int]) -> None:
    record, camera, since, until, reason = row
    if camera in watches:
        watches[camera].gap(record, times[record], since, until, reason)


def _recorded_facts(search: Search, rule: Rule) -> Iterator[tuple[str, RecordedFact]]:
    """Camera and sentence of all that may matter to a rule, in the order of the index."""
    db = search.index.store.connection
    filters = rule.filters, rule.then
    present = {Form.STAY: 0, Form.COUNT: 0, Form.STILL: 1}.get(rule.form, -1)
    about = [_about(each, f":places{n}", stays=n == present) for n, each in enumerate(filters)]
    words = [any_place(each.zones) for each in filters if each.zones]
    words += [f'"{name}"' for name in ANIMALS if any(name in each.objects for each in map(Matcher, filters))]
    matching = "SELECT id, text FROM texts WHERE id IN (SELECT rowid FROM words WHERE words MATCH ?)"
    texts = dict(db.execute(matching, (" OR ".join(words),)).fetchall()) if words else {}
    rows = db.execute(
        "SELECT camera, record, time, at, kind, action, object, colour, confidence, counted, "
        "iif(other IS NULL, NULL, (SELECT id FROM visits v WHERE v.camera = s.camera AND v.track = other)), "
        "visit, text "
        f"FROM sentences s WHERE s.kind = 'rule' OR {' OR '.join(about)} ORDER BY record, n",
        {f"places{n}": any_place(each.zones) for n, each in enumerate(filters)},
    )
    return ((row[0], RecordedFact._make((*row[1:-1], texts.get(row[-1], "")))) for row in rows)


def _about(filters: Filters, places: str, *, stays: bool) -> str:
    """The condition on a sentence ``s`` that may be an event of filters, or of a stay of what they name.

    Args:
        filters: see there.
        places: the parameter for their places.
        stays: for which of both.
    """
    matcher = Matcher(filters)
    names = sorted(matcher.objects | matcher.open_classes)
    where = [f"object IN {sql_list(names)}"] if names else []
    if filters.zones:
        where.append(f"text IN (SELECT rowid FROM words WHERE words MATCH {places})")
    if stays:
        mine = " AND ".join(where)
        return f"(s.visit IN (SELECT visit FROM sentences WHERE {mine}) OR (s.visit IS NULL AND {mine}))"
    kinds, actions = (sql_list(sorted(each)) for each in (matcher.kinds, matcher.actions))
    return f"({' AND '.join([*where, f'(s.kind IN {kinds} OR s.action IN {actions})'])})"


def records_of(search: Search, found: Sequence[WouldHaveFired]) -> list[list[Record]]:
    """The records on which each rests; those that retention has deleted meanwhile are missing."""
    locations = search.selection.numbered({number for each in found for number in each.numbers})
    numbers = {location.digest: location.id for location in locations}
    results = search.reader.read(locations)
    records = {numbers[bytes.fromhex(each.record.hash)[:8]]: each.record for each in results}
    return [[records[number] for number in each.numbers if number in records] for each in found]
