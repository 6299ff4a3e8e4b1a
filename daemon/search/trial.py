"""A rule tried on the past: when it would have fired, by the evaluator that runs live."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from daemon.questions.local_time import microseconds, moment_of
from daemon.questions.question import SearchError, Span
from daemon.rules.rule import Matcher, Rule, Told
from daemon.rules.watch import Cooldown, Firing, Watch
from daemon.search.search import Search
from daemon.search.selection import sql_list
from pipeline.record import Record


class WouldHaveFired(NamedTuple):
    """A rule would have fired.

    Attributes:
        records: on which it rests; those that retention has deleted are missing.
    """

    camera: str
    at: datetime
    records: tuple[Record, ...]
    maybe: bool


def try_rule(search: Search, rule: Rule, span: Span, now: datetime) -> list[WouldHaveFired]:
    """When a rule would have fired, had it been in force in a span; by time.

    Raises:
        SearchError: a camera of the rule has no records.
    """
    db, selection = search.index.store.connection, search.selection
    cameras = rule.filters.cameras or selection.cameras()
    for name in cameras:
        if name not in selection.cameras():
            raise SearchError(f"no camera of the journals is called {name!r}")
    watches = {camera: Watch(rule, search.local) for camera in cameras}
    seen, end = search.selection.last_seen(), microseconds(span.until or now)
    for camera, watch in watches.items():
        first = db.execute("SELECT min(id) FROM records WHERE camera = ?", (camera,)).fetchone()[0]
        watch.begin(first, db.execute("SELECT time FROM records WHERE id = ?", (first,)).fetchone()[0])
    gaps = db.execute("SELECT record, camera, begin, end, reason FROM gaps ORDER BY record").fetchall()
    times = dict(db.execute("SELECT id, time FROM records WHERE id IN (SELECT record FROM gaps)"))
    gaps.reverse()
    for camera, *row in _told(search, rule):
        told = Told._make(row)
        while gaps and gaps[-1][0] <= told.record:
            _take_gap(watches, gaps.pop(), times)
        if camera in watches and told.time < end:
            watches[camera].take(told)
    while gaps:
        _take_gap(watches, gaps.pop(), times)
    found = []
    begin = microseconds(span.since) if span.since else -(2**62)
    for camera, watch in watches.items():
        (newest,) = db.execute("SELECT max(time) FROM records WHERE camera = ?", (camera,)).fetchone()
        last = max(newest, microseconds(seen[camera]) if camera in seen else newest)
        watch.advance(min(last, end))
        cooldown = Cooldown(rule)
        fired = (each for each in watch.fired if begin <= each.at < end)
        found += [(camera, firing) for firing in fired if cooldown.admits(firing)]
    return _with_records(search, found)


def _take_gap(watches: dict[str, Watch], row: tuple[int, str, int, int, str], times: dict[int, int]) -> None:
    record, camera, since, until, reason = row
    if camera in watches:
        watches[camera].gap(record, times[record], since, until, reason)


def _told(search: Search, rule: Rule) -> Iterator[tuple[Any, ...]]:
    """Camera and members of `Told` of all sentences that may matter to a rule, in the order of the index."""
    db = search.index.store.connection
    about = list[str]()
    for each in (Matcher(rule.filters), Matcher(rule.then)):
        if names := sorted(each.objects | each.open_classes):
            objects = f"object IN {sql_list(names)}"
            of_them = f"SELECT visit FROM sentences WHERE {objects} AND visit IS NOT NULL"
            about.append(f"s.{objects} OR s.visit IN ({of_them})")
        else:
            about.append(
                f"s.kind IN {sql_list(sorted(each.kinds))} OR s.action IN {sql_list(sorted(each.actions))}"
            )
    speaks = rule.filters.zones or rule.then.zones or "animal" in str(about)
    text = "(SELECT text FROM texts WHERE id = s.text)" if speaks else "''"
    return db.execute(
        f"SELECT camera, record, time, at, kind, action, object, colour, confidence, counted, visit, {text} "
        f"FROM sentences s WHERE s.kind = 'rule' OR {' OR '.join(about)} ORDER BY record, n"
    )


def _with_records(search: Search, found: list[tuple[str, Firing]]) -> list[WouldHaveFired]:
    numbers = {int(number) for _, firing in found for number in firing.records}
    locations = search.selection.numbered(numbers)
    records = dict[int, Record]()
    for location in locations:
        for result in search.reader.read([location]):
            records[location.id] = result.record
    made = [
        WouldHaveFired(
            camera,
            moment_of(firing.at),
            tuple(records[int(number)] for number in firing.records if int(number) in records),
            firing.maybe,
        )
        for camera, firing in found
    ]
    return sorted(made, key=lambda each: each.at)
