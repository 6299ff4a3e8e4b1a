"""The head of a report: events, confidence, and what was not recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.record import Record
from pipeline.report.pages import Head
from pipeline.report.words import (
    NOT_RECORDED,
    date_words,
    duration_words,
    fallback_words,
    gap_words,
    has_date,
    many,
)

Span = tuple[datetime, datetime]


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


def summarize(records: Sequence[Record], facts: ReportFacts) -> Head:
    """The head of the page of all records of a replay, in the order of their time."""
    spans = _spans(records, facts)
    silent = sorted({*spans} - {record.camera for record in records})
    cameras = ", ".join(spans) + (
        f" (nothing to report from {', '.join(silent)})" if silent and records else ""
    )
    rows = (
        [("Camera" if len(spans) == 1 else "Cameras", cameras), ("Time", _time_words(spans))] if spans else []
    )
    number, sentences = f"{len(records):,}", sum(len(record.sentences) for record in records)
    more = "" if sentences == len(records) else f", with {many(sentences, 'sentence')}"
    rows.append(("Narrations", number + more))
    models = {f"{record.model.name} (sha256 {record.model.sha256})" for record in records}
    settings = {f"sha256 {record.config_sha256}" for record in records}
    audit = [("Models", "; ".join(sorted(models))), ("Settings", "; ".join(sorted(settings)))]
    last = {record.camera: record for record in records}
    return Head(
        title=facts.title,
        facts=[*rows, *facts.rows],
        missing=_missing(records, facts),
        held=sum(bool(record.held) for record in records),
        audit=[*facts.audit, *(audit if records else ())],
        last=[(name, last[name].seq, last[name].hash) for name in sorted(last)],
    )


def _spans(records: Sequence[Record], facts: ReportFacts) -> dict[str, Span]:
    """First and last moment of each camera, by name."""
    starts, ends = dict(facts.starts), dict(facts.ends)
    for record in records:
        starts.setdefault(record.camera, record.before.moment)
        if record.camera not in facts.ends:
            ends[record.camera] = max(ends.get(record.camera, record.after.moment), record.after.moment)
    return {camera: (starts[camera], ends.get(camera, starts[camera])) for camera in sorted(starts)}


def _time_words(spans: Mapping[str, Span]) -> str:
    dated = [span for span in spans.values() if has_date(span[0])]
    undated_s = sum((end - start).total_seconds() for start, end in spans.values() if not has_date(start))
    parts = []
    if dated:
        start, end = min(first for first, _ in dated), max(last for _, last in dated)
        later = "" if start.date() == end.date() else f"{date_words(end)}, "
        parts.append(f"{date_words(start)}, {start:%H:%M:%S} to {later}{end:%H:%M:%S} UTC")
    if len(dated) < len(spans):
        parts.append(f"{duration_words(undated_s)} of footage without a date")
    return ", and ".join(parts)


def _missing(records: Sequence[Record], facts: ReportFacts) -> list[str]:
    missing = [*facts.gaps, *(gap_words(record) for record in records if record.event in NOT_RECORDED)]
    if facts.repeated:
        missing.append(f"Repetition of what was reported: {many(facts.repeated, 'sentence')}.")
    if unsure := sum(bool(record.abstained) for record in records):
        missing.append(
            f"Possibly more in {many(unsure, 'narration')}, with too little confidence to be reported."
        )
    for reason, count in sorted(Counter(r.fallback for r in records if r.fallback).items()):
        why = fallback_words(reason)
        missing.append(f"What changed, in {many(count, 'narration')}: {why}.")
    return missing
