"""Writes the report of a replay: page, subtitles, and all records in one file."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from pipeline.disk import replacing
from pipeline.evidence import EvidenceStore
from pipeline.record import Record
from pipeline.report.card import SIDES, Card
from pipeline.report.pages import Head, data_url, records_page
from pipeline.report.picture import encode_small
from pipeline.report.subtitles import subtitles
from pipeline.report.words import NOT_RECORDED, fallback_words, gap_words, has_date, many, moment_words

_WIDTH = 600


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """Facts of a replay beyond its records.

    Attributes:
        title: heading of the page.
        rows: ``(name, value)`` for its head, such as the footage.
        starts: time of the first frame by camera, from which offsets and subtitles count; a camera that is
            missing counts from the before frame of its first record.
        ends: time of the last frame by camera; one that is missing ends with its last record.
        repeated: number of sentences that were dropped because they only repeated what was reported.
        gaps: footage that was not read, or not as it should be, one sentence each.
        audit: ``(name, value)`` for auditors: settings, models, hashes.
    """

    title: str = "What changed"
    rows: tuple[tuple[str, str], ...] = ()
    starts: Mapping[str, datetime] = field(default_factory=dict)
    ends: Mapping[str, datetime] = field(default_factory=dict)
    repeated: int = 0
    gaps: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()


def write_report(
    folder: Path, cameras: Mapping[str, Sequence[Record]], facts: ReportFacts, evidence: Path
) -> None:
    """Write ``narrations.jsonl``, ``report.html`` and subtitles, each atomically.

    Args:
        folder: an existing one.
        cameras: records by camera, in their order.
        facts: for the page's head.
        evidence: folder of the pictures; records without pictures in it are shown without.

    Raises:
        OSError: the folder cannot be written.
    """
    narrated = {camera: records for camera, records in cameras.items() if records}
    starts = {
        camera: facts.starts.get(camera) or records[0].before.moment for camera, records in narrated.items()
    }
    if not narrated:
        _write(folder / "narrations.vtt", ["WEBVTT\n"])
    for camera, records in narrated.items():
        name = camera if len(narrated) > 1 else "narrations"
        _write(folder / f"{name}.vtt", [subtitles(records, starts[camera])])
    merged = merge_by_time(narrated.values())
    _write(folder / "narrations.jsonl", (record.line().decode() + "\n" for record in merged))
    store = EvidenceStore(evidence)

    def card(record: Record) -> Card:
        start = starts[record.camera]
        return Card(record, pictures=_pictures(record, store), address=f"#r-{record.id}", start=start)

    cards = (replace(card(last), stages=[*map(card, stages)]) for *stages, last in visits_of(merged))
    _write(folder / "report.html", records_page(summarize(cameras, facts), cards))


def summarize(cameras: Mapping[str, Sequence[Record]], facts: ReportFacts) -> Head:
    """The head of the page: narrations and time of each camera, and what was not reported."""
    rows, records = list(facts.rows), [record for each in cameras.values() for record in each]
    for camera in sorted({*facts.starts, *(name for name, told in cameras.items() if told)}):
        told = cameras.get(camera, ())
        start = facts.starts.get(camera) or told[0].before.moment
        end = facts.ends.get(camera) or max((each.after.moment for each in told), default=start)
        sentences = many(sum(len(record.sentences) for record in told), "sentence")
        number = f"{many(len(told), 'narration')} ({sentences})" if told else "nothing to report"
        rows.append(
            (camera, f"{number}, {moment_words(start)} to {moment_words(end)}{' UTC' * has_date(start)}")
        )
    missing = [*facts.gaps, *(gap_words(record) for record in records if record.event in NOT_RECORDED)]
    if facts.repeated:
        missing.append(f"Repetition of what was reported: {many(facts.repeated, 'sentence')}.")
    if unsure := sum(bool(record.abstained) for record in records):
        number = many(unsure, "narration")
        missing.append(f"Possibly more in {number}, with too little confidence to be reported.")
    fallbacks = Counter(record.fallback for record in records if record.fallback)
    for reason, count in sorted(fallbacks.items()):
        missing.append(f"What changed, in {many(count, 'narration')}: {fallback_words(reason)}.")
    models = sorted({f"{record.model.name} (sha256 {record.model.sha256})" for record in records})
    settings = sorted({f"sha256 {record.config_sha256}" for record in records})
    audit = [("Models", "; ".join(models)), ("Settings", "; ".join(settings))] if records else []
    return Head(
        title=facts.title,
        facts=rows,
        missing=missing,
        held=sum(bool(record.held) for record in records),
        audit=[*facts.audit, *audit],
        last=[(name, told[-1].seq, told[-1].hash) for name, told in sorted(cameras.items()) if told],
    )


def visits_of(records: Iterable[Record]) -> list[list[Record]]:
    """The records of each visit by time, those of none by themselves; visits by their beginning."""
    visits: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        shown = record.track if not record.held else ""
        visits.setdefault((record.camera, shown or record.id), []).append(record)
    return list(visits.values())


def merge_by_time(cameras: Iterable[Sequence[Record]]) -> list[Record]:
    """The records of several cameras by after time, then camera.

    A camera's own order stays even where its clock stepped back: its chain must hold in the merged file.
    """

    def keyed(records: Sequence[Record]) -> Iterator[tuple[str, str, int, Record]]:
        latest = ""
        for record in records:
            latest = max(latest, record.after.time)
            yield latest, record.camera, record.seq, record

    return [record for *_, record in heapq.merge(*map(keyed, cameras), key=lambda k: k[:3])]


def _pictures(record: Record, store: EvidenceStore) -> dict[str, str]:
    """Addresses of small pictures that are in the page itself, by side."""
    pictures: dict[str, str] = {}
    for side in SIDES:
        reference = getattr(record.evidence, side) if record.evidence else None
        path = store.find(reference) if reference else None
        small = encode_small(path, _WIDTH) if path else None
        if small is not None:
            pictures[side] = data_url(small)
    return pictures


def _write(path: Path, parts: Iterable[str]) -> None:
    """Replace the file atomically."""
    with replacing(path, durable=False) as file:
        file.writelines(part.encode() for part in parts)
