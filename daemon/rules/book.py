"""The rules of one camera, watched live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from daemon.questions.facts import facts_of, gap_of, time_of
from daemon.questions.local_time import LocalTime, microseconds
from daemon.rules.rule import Rule
from daemon.rules.watch import Cooldown, Firing, Watch
from pipeline.record import Evidence, Record

LOOK_BACK = timedelta(days=2)
MOST_RECORDS = 50_000
"""How far a new process looks back in the journal, so that its rules go on where the earlier ones were."""
_PICTURES = 100

Met = tuple[Rule, Firing]


class RuleBook:
    """Rules, each watched and cooled down.

    Attributes:
        evidence: pictures of recent records, by id.
    """

    def __init__(self, rules: Sequence[Rule], local: LocalTime) -> None:
        self.rules, self.evidence = tuple(rules), dict[str, Evidence]()
        self._watches = [(rule, Watch(rule, local), Cooldown(rule)) for rule in rules]
        self._begun = False

    def take(self, record: Record) -> list[Met]:
        """The rules that fire by the camera's next record."""
        return list(self._cool(self._take(record)))

    def tick(self, now: datetime) -> list[Met]:
        """The rules that fire because nothing was recorded until now, and the camera was watched."""
        for _, watch, _ in self._watches:
            watch.advance(microseconds(now))
        return list(self._cool(self._met()))

    def recall(self, newest_first: Iterable[Record], settings_sha256: str) -> list[Met]:
        """Go on where an earlier process ended, by its journal.

        Args:
            newest_first: the camera's records.
            settings_sha256: of the records of a process with the same rules.

        Returns:
            Rules that were met by its last record and did not get into the journal before it was killed.
        """
        records = list[Record]()
        for record in islice(newest_first, MOST_RECORDS):
            if records and records[0].after.moment - record.after.moment > LOOK_BACK:
                break
            records.append(record)
        waiting = list[Met]()
        for record in reversed(records):
            met = self._take(record)
            if record.rule is None:
                waiting = met
                continue
            fired = record.rule.name, record.rule.records
            waiting = [each for each in (*waiting, *met) if (each[0].name, each[1].records) != fired]
            for rule, _, cooldown in self._watches:
                if rule.name == record.rule.name and record.sentences[0].time:
                    cooldown.remember(time_of(record.sentences[0].time))
        same = records and records[0].config_sha256 == settings_sha256
        return list(self._cool(waiting)) if same else []

    def _take(self, record: Record) -> list[Met]:
        members, time = record.members(), microseconds(record.after.moment)
        if record.evidence:
            self.evidence[record.id] = record.evidence
            if len(self.evidence) > _PICTURES:
                del self.evidence[next(iter(self.evidence))]
        gap = gap_of(members, time)
        facts = facts_of(members, time, record.id)
        for _, watch, _ in self._watches:
            if not self._begun:
                watch.begin(record.id, time)
            if gap:
                watch.gap(record.id, time, *gap)
            for fact in facts:
                watch.take(fact)
            watch.advance(time)
        self._begun = True
        return self._met()

    def _met(self) -> list[Met]:
        met = [(rule, firing) for rule, watch, _ in self._watches for firing in watch.fired]
        for _, watch, _ in self._watches:
            watch.fired.clear()
        return sorted(met, key=lambda each: each[1].at)

    def _cool(self, met: Iterable[Met]) -> Iterator[Met]:
        cooldowns = {rule.name: cooldown for rule, _, cooldown in self._watches}
        return (each for each in met if cooldowns[each[0].name].admits(each[1]))
