"""Writes the report of a replay: page, subtitles, and all records in one file."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.disk import replacing
from pipeline.evidence import EvidenceStore
from pipeline.record import Record
from pipeline.report.card import SIDES, Card
from pipeline.report.pages import data_url, records_page
from pipeline.report.picture import encode_small
from pipeline.report.subtitles import subtitles
from pipeline.report.summary import ReportFacts, summarize

_WIDTH = 600


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
    _write(folder / "report.html", records_page(summarize(merged, facts), cards))


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
