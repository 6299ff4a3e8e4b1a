"""The head of a report: what happened, how sure that is, and what was not recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import urlencode

from pipeline.record import Record
from pipeline.report.facts import ReportFacts
from pipeline.report.pages import Head
from pipeline.report.words import (
    EVENTS,
    NOT_RECORDED,
    TYPES,
    date_words,
    duration_words,
    fallback_words,
    gap_words,
    happened,
    has_date,
    listed,
    many,
    plural,
)

SURE = 0.9
"""Sentences of less confidence are less than sure."""

Kind = tuple[str, str]
"""Type of a sentence, or event of its record, and its object, empty for an event."""


def summary(records: Sequence[Record], facts: ReportFacts) -> Head:
    """The head of the page of all records of a replay, in the order of their time."""
    spans = _spans(records, facts)
    rows = (
        [("Camera" if len(spans) == 1 else "Cameras", _camera_words(records, list(spans)))] if spans else []
    )
    rows += [("Time", _time_words(spans))] if spans else []
    sentences = sum(len(record.sentences) for record in records)
    number = f"{len(records):,}"
    rows.append(
        (
            "Narrations",
            number if sentences == len(records) else f"{number}, with {many(sentences, 'sentence')}",
        )
    )
    judged = [s.confidence for r in records if r.event == "change" and not r.fallback for s in r.sentences]
    if judged:
        unsure = sum(confidence < SURE for confidence in judged)
        rows.append(("How sure", f"{unsure:,} of {many(len(judged), 'sentence')} less than {SURE:.0%} sure"))
    last = {record.camera: record for record in records}
    return Head(
        title=facts.title,
        facts=[*rows, *facts.rows],
        happenings=_happenings(records),
        missing=_missing(records, facts),
        choices=_choices(records),
        held=sum(bool(record.held) for record in records),
        audit=[*facts.audit, *_audit(records)],
        last=[(name, last[name].seq, last[name].hash) for name in sorted(last)],
    )


def kind_of(record: Record, index: int) -> Kind:
    """The kind of one of a record's sentences."""
    sentence = record.sentences[index]
    return (sentence.type, sentence.object) if record.event == "change" else (record.event, "")


def _spans(records: Sequence[Record], facts: ReportFacts) -> dict[str, tuple[datetime, datetime]]:
    """First and last moment of each camera, by name."""
    starts, ends = dict(facts.starts), dict(facts.ends)
    for record in records:
        starts.setdefault(record.camera, record.before.moment)
        if record.camera not in facts.ends:
            ends[record.camera] = max(ends.get(record.camera, record.after.moment), record.after.moment)
    return {camera: (starts[camera], ends.get(camera, starts[camera])) for camera in sorted(starts)}


def _camera_words(records: Sequence[Record], cameras: list[str]) -> str:
    narrated = {record.camera for record in records}
    silent = [camera for camera in cameras if camera not in narrated]
    return listed(cameras) + (f" (nothing to report from {listed(silent)})" if silent and narrated else "")


def _time_words(spans: Mapping[str, tuple[datetime, datetime]]) -> str:
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


def _happenings(records: Sequence[Record]) -> list[tuple[str, str]]:
    counts: Counter[Kind] = Counter()
    for record in records:
        if record.continues or record.event in ("summary", *NOT_RECORDED):
            continue  # no event of its own
        for index, sentence in enumerate(record.sentences):
            # "More people" is said of a crowd: its sentences are counted, not its people.
            several = 1 if sentence.type in ("more", "fewer") else sentence.count or 1
            counts[kind_of(record, index)] += several
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        (
            happened(*kind, count),
            urlencode({k: v for k, v in zip(("type", "object"), kind, strict=True) if v}),
        )
        for kind, count in ordered
    ]


def _missing(records: Sequence[Record], facts: ReportFacts) -> list[str]:
    missing = list(facts.gaps)
    missing += [gap_words(record) for record in records if record.event in NOT_RECORDED]
    for reason, count in sorted((facts.untold or {}).items(), key=lambda item: (-item[1], item[0])):
        missing.append(f"{UNTOLD.get(reason, reason)}: {many(count, 'sentence')}.")
    if facts.untold is None and (held := sum(record.suppressed for record in records)):
        missing.append(f"Repetition, or more than the hourly limit: {many(held, 'narration')}.")
    if unsure := sum(bool(record.abstained) for record in records):
        missing.append(f"Perhaps more in {many(unsure, 'narration')}, not sure enough to be reported.")
    for reason, count in sorted(Counter(r.fallback for r in records if r.fallback).items()):
        why = fallback_words(reason)
        missing.append(f"What it was that changed, in {many(count, 'narration')}: {why}.")
    return missing


def _choices(records: Sequence[Record]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """What the filter offers; a single camera is no choice."""
    if not records:
        return []
    kinds = {kind_of(record, index) for record in records for index in range(len(record.sentences))}
    types = {kind for kind, _ in kinds}
    objects = sorted({(noun, plural(noun)) for _, noun in kinds if noun}, key=lambda choice: choice[1])
    cameras = sorted({record.camera for record in records})
    known = [(value, label) for value, label in {**TYPES, **EVENTS}.items() if value in types]
    chosen = [("camera", "Camera", [(name, name) for name in cameras])] if len(cameras) > 1 else []
    return [*chosen, ("type", "What happened", known), ("object", "Who or what", objects)]


def _audit(records: Sequence[Record]) -> list[tuple[str, str]]:
    models = sorted({f"{r.model.name} (sha256 {r.model.sha256})" for r in records})
    settings = sorted({f"sha256 {r.config_sha256}" for r in records})
    return [("Models", "; ".join(models)), ("Settings", "; ".join(settings))] if records else []


UNTOLD = {
    "cooldown": "Something like it had been reported shortly before",
    "hourly cap": "The hourly limit was reached",
    "there already": "It was there already",
    "moving on": "It was only moving on",
    "walked on": "It had walked on and was still there",
    "gone already": "It had been reported already that it was gone",
    "part of it": "It was part of something that was reported",
}
"""Why a sentence that was found was not reported."""
