"""Comparison of two journals: that of a live run, and that of a replay of the same footage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from models.families import family_of
from pipeline.journal.chain import JournalError
from pipeline.journal.segments import find_chains, read_journal
from pipeline.record import CUT_WHERE_HELD, Record

WITHIN_S = 5.0
"""Events of a recording and of its stream are one within so long: the start of a recorded file is known to a
second or two, and its frames are sampled at other moments."""

_APART = frozenset({"schema", "seq", "stream_id", "prev", "hash", "latency_ms", "config_sha256"})
"""Members that follow from a record's place in its chain, differ from run to run, or are compared once."""

_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A difference of two journals; `id` is the record's, empty for the camera as a whole."""

    camera: str
    id: str
    reason: str

    def __str__(self) -> str:
        return f"{self.id or self.camera}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two journals of a camera agree.

    Attributes:
        records: records that say the same.
        events, of_events: of the events (sentences) of all other records, how many were matched by what
            happened and when, and how many there are in the journal that has more.
    """

    records: int = 0
    events: int = 0
    of_events: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """By camera how far two journals agree, and all differences in the order of the records."""

    same: dict[str, Agreement] = field(default_factory=dict)
    differences: tuple[Discrepancy, ...] = ()


def compare(journal: Path, other: Path) -> Comparison:
    """Compare what two journals say, whatever their place in the chain and however long it took.

    Records belong together where their ids are equal: the same footage, settings and captioner. The events of
    all others, such as those of a recording whose frames were sampled at other moments, are matched one by
    one: the same action or type of change, by the same family of object, within `WITHIN_S`. Where one names a
    car and the other a vehicle, the event agrees, and the difference is listed.

    Args:
        journal: a folder of journals, the output folder of a replay, or one camera's journal.
        other: the same.

    Raises:
        JournalError: one of the two cannot be read.
    """
    mine, theirs = _files(journal), _files(other)
    same, differences = {}, list[Discrepancy]()
    for camera in sorted(mine.keys() | theirs.keys()):
        if camera in mine and camera in theirs:
            pair = _PairOfJournals(camera, (journal, other), _records(mine[camera]), _records(theirs[camera]))
            same[camera] = pair.compare()
            differences += pair.differences
        else:
            name, files = (journal, mine[camera]) if camera in mine else (other, theirs[camera])
            differences.append(Discrepancy(camera, "", f"only in {name}, records: {len(_records(files))}"))
    return Comparison(same, tuple(differences))


def match_times(mine: Sequence[float], theirs: Sequence[float], within_s: float) -> list[tuple[int, int]]:
    """As many pairs as there can be of times (seconds, rising) that are at most `within_s` apart.

    Returns:
        Their indices, rising; each time is in one pair at most.
    """
    pairs, one, two = [], 0, 0
    while one < len(mine) and two < len(theirs):
        if abs(mine[one] - theirs[two]) <= within_s:
            pairs.append((one, two))
            one, two = one + 1, two + 1
        elif mine[one] < theirs[two]:
            one += 1
        else:
            two += 1
    return pairs


class _PairOfJournals:
    """Two journals of one camera while they are compared."""

    def __init__(
        self, camera: str, names: tuple[Path, Path], mine: list[Record], theirs: list[Record]
    ) -> None:
        self._camera, self._names, self._mine, self._theirs = camera, names, mine, theirs
        self.differences: list[Discrepancy] = []

    def compare(self) -> Agreement:
        """Compare the records, and note the differences."""
        by_id = {two.id: (two, place) for place, two in enumerate(self._theirs)}
        twins = [(one, *by_id.pop(one.id)) for one in self._mine if one.id in by_id]  # each at most once
        limits = [(one, two) for one, two, _ in twins if one.config_sha256 != two.config_sha256]
        if limits:
            one, two = limits[0]
            self._note(
                "",
                f"other limits (replay with --limits?): config_sha256 is {one.config_sha256}, in "
                f"{self._names[1]} {two.config_sha256}; {len(limits)} records",
            )
        last, agreed = -1, 0
        for one, two, place in twins:
            late, last = place < last, max(last, place)
            if reason := f"it stands elsewhere in {self._names[1]}" if late else self._difference(one, two):
                self._note(one.id, reason)
            else:
                agreed += 1
        met = {id(each) for one, two, _ in twins for each in (one, two)}
        sides = [_events(r for r in side if id(r) not in met) for side in (self._mine, self._theirs)]
        return Agreement(agreed, *self._compare_events(*sides))

    def _note(self, record: str, reason: str) -> None:
        self.differences.append(Discrepancy(self._camera, record, reason))

    def _difference(self, one: Record, two: Record) -> str:
        """What the two say differently; empty where they say the same."""
        apart = _APART | {"held"} if one.config_sha256 != two.config_sha256 else _APART
        if bool(one.held) != bool(two.held):
            apart |= {*CUT_WHERE_HELD, "box"}
        if not (one.evidence and two.evidence):
            apart |= {"evidence"}
        ours, others = (_without(record.members(), apart) for record in (one, two))
        keys = [key for key in {**ours, **others} if ours.get(key) != others.get(key)]
        return "; ".join(
            f"{key} is {_short(ours.get(key))}, in {self._names[1]} {_short(others.get(key))}" for key in keys
        )

    def _compare_events(self, mine: _Events, theirs: _Events) -> tuple[int, int]:
        """Match events and note the rest; how many match, of how many."""
        matched, rest = 0, list[tuple[float, str, str]]()  # seconds since 1970, id, reason
        for what in sorted(mine.keys() | theirs.keys()):
            sides = mine.get(what, []), theirs.get(what, [])
            ours, others = ([event.time_s for event in side] for side in sides)
            pairs = match_times(ours, others, WITHIN_S)
            matched += len(pairs)
            for one, two in ((sides[0][one], sides[1][two]) for one, two in pairs):
                if one.object != two.object:
                    reason = f"object is {one.object!r}, in {self._names[1]} {two.object!r}"
                    rest.append((one.time_s, one.record, reason))
            for number, (side, name) in enumerate(zip(sides, self._names, strict=True)):
                met = {pair[number] for pair in pairs}
                alone = (event for place, event in enumerate(side) if place not in met)
                rest += [(e.time_s, e.record, f"only in {name}: {_short(e.text)}") for e in alone]
        for _, record, reason in sorted(rest):
            self._note(record, reason)
        return matched, max(sum(map(len, side.values())) for side in (mine, theirs))


class _Event(NamedTuple):
    """A sentence: seconds since 1970, id of its record, text and object."""

    time_s: float
    record: str
    text: str
    object: str


_Events = dict[tuple[str, str], list[_Event]]
"""By action (or type) and family, in the order of time."""


def _events(records: Iterable[Record]) -> _Events:
    """A record that only completes another one has none."""
    found: _Events = {}
    for record in records:
        for sentence in record.sentences if not record.continues else ():
            kind = sentence.action or sentence.type if record.event == "change" else record.event
            time = datetime.fromisoformat(sentence.time or record.after.time).timestamp()
            event = _Event(time, record.id, sentence.text, sentence.object)
            found.setdefault((kind, family_of(sentence.object)), []).append(event)
    return {what: sorted(events) for what, events in found.items()}


def _without(value: Any, names: frozenset[str]) -> Any:
    """A JSON value without the members of these names, at any depth."""
    if isinstance(value, dict):
        return {name: _without(each, names) for name, each in value.items() if name not in names}
    return [_without(each, names) for each in value] if isinstance(value, list) else value


def _files(path: Path) -> dict[str, list[Path]]:
    """The files of each camera's journal."""
    folder = path / "journal" if (path / "journal").is_dir() else path
    files = {chain.camera: list(chain.files) for chain in find_chains([folder])[0]}
    if not files:
        raise JournalError(f"{folder} holds no records: give a folder of journals or a replay's --out")
    return files


def _records(files: list[Path]) -> list[Record]:
    """All records but those of deletions, which are of the journal itself."""
    return [record for path in files for record in read_journal(path) if record.event != "deletion"]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
