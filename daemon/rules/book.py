"""The rules of one camera, watched live."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice

from daemon.questions.facts import facts_of, gap_of, time_of
from daemon.questions.local_time import LocalTime, microseconds
from daemon.rules.rule import Rule
from daemon.rules.watch import Firing, Watch
from pipeline.record import Evidence, Record

LOOK_BACK = timedelta(days=2)
MOST_RECORDS = 50_000
"""How far a new process looks back in the journal, so that its rules go on where the earlier ones were."""
_PICTURES = 100

Met = tuple[Rule, Firing]


def recent(newest_first: Iterable[Record], span: timedelta, most: int) -> list[Record]:
    """The last records of a span, no more than so many; the oldest first."""
    records = list[Record]()
    for record in islice(newest_first, most):
        if records and records[0].after.moment - record.after.moment > span:
            break
        records.append(record)
    return records[::-1]


class RuleBook:
    """Rules, each watched and cooled down; `evidence` has pictures of recent records, by id."""

    def __init__(self, rules: Sequence[Rule], local: LocalTime) -> None:
        self.rules, self.evidence = tuple(rules), dict[str, Evidence]()
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
        records, waiting = recent(newest_first, LOOK_BACK, MOST_RECORDS), list[Met]()
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
