"""The evaluator: one rule on one camera, over its records in their order and a clock. Pure and deterministic.

Live, the clock is also the last frame that was seen; on the past only the records, and the last frame at the
end. Both fire at the same moments on the same records, because a deadline is reckoned from the records' own
times, and a record of a rule that has fired is in the chain, where it moves the clock on in both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from daemon.questions.facts import ARRIVALS, DEPARTURES, MAYBE, NO, Fact, Matcher, facts_of, gap_of, time_of
from daemon.questions.question import LocalTime, microseconds, moment_of
from daemon.rules.rule import Form, Rule

if TYPE_CHECKING:
    from pipeline.record import Evidence, Record

LOOK_BACK = timedelta(days=2)
MOST_RECORDS = 50_000
"""How far a new process looks back in the journal, so that its rules go on where the earlier ones were."""
_PICTURES = 100

SECOND = 1_000_000
_SETTLED = 15 * SECOND
"""A deadline is looked at so long after it: by then what happened before it is recorded."""
_FORGOTTEN = 86_400 * SECOND
"""What no record has named for so long is not believed to be there any more."""
_SET_BACK = 60 * SECOND
"""Records that are so much older than the one before are of a clock that was set back: all is forgotten."""

_EVENT, _STAY, _COUNT, _STILL, _THEN, _NEVER = Form
_NEUTRAL = {"crossed", "opened", "closed"}  # actions that do not say where the one who does them is
_AWAY = ("camera_down", "outage")  # reasons of gaps after which it is not known who is still there


class Firing(NamedTuple):
    """A rule is met: when, by which records, about which object and how surely; `maybe` of its open class."""

    at: int
    records: tuple[str | int, ...]
    object: str
    confidence: float
    maybe: bool


Met = tuple[Rule, Firing]


@dataclass(slots=True, eq=False)
class _Stay:
    """Somebody or something is there: since when, and by which records, the last of them of what time."""

    begin: int
    first: str | int
    last: str | int = 0
    mentioned: int = 0
    object: str = ""
    confidence: float = 0.0
    maybe: bool = False
    fired: bool = False
    unseen: bool = False  # the camera was down since: it is not known whether it is still there

    def name(self, fact: Fact, sure: int) -> None:
        """Take note of a sentence about it; `NO` of one that does not say what or where it is."""
        self.last, self.mentioned = fact.record, fact.time
        if sure:
            self.object, self.confidence, self.maybe = fact.object, fact.confidence, sure == MAYBE


class Watch:
    """Evaluates a rule; `fired` is taken, and emptied, by the caller."""

    def __init__(self, rule: Rule, local: LocalTime) -> None:
        self.rule, self.fired, self._form = rule, list[Firing](), rule.form
        self.cooling_since: int | None = None  # when it was admitted last
        self._local = local
        self._first, self._then = Matcher(rule.filters), Matcher(rule.then)
        self._wait = round(rule.seconds * SECOND)
        self._known_hours = [(0, 0, 0)]  # the end of those before, begin, end: the two looked at last
        self._forget()

    def _forget(self) -> None:
        self._there: dict[str | int, _Stay] = {}
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._pushed = 0
        self._last = self._turned = 0  # the last record that mattered; when COUNT was met or missed last
        self._met = False
        self._rests_on: tuple[str | int, ...] = ()
        self._began: deque[Fact] = deque()  # first events that wait for the second

    def begin(self, record: str | int | None, time: int) -> None:
        """The camera was watched from its first record on."""
        if self.rule.asks_absence and not self._met:
            self._level(time, record)

    def advance(self, now: int) -> None:
        """Nothing else was recorded up to a time at which the camera was watched."""
        settled = now - _SETTLED
        while self._heap and self._heap[0][0] <= settled:
            due, _, look = heappop(self._heap)
            look(due)

    def take(self, fact: Fact) -> None:
        if fact.kind == "rule":
            self.advance(fact.time)
            return
        form = self._form
        if form is _EVENT:
            if sure := self._first.happens(fact):
                self._fire(fact.at, (fact.record,), fact, maybe=sure == MAYBE)
            return
        if form in (_STAY, _COUNT):
            self._follow(fact, self._first)
            return
        first = self._first.happens(fact)
        then = NO if form is _STILL else self._then.happens(fact)
        if first or then:
            self._move_on(fact.record, fact.time)
        if form is _STILL:
            self._follow(fact, self._then)
        if then:
            self._second(fact, maybe=then == MAYBE)
        if first:
            self._start(fact, maybe=first == MAYBE)

    def gap(self, record: str | int | None, time: int, since: int, until: int, reason: str) -> None:
        """Nothing was recorded for a while; what masks hide is no gap."""
        if reason == "mask":
            return
        self.advance(since)
        if self._form is _NEVER:
            self._began.clear()
        for stay in self._there.values() if reason in _AWAY else ():
            stay.unseen = True
        self._met = False
        self._move_on(record, time)
        if self._form is _COUNT:
            self._level(until, record)

    def admits(self, firing: Firing) -> bool:
        """Whether a firing is reported: one within the cooldown."""
        since, wait = self.cooling_since, round(self.rule.cooldown_s * SECOND)
        if since is not None and 0 <= firing.at - since < wait:
            return False
        self.cooling_since = firing.at
        return True

    def _move_on(self, record: str | int | None, time: int) -> None:
        """Move the clock on to a record that matters; a clock that was set back forgets everything."""
        if time > self._last:
            self._last = time
        elif time < self._last - _SET_BACK:
            self._forget()
            self.begin(record, time)
            self._last = time
        if self._heap and self._heap[0][0] <= time - _SETTLED:
            self.advance(time)

    # Who and what is there

    def _follow(self, fact: Fact, matcher: Matcher) -> None:
        """Keep account of who is there by the next sentence."""
        key, sure = fact.track, matcher.stands(fact)
        if fact.action == "crossed" and key not in self._there and (self._wait or self._form is _COUNT):
            key = None  # no departure may close a visit whose entrance is unknown
        if not sure and key not in self._there:
            return
        self._move_on(fact.record, fact.time)
        if not key:
            if self.rule.asks_absence and self._met:  # somebody without a track was there just then
                self.advance(fact.at + _SETTLED)
                self._met = False
                self._level(fact.at, fact.record)
            elif self._form is _STAY and not self._wait and fact.counted and fact.kind in ARRIVALS:
                self._fire(fact.at, (fact.record,), fact, maybe=sure == MAYBE)
            return
        if stay := self._there.get(key):
            self._look_back(stay, fact)
            stay.unseen = False
            walks_on = fact.action == "resumed" and bool(matcher.filters.zones)
            leaves = walks_on or fact.action == "lost" or fact.kind in DEPARTURES
            if leaves or not (sure or fact.action in _NEUTRAL):
                self._go(key, fact)
            else:
                stay.name(fact, sure)
        elif sure:
            self._come(key, fact, sure)
        if self._form is _COUNT:
            self._level(fact.at, fact.record)

    def _come(self, key: str | int, fact: Fact, sure: int) -> None:
        stay = self._there[key] = _Stay(fact.at, fact.record)
        stay.name(fact, sure)
        if self._form is _COUNT:
            self._later(fact.time + _FORGOTTEN, partial(self._expire, key, stay))
            return
        oldest = next(iter(self._there))
        if self._there[oldest].mentioned + _FORGOTTEN < fact.time:
            del self._there[oldest]
        if self._form is _STAY:
            if self._wait:
                self._later(stay.begin + self._wait, partial(self._stayed, key, stay))
            else:
                self._meet(stay, fact.at)

    def _go(self, key: str | int, fact: Fact) -> None:
        if self._form is _COUNT:
            self._level(fact.at, fact.record, without=key)
        del self._there[key]

    def _look_back(self, stay: _Stay, fact: Fact) -> None:
        """A sentence about a stay may show that it was there at a time that has not been looked at."""
        if self._form is _STAY and not stay.fired and self._wait:
            due = stay.begin + self._wait
            if fact.at >= due:
                self._meet(stay, fact.at if stay.unseen else due)

    def _stayed(self, key: str | int, stay: _Stay, due: int) -> None:
        if self._there.get(key) is stay and not (stay.fired or stay.unseen):
            self._meet(stay, due)

    def _meet(self, stay: _Stay, at: int) -> None:
        stay.fired = True
        self._fire(at, tuple(dict.fromkeys((stay.first, stay.last))), stay, maybe=stay.maybe)

    def _expire(self, key: str | int, stay: _Stay, due: int) -> None:
        if self._there.get(key) is not stay:
            return
        if (later := stay.mentioned + _FORGOTTEN) > due:
            self._later(later, partial(self._expire, key, stay))
            return
        self._level(due, without=key)
        del self._there[key]

    # How many are there

    def _level(self, at: int, record: str | int | None = None, *, without: str | int | None = None) -> None:
        """Look how many are there since a moment; until then who leaves was there as well."""
        rule, there = self.rule, [stay for key, stay in self._there.items() if key != without]
        if rule.asks_absence:
            met = len(there) <= (rule.most or 0)
        else:
            met = sum(not stay.unseen for stay in there) >= (rule.least or 0)
        if met == self._met:
            return
        self.advance(at + _SETTLED)  # it may have been met for long enough before this
        self._met, self._turned = met, at
        if met:
            self._rests_on = () if record is None else (record,)
            self._await(at)

    def _await(self, since: int) -> None:
        """Look again when it was met for long enough, within the hours."""
        begin, end = self._hours(since)
        due = max(since, begin) + self._wait
        if due >= end:
            begin, _ = self._hours(end)
            due = begin + self._wait
        if self._wait or due > since:
            self._later(due, partial(self._held, self._turned))
        else:
            self._held(self._turned, due)

    def _held(self, turned: int, due: int) -> None:
        if not self._met or turned != self._turned:
            return
        stays = [stay for stay in self._there.values() if not stay.unseen]
        if self.rule.asks_absence:
            recent = due - self._turned <= _FORGOTTEN
            self._fire(due, self._rests_on if recent else (), None, maybe=False)
        else:
            sure = sum(not stay.maybe for stay in stays) >= (self.rule.least or 0)
            records = dict.fromkeys(stay.last for stay in stays)
            self._fire(due, tuple(records), stays[-1], maybe=not sure)
        if self.rule.between:
            self._await(self._hours(due)[1])

    # One event after another

    def _start(self, fact: Fact, *, maybe: bool) -> None:
        form, due = self._form, fact.at + self._wait
        if form is _STILL:
            # Of several the one that came or stopped last, where the record does not name it.
            last, oldest = None, fact.time - _FORGOTTEN
            for key, stay in self._there.items():
                if stay.mentioned >= oldest and not stay.unseen and fact.other in (None, key):
                    last, oldest = (key, stay), stay.mentioned
            if last:
                records = tuple(dict.fromkeys((fact.record, last[1].last)))
                self._later(due, partial(self._remains, *last, records, maybe=maybe))
            return
        self._began.append(fact)
        if form is _NEVER:
            self._later(due, partial(self._missed, fact, maybe=maybe))
        while form is _THEN and self._began[0].at + self._wait < fact.at:
            self._began.popleft()

    def _second(self, fact: Fact, *, maybe: bool) -> None:
        """The second event ends the waits for it."""
        began = [each for each in self._began if each.record != fact.record and each.at <= fact.at]
        in_time = [each for each in began if fact.at - each.at <= self._wait]
        for each in in_time:
            self._began.remove(each)
        if in_time and self._form is _THEN:
            first = in_time[-1]
            unsure = maybe or self._first.happens(first) == MAYBE
            self._fire(fact.at, (first.record, fact.record), fact, maybe=unsure)

    def _remains(
        self, key: str | int, stay: _Stay, records: tuple[str | int, ...], due: int, *, maybe: bool
    ) -> None:
        if self._there.get(key) is stay and not stay.unseen:
            self._fire(due, records, stay, maybe=maybe or stay.maybe)

    def _missed(self, first: Fact, due: int, *, maybe: bool) -> None:
        if first in self._began:
            self._began.remove(first)
            self._fire(due, (first.record,), first, maybe=maybe)

    # What they share

    def _later(self, due: int, look: Callable[[int], None]) -> None:
        self._pushed += 1
        heappush(self._heap, (due, self._pushed, look))

    def _fire(
        self, at: int, records: tuple[str | int, ...], about: Fact | _Stay | None, *, maybe: bool
    ) -> None:
        begin, end = self._hours(at)
        if begin <= at < end:
            thing, confidence = (about.object, about.confidence) if about else ("scene", 1.0)
            self.fired.append(Firing(at, records, thing, confidence, maybe))

    def _hours(self, at: int) -> tuple[int, int]:
        """The first span of the rule's hours that ends after a moment."""
        if self.rule.between is None:
            return -(2**62), 2**62
        for before, begin, end in self._known_hours:
            if before <= at < end:
                return begin, end
        day, before = self._local.of(moment_of(at)).date() - timedelta(days=2), 0
        while True:
            begin, end = map(microseconds, self._local.hours_of(day, self.rule.between))
            if end > at:
                self._known_hours = [*self._known_hours[-1:], (before, begin, end)]
                return begin, end
            before, day = end, day + timedelta(days=1)


def recent(newest_first: Iterable[Record], span: timedelta, most: int) -> list[Record]:
    """The last records of a span, no more than so many; the oldest first."""
    records: list[Record] = []
    for record in islice(newest_first, most):
        if records and records[0].after.moment - record.after.moment > span:
            break
        records.append(record)
    return records[::-1]


class RuleBook:
    """Rules, each watched and cooled down; `evidence` has pictures of recent records, by id."""

    def __init__(self, rules: Sequence[Rule], local: LocalTime) -> None:
        self.rules = tuple(rules)
        self.evidence: dict[str, Evidence] = {}
        self._watches = {rule.name: Watch(rule, local) for rule in rules}

    def take(self, record: Record) -> list[Met]:
        """The rules that fire by the camera's next record."""
        return self._admitted(self._take(record))

    def show(self, record_id: str, evidence: Evidence | None) -> None:
        """Take note of the pictures of a record, for rules that rest on it."""
        if evidence:
            self.evidence[record_id] = evidence
            if len(self.evidence) > _PICTURES:
                del self.evidence[next(iter(self.evidence))]

    def tick(self, now: datetime) -> list[Met]:
        """The rules that fire because nothing was recorded until now, and the camera was watched."""
        for watch in self._watches.values():
            watch.advance(microseconds(now))
        return self._admitted(self._met())

    def recall(self, newest_first: Iterable[Record], settings_sha256: str) -> list[Met]:
        """Go on where an earlier process ended, by its journal.

        Gives the rules that were met by its last record and did not get into the journal before it was
        killed, where that process had the same rules: its records have `settings_sha256`.
        """
        records = recent(newest_first, LOOK_BACK, MOST_RECORDS)
        waiting: list[Met] = []
        for record in records:
            met = self._take(record)
            if record.rule is None:
                waiting = met
                continue
            fired = record.rule.name, record.rule.records
            waiting = [each for each in (*waiting, *met) if (each[0].name, each[1].records) != fired]
            watch, time = self._watches.get(record.rule.name), record.sentences[0].time
            if watch and time:
                watch.cooling_since = time_of(time)
        same = records and records[-1].config_sha256 == settings_sha256
        return self._admitted(waiting) if same else []

    def _take(self, record: Record) -> list[Met]:
        members, time = record.members(), microseconds(record.after.moment)
        self.show(record.id, record.evidence)
        gap = gap_of(members, time)
        facts = facts_of(members, time, record.id)
        for watch in self._watches.values():
            watch.begin(record.id, time)
            if gap:
                watch.gap(record.id, time, *gap)
            for fact in facts:
                watch.take(fact)
            watch.advance(time)
        return self._met()

    def _met(self) -> list[Met]:
        met = list[Met]()
        for watch in self._watches.values():
            met += [(watch.rule, firing) for firing in watch.fired]
            watch.fired.clear()
        return sorted(met, key=lambda each: each[1].at)

    def _admitted(self, met: Iterable[Met]) -> list[Met]:
        return [(rule, firing) for rule, firing in met if self._watches[rule.name].admits(firing)]
