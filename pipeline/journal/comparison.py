"""Whether two journals tell the same: that of a live run, and that of a replay of the same footage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rfc8785

from pipeline.journal.chains import find_chains
from pipeline.journal.errors import JournalError
from pipeline.record import Record, RecordError, read_record

PLACED = frozenset({"schema", "seq", "stream_id", "prev", "hash"})
"""Members that say where a record stands in its chain; they follow from those before it."""

TIMED = frozenset({"latency_ms"})
"""Members that differ from run to run."""

CONFIGURED = frozenset({"config_sha256"})
"""Told once for a camera: where ids are equal, what decides the text is equal, and only limits differ."""

_APART = PLACED | TIMED | CONFIGURED
_STAMPS = frozenset({"id", "clock"})
_CAPPED = frozenset({"cap_reached", "cap_ended"})
_WORDED = frozenset({"text", "sentences", "until"})
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One thing in which two journals differ.

    Attributes:
        camera: whose.
        id: of the record; empty for the camera as a whole.
        reason: what differs, in words.
    """

    camera: str
    id: str
    reason: str

    def __str__(self) -> str:
        return f"{self.id or self.camera}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found.

    Attributes:
        same: records that tell the same in both, by camera.
        differences: camera by camera, in the order of the records.
        skipped: cameras that only one of the two knows; nothing of them was compared.
    """

    same: dict[str, int] = field(default_factory=dict)
    differences: tuple[Discrepancy, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Records that tell the same, of all cameras."""
        return sum(self.same.values())


@dataclass(frozen=True, slots=True)
class _Place:
    """A record on disk: its file and byte, what it tells (as a hash), and how it may be found again.

    `frames` are the hashes of both, and the event: the hourly cap is told of the frames of another record.
    """

    path: Path
    offset: int
    digest: bytes
    id: str
    config: str
    frames: tuple[str, str, str]

    def read(self) -> Record:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return read_record(file.readline())


def compare(journal: Path, other: Path) -> Comparison:
    """Compare what two journals tell, whatever their place in the chain and however long it took.

    Records belong together where their ids are equal (the same footage, settings and captioner), else where
    their frames have the same pixels: the recording of a live stream has other times than the stream had.
    Pictures are compared where both name them.

    Args:
        journal: a folder of journals, or the output folder of a replay, or one journal.
        other: the same.

    Raises:
        JournalError: one of the two cannot be read.
    """
    mine, theirs = _index(journal), _index(other)
    shared = sorted(mine.keys() & theirs.keys())
    if not shared:
        raise JournalError(
            f"{journal} and {other} have no camera in common: {_names(mine)}; {_names(theirs)}"
        )
    same, differences = {}, list[Discrepancy]()
    for camera in shared:
        found = list(_differences(mine[camera], theirs[camera], (journal, other)))
        same[camera] = sum(reason is None for _, reason in found)
        differences += _configured(camera, mine[camera], theirs[camera], other)
        differences += [
            Discrepancy(camera, place.id, reason) for place, reason in found if reason is not None
        ]
    return Comparison(same, tuple(differences), tuple(sorted(mine.keys() ^ theirs.keys())))


def _differences(
    mine: list[_Place], theirs: list[_Place], names: tuple[Path, Path]
) -> Iterator[tuple[_Place, str | None]]:
    """Each record with what differs; None where nothing does."""
    by_id = {place.id: place for place in theirs}
    by_frames = {place.frames: place for place in theirs}
    met, last = set[str](), -1
    order = {place.id: number for number, place in enumerate(theirs)}
    for place in mine:
        twin = by_id.get(place.id) or by_frames.get(place.frames)
        if twin is None or twin.id in met:
            yield place, f"only in {names[0]}: {_short(place.read().text)}"
            continue
        met.add(twin.id)
        late, last = order[twin.id] < last, max(last, order[twin.id])
        if late:
            yield place, f"it stands elsewhere in {names[1]}"
        else:
            yield place, None if twin.digest == place.digest else _reason(place.read(), twin.read(), names[1])
    for place in theirs:
        if place.id not in met:
            yield place, f"only in {names[1]}: {_short(place.read().text)}"


def _configured(camera: str, mine: list[_Place], theirs: list[_Place], name: Path) -> list[Discrepancy]:
    """Whether the two held back by the same limits."""
    configs = {place.id: place.config for place in theirs}
    others = [place for place in mine if configs.get(place.id, place.config) != place.config]
    if not others:
        return []
    first = others[0]
    return [
        Discrepancy(
            camera,
            "",
            f"other limits on what is told (replay with --limits?): config_sha256 is {first.config}, "
            f"in {name} {configs[first.id]}; {len(others)} records",
        )
    ]


def _reason(mine: Record, theirs: Record, name: Path) -> str | None:
    """What differs in two records that belong together."""
    ours, others = _narrated(mine), _narrated(theirs)
    if mine.id != theirs.id:
        ours, others = _timeless(ours), _timeless(others)
        ours["config_sha256"], others["config_sha256"] = mine.config_sha256, theirs.config_sha256
    if not (mine.evidence and theirs.evidence):
        ours.pop("evidence", None)
        others.pop("evidence", None)
    keys = [key for key in {**ours, **others} if ours.get(key) != others.get(key)]
    if not keys:
        return None
    differing = (f"{key} is {_short(ours.get(key))}, in {name} {_short(others.get(key))}" for key in keys)
    return "; ".join(differing)


def _narrated(record: Record) -> dict[str, Any]:
    members = record.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in members.items() if key not in _APART}


def _timeless(members: dict[str, Any]) -> dict[str, Any]:
    """Without what says when it was: the recording of a stream has another clock."""
    capped = members["event"] in _CAPPED  # tells times of the day
    left = {k: v for k, v in members.items() if k not in _STAMPS and not (capped and k in _WORDED)}
    for side in ("before", "after"):
        left[side] = {"sha256": members[side]["sha256"]}
    if not capped:
        left["sentences"] = [{k: v for k, v in s.items() if k != "time"} for s in members["sentences"]]
    return left


def _index(path: Path) -> dict[str, list[_Place]]:
    """Where the records of each camera are; a line that is still being written is left out."""
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
                        place = _Place(
                            file_path,
                            offset,
                            hashlib.sha256(rfc8785.dumps(_narrated(record))).digest(),
                            record.id,
                            record.config_sha256,
                            (record.before.sha256, record.after.sha256, record.event),
                        )
                        found.setdefault(record.camera, []).append(place)
                    offset += len(raw)
        except OSError as error:
            raise JournalError(f"cannot read {file_path}: {error.strerror or error}") from None
    if not found:
        raise JournalError(f"{folder} holds no records: give a folder of journals or a replay's --out")
    return found


def _read(raw: bytes, path: Path, number: int) -> Record:
    try:
        return read_record(raw)
    except RecordError as error:
        raise JournalError(f"{path}:{number}: {error}") from None


def _names(places: dict[str, list[_Place]]) -> str:
    return ", ".join(sorted(places))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
