"""Comparison of two journals: that of a live run, and that of a replay of the same footage."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from models.families import family_of
from pipeline.journal.segments import JournalError, find_chains
from pipeline.record import CUT_WHERE_HELD, Record, RecordSentence

WITHIN_S = 5.0
"""Events of a recording and of its stream this close together are one: the start of a file is known to a
second or two, and its frames are sampled at other moments."""

_CONDITIONS = {
    "rate_hz": "",  # of detection
    "state_sha256": "",  # of what the camera had learnt before
    "config_sha256": ": other limits, language or time zone (replay with -c and --limits?)",
}
_IGNORED = frozenset({"schema", "seq", "stream_id", "prev", "hash", "latency_ms", *_CONDITIONS})
"""Members that follow from a record's place in its chain, differ from run to run, or are compared once."""

_FRAMES_WITHIN_S = 20.0  # where a track is lost, the frame that shows an event may be this much later

_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Discrepancy:
    camera: str
    id: str  # of the record; empty where it concerns the camera
    reason: str

    def __str__(self) -> str:
        return f"{self.id or self.camera}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Agreement:
    records: int = 0  # records that say the same
    # events, of_events: how many events (sentences) of all other records were matched by kind and time,
    # of how many in the journal that has more
    events: int = 0
    of_events: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    same: dict[str, Agreement] = field(default_factory=dict)
    differences: tuple[Discrepancy, ...] = ()


def compare(journal: Path, other: Path) -> Comparison:
    """Compare what two journals say: folders of journals, outputs of replays, or one camera's journals.

    Records belong together where their ids are equal: the same footage, settings and captioner. The events of
    all others, such as those of a recording whose frames were sampled at other moments, are matched one by
    one: the same action or type of change, by the same family of object, within `WITHIN_S`. Where one names a
    car and the other a vehicle, the event agrees, and the difference is listed. Raises `JournalError`.
    """
    mine, theirs = _read(journal), _read(other)
    same, differences = dict[str, Agreement](), list[Discrepancy]()
    for camera in sorted(mine.keys() | theirs.keys()):
        if camera in mine and camera in theirs:
            same[camera], reasons = _compare_camera(mine[camera], theirs[camera], (journal, other))
            differences += [Discrepancy(camera, record, reason) for record, reason in reasons]
        else:
            name, records = (journal, mine[camera]) if camera in mine else (other, theirs[camera])
            differences.append(Discrepancy(camera, "", f"only in {name}, records: {len(records)}"))
    return Comparison(same, tuple(differences))


_Reasons = list[tuple[str, str]]  # ids of records, or empty, and what differs


def _compare_camera(
    mine: list[Record], theirs: list[Record], names: tuple[Path, Path]
) -> tuple[Agreement, _Reasons]:
    by_id = {record.id: (place, record) for place, record in enumerate(theirs)}
    placed = [(one, *by_id.pop(one.id)) for one in mine if one.id in by_id]  # each at most once
    reasons = [
        (one.id, f"it stands elsewhere in {names[1]}")
        for (_, earlier, _), (one, place, _) in pairwise(placed)
        if place < earlier
    ]
    for member, hint in _CONDITIONS.items():
        # Of records that are one; an event of a recording may have been narrated with other settings.
        sides = ([one for one, _, _ in placed], [two for _, _, two in placed]) if hint else (mine, theirs)
        ours, others = (
            ", ".join(sorted({str(getattr(each, member)) for each in side if each.rate_hz or hint}))
            for side in sides
        )
        if ours and others and ours != others:
            reasons.append(("", f"{member} is {ours}, in {names[1]} {others}{hint}"))
    differing = [(one.id, reason) for one, _, two in placed if (reason := _difference(one, two, names[1]))]
    paired = {id(record) for one, _, two in placed for record in (one, two)}
    left = [[record for record in side if id(record) not in paired] for side in (mine, theirs)]
    matched, most, unmatched = _match_events(_events(left[0]), _events(left[1]), names, bool(placed))
    return Agreement(len(placed) - len(differing), matched, most), reasons + differing + unmatched


def _difference(one: Record, two: Record, other: Path) -> str:
    """Members that differ and both values; empty where the two say the same."""
    ignored = _IGNORED | {"held"} if one.config_sha256 != two.config_sha256 else _IGNORED
    if bool(one.held) != bool(two.held):
        ignored |= {*CUT_WHERE_HELD, "box"}
    if not (one.evidence and two.evidence):
        ignored |= {"evidence"}
    ours, theirs = (_without(record.members(), ignored) for record in (one, two))
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    return "; ".join(
        f"{key} is {_short(ours.get(key))}, in {other} {_short(theirs.get(key))}" for key in keys
    )


class _Event(NamedTuple):
    time_s: float  # since 1970
    record: Record
    sentence: RecordSentence


def _events(records: Iterable[Record]) -> dict[tuple[str, str], list[_Event]]:
    """Events by action (or type) and family, in the order of time; a completed record is no new event."""
    events: dict[tuple[str, str], list[_Event]] = {}
    for record in records:
        for sentence in record.sentences if not record.continues else ():
            kind = sentence.action or sentence.type if record.event == "change" else record.event
            time_s = datetime.fromisoformat(sentence.time or record.after.time).timestamp()
            events.setdefault((kind, family_of(sentence.object)), []).append(_Event(time_s, record, sentence))
    return {kind: sorted(each, key=lambda event: event.time_s) for kind, each in events.items()}


def _match_events(
    mine: Mapping[tuple[str, str], list[_Event]],
    theirs: Mapping[tuple[str, str], list[_Event]],
    names: tuple[Path, Path],
    same_footage: bool,
) -> tuple[int, int, _Reasons]:
    """Count the events that match, and all; lists the others, and what differs, in the order of time."""
    matched, reasons = 0, list[tuple[float, str, str]]()  # seconds since 1970, id, reason
    for kind in mine.keys() | theirs.keys():
        sides = deque(mine.get(kind, ())), deque(theirs.get(kind, ()))
        while any(sides):
            ours_s, others_s = (side[0].time_s if side else float("inf") for side in sides)
            if abs(ours_s - others_s) <= WITHIN_S:
                event, other = sides[0].popleft(), sides[1].popleft()
                matched += 1
                reason = _event_difference(event, other, names[1], same_footage)
            else:
                only = 0 if ours_s < others_s else 1
                event = sides[only].popleft()
                reason = f"only in {names[only]}: {_short(event.sentence.text)}"
            reasons += [(event.time_s, event.record.id, reason)] if reason else []
    most = max(sum(map(len, events.values())) for events in (mine, theirs))
    return matched, most, [(record, reason) for _, record, reason in sorted(reasons)]


def _event_difference(one: _Event, two: _Event, other: Path, same_footage: bool) -> str:
    """The difference of two matched events; empty where there is none. The same footage gives the same id."""
    if same_footage:
        return f"id is {one.record.id}, in {other} {two.record.id}"
    if one.sentence.object != two.sentence.object:
        return f"object is {one.sentence.object!r}, in {other} {two.sentence.object!r}"
    apart_s = (one.record.after.moment - two.record.after.moment).total_seconds()
    return f"its frames have another time than in {other}" if abs(apart_s) > _FRAMES_WITHIN_S else ""


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(each, names) for name, each in value.items() if name not in names}
    return [_without(each, names) for each in value] if isinstance(value, list) else value


def _read(path: Path) -> dict[str, list[Record]]:
    """Each camera's records, but deletions and lost tracks, which a live run notices while nothing moves."""
    folder = path / "journal" if (path / "journal").is_dir() else path
    chains, _ = find_chains([folder])
    if not chains:
        raise JournalError(f"{folder} holds no records: give a folder of journals or a replay's --out")
    return {
        chain.camera: [r for r in chain.records() if r.event != "deletion" and r.held != "lost"]
        for chain in chains
    }


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
