"""Whether two journals say the same: that of a live run, and that of a replay of the same footage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import rfc8785

from pipeline.journal.chain import JournalError
from pipeline.journal.segments import find_chains
from pipeline.record import Record, RecordError, read_record

WITHIN_S = 5.0
"""Events of a recording and of its stream are one within so long: the start of a recorded file is known to a
second or two, and its frames are sampled at other moments."""

_SAME_CLOCK_S = 2.0
"""Pixels that are the same were taken at the same time, but for a constant offset of the clocks."""

_PLACED = frozenset({"schema", "seq", "stream_id", "prev", "hash"})
"""Members that follow from a record's place in its chain."""

_TIMED = frozenset({"latency_ms"})
_CONFIGURED = frozenset({"config_sha256"})
"""Named once for a camera: where ids are equal, what decides the text is equal, and only limits differ."""

_LIMITED = frozenset({"held"})
_CLOCKED = frozenset({"id", "clock", "since", "until", "continues", "covers", "rule"})
_SENTENCE_CLOCKED = frozenset({"time", "since", "until", "track", "same_as"})
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One thing in which two journals differ; `id` is the record's, empty for the camera as a whole."""

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
        by_pixels: how many of them have different ids and were matched by the pixels of their frames.
        events, of_events: of the events (sentences) of all other records, how many were matched by what
            happened and when, and how many there are in the journal that has more.
    """

    records: int = 0
    by_pixels: int = 0
    events: int = 0
    of_events: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found: by camera how far they agree, and all differences in the order of the records."""

    same: dict[str, Agreement] = field(default_factory=dict)
    differences: tuple[Discrepancy, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """A record on disk.

    Attributes:
        path, offset: where.
        digest: hash of what it says.
        id, time, config: of the record; `time` is of the after frame.
        frames: hashes of both frames, and the event: several records may be of the same frames.
    """

    path: Path
    offset: int
    digest: bytes
    id: str
    time: datetime
    config: str
    frames: tuple[str, str, str]

    def read(self) -> Record:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return read_record(file.readline())


def compare(journal: Path, other: Path) -> Comparison:
    """Compare what two journals say, whatever their place in the chain and however long it took.

    Records belong together where their ids are equal (the same footage, settings and captioner), else where
    their frames have the same pixels at the same time, but for a constant offset of the clocks. The events of
    all others, such as those of a recording whose frames were sampled at other moments, are matched one by
    one: the same action or type of change, by the same kind of object, within `WITHIN_S`.

    Args:
        journal: a folder of journals, the output folder of a replay, or one camera's journal.
        other: the same.

    Raises:
        JournalError: one of the two cannot be read.
    """
    mine, theirs = _index(journal), _index(other)
    same, differences = {}, list[Discrepancy]()
    for camera in sorted(mine.keys() | theirs.keys()):
        if camera in mine and camera in theirs:
            same[camera], found = _compare_camera(camera, mine[camera], theirs[camera], (journal, other))
            differences += found
        else:
            name, places = (journal, mine[camera]) if camera in mine else (other, theirs[camera])
            differences.append(Discrepancy(camera, "", f"only in {name}: {len(places)} records"))
    return Comparison(same, tuple(differences))


def _compare_camera(
    camera: str, mine: list[_Place], theirs: list[_Place], names: tuple[Path, Path]
) -> tuple[Agreement, list[Discrepancy]]:
    twins = _match(mine, theirs)
    shifts = [(place.time - twin.time).total_seconds() for place, twin in twins if place.id != twin.id]
    offset_s = median(shifts) if len(shifts) == len(twins) and shifts else 0.0
    order = {twin.id: number for number, twin in enumerate(theirs)}
    found, agreed, by_pixels, last = list[Discrepancy](), 0, 0, -1
    for place, twin in twins:
        late, last = order[twin.id] < last, max(last, order[twin.id])
        shift_s = (place.time - twin.time).total_seconds() - offset_s
        if place.id != twin.id and abs(shift_s) > _SAME_CLOCK_S:
            moved = timedelta(seconds=round(abs(shift_s)))
            reason = f"its frames are those of {twin.id} in {names[1]}, {moved} away"
        elif late:
            reason = f"it stands elsewhere in {names[1]}"
        else:
            reason = _difference(place, twin, names[1])
        if reason:
            found.append(Discrepancy(camera, place.id, reason))
        else:
            agreed, by_pixels = agreed + 1, by_pixels + (place.id != twin.id)
    met = {id(each) for pair in twins for each in pair}
    rest = [[place.read() for place in places if id(place) not in met] for places in (mine, theirs)]
    events, of_events, unmatched = _compare_events(camera, rest, names)
    return Agreement(agreed, by_pixels, events, of_events), [
        *_compare_limits(camera, twins, names[1]),
        *found,
        *unmatched,
    ]


def _match(mine: list[_Place], theirs: list[_Place]) -> list[tuple[_Place, _Place]]:
    """Records that belong together, by their ids, else by their frames; each at most once."""
    by_id, twins, rest = {place.id: place for place in theirs}, [], []
    for place in mine:
        twin = by_id.pop(place.id, None)
        if twin:
            twins.append((place, twin))
        else:
            rest.append(place)
    by_frames = {place.frames: place for place in by_id.values()}
    twins += [(place, twin) for place in rest if (twin := by_frames.pop(place.frames, None))]
    number = {id(place): number for number, place in enumerate(mine)}
    return sorted(twins, key=lambda pair: number[id(pair[0])])


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


@dataclass(frozen=True, slots=True)
class _Event:
    """What happened (action or type, object), when (seconds since 1970), and in which record."""

    what: tuple[str, str]
    time: float
    record: str
    text: str


def _events(records: Sequence[Record]) -> dict[tuple[str, str], list[_Event]]:
    """By what happened, in the order of time; a record that only completes another one has none."""
    found: dict[tuple[str, str], list[_Event]] = {}
    for record in records:
        if record.continues:
            continue
        for sentence in record.sentences:
            kind = sentence.action or sentence.type if record.event == "change" else record.event
            time = datetime.fromisoformat(sentence.time or record.after.time).timestamp()
            event = _Event((kind, sentence.object), time, record.id, sentence.text)
            found.setdefault(event.what, []).append(event)
    for events in found.values():
        events.sort(key=lambda event: event.time)
    return found


def _compare_events(
    camera: str, records: list[list[Record]], names: tuple[Path, Path]
) -> tuple[int, int, list[Discrepancy]]:
    """Match the events of two sets of records; how many match, of how many, and the rest."""
    mine, theirs = map(_events, records)
    matched, unmatched = 0, list[tuple[float, Discrepancy]]()
    for what in sorted(mine.keys() | theirs.keys()):
        sides = mine.get(what, []), theirs.get(what, [])
        times = [[event.time for event in side] for side in sides]
        pairs = match_times(times[0], times[1], WITHIN_S)
        matched += len(pairs)
        for number, (side, name) in enumerate(zip(sides, names, strict=True)):
            met = {pair[number] for pair in pairs}
            unmatched += [
                (event.time, Discrepancy(camera, event.record, f"only in {name}: {_short(event.text)}"))
                for place, event in enumerate(side)
                if place not in met
            ]
    most = max(sum(map(len, side.values())) for side in (mine, theirs))
    return matched, most, [each for _, each in sorted(unmatched, key=lambda one: one[0])]


def _compare_limits(camera: str, twins: list[tuple[_Place, _Place]], name: Path) -> Iterator[Discrepancy]:
    """Whether the two were held back by the same limits."""
    others = [(one, two) for one, two in twins if one.id == two.id and one.config != two.config]
    if others:
        one, two = others[0]
        yield Discrepancy(
            camera,
            "",
            f"other limits (replay with --limits?): config_sha256 is {one.config}, in {name} {two.config}; "
            f"{len(others)} records",
        )


def _difference(place: _Place, twin: _Place, name: Path) -> str:
    """What differs in two records that belong together; empty where nothing does."""
    if place.digest == twin.digest:
        return ""
    mine, theirs = place.read(), twin.read()
    ours, others = _content(mine), _content(theirs)
    if mine.id != theirs.id:
        ours, others = _without_clock(ours), _without_clock(others)
        ours["config_sha256"], others["config_sha256"] = mine.config_sha256, theirs.config_sha256
    if mine.config_sha256 != theirs.config_sha256:
        ours, others = ({k: v for k, v in each.items() if k not in _LIMITED} for each in (ours, others))
    if not (mine.evidence and theirs.evidence):
        ours.pop("evidence", None)
        others.pop("evidence", None)
    keys = [key for key in {**ours, **others} if ours.get(key) != others.get(key)]
    return "; ".join(f"{key} is {_short(ours.get(key))}, in {name} {_short(others.get(key))}" for key in keys)


def _content(record: Record) -> dict[str, Any]:
    apart = _PLACED | _TIMED | _CONFIGURED
    return {key: value for key, value in record.members().items() if key not in apart}


def _without_clock(members: dict[str, Any]) -> dict[str, Any]:
    """Without what depends on when it was: the recording of a stream may have another clock."""
    left = {k: v for k, v in members.items() if k not in _CLOCKED}
    left["before"], left["after"] = ({"sha256": members[side]["sha256"]} for side in ("before", "after"))
    left["sentences"] = [
        {k: v for k, v in sentence.items() if k not in _SENTENCE_CLOCKED} for sentence in members["sentences"]
    ]
    return left


def _index(path: Path) -> dict[str, list[_Place]]:
    """Where the records of each camera are; a line that is still being written is left out.

    Records of deletions are of the journal itself, and left out.
    """
    folder = path / "journal" if (path / "journal").is_dir() else path
    chains, _ = find_chains([folder])
    found: dict[str, list[_Place]] = {}
    for file_path in (file for chain in chains for file in chain.files):
        offset = 0
        try:
            with file_path.open("rb") as file:
                for number, raw in enumerate(file, 1):
                    if raw.endswith(b"\n"):
                        record = _read(raw, file_path, number)
                        if record.event != "deletion":
                            found.setdefault(record.camera, []).append(_place(record, file_path, offset))
                    offset += len(raw)
        except OSError as error:
            raise JournalError(f"cannot read {file_path}: {error.strerror or error}") from None
    if not found:
        raise JournalError(f"{folder} holds no records: give a folder of journals or a replay's --out")
    return found


def _place(record: Record, path: Path, offset: int) -> _Place:
    return _Place(
        path,
        offset,
        hashlib.sha256(rfc8785.dumps(_content(record))).digest(),
        record.id,
        record.after.moment,
        record.config_sha256,
        (record.before.sha256, record.after.sha256, record.event),
    )


def _read(raw: bytes, path: Path, number: int) -> Record:
    try:
        return read_record(raw)
    except RecordError as error:
        raise JournalError(f"{path}:{number}: {error}") from None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
