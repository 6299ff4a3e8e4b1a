"""The summary at the head of the page: what was seen, how sure it is, and what was not told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.record import Record
from pipeline.report.facts import ReportFacts
from pipeline.report.words import (
    UNTOLD,
    date_words,
    duration_words,
    fallback_words,
    happened,
    has_date,
    listed,
    many,
)

SURE = 0.9
"""Sentences of less confidence are less than sure."""

HappeningKind = tuple[str, str]
"""Type, or event, and object as the filter knows them; the object is empty for an event."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of what happened, and what the filter must be set to in order to see only that."""

    text: str
    choice: dict[str, str]


@dataclass(frozen=True, slots=True)
class Summary:
    """The report in words.

    Attributes:
        rows: ``(name, value)``: cameras, time, how many narrations, how many are less than sure.
        happenings: what happened, the most frequent first.
        untold: what is missing, one sentence each.
    """

    rows: tuple[tuple[str, str], ...]
    happenings: tuple[Happening, ...]
    untold: tuple[str, ...]


def summary(records: Sequence[Record], facts: ReportFacts) -> Summary:
    """The summary of all records of a page."""
    spans = _spans(records, facts)
    narrated = {record.camera for record in records}
    silent = [camera for camera in spans if camera not in narrated]
    cameras = listed(list(spans))
    if silent and narrated:
        cameras += f" (nothing to tell from {listed(silent)})"
    rows = [("Camera" if len(spans) == 1 else "Cameras", cameras)] if spans else []
    rows += [("Time", _time_words(spans))] if spans else []
    rows.append(("Narrations", _number_words(records)))
    if confidences := [s.confidence for r in records if _by_captioner(r) for s in r.sentences]:
        unsure = sum(confidence < SURE for confidence in confidences)
        number = f"{unsure:,} of {many(len(confidences), 'sentence')}"
        rows.append(("How sure", f"{number} less than {SURE:.0%} sure"))
    return Summary(tuple(rows), tuple(_happenings(records)), tuple(_untold(records, facts)))


def kind_of(record: Record, index: int) -> HappeningKind:
    """What the filter knows a sentence by."""
    sentence = record.sentences[index]
    return (sentence.type, sentence.object) if record.event == "change" else (record.event, "")


def _by_captioner(record: Record) -> bool:
    """Whether its confidences mean something: events and what is told without looking closely have none."""
    return record.event == "change" and not record.fallback


def _spans(records: Sequence[Record], facts: ReportFacts) -> dict[str, tuple[datetime, datetime]]:
    """First and last moment of each camera, by name."""
    starts, ends = dict(facts.starts), dict(facts.ends)
    for record in records:
        starts.setdefault(record.camera, record.before.moment)
        if record.camera not in facts.ends:
            latest = ends.get(record.camera, record.after.moment)
            ends[record.camera] = max(latest, record.after.moment)
    return {camera: (starts[camera], ends.get(camera, starts[camera])) for camera in sorted(starts)}


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


def _number_words(records: Sequence[Record]) -> str:
    number = sum(len(record.sentences) for record in records)
    if number == len(records):
        return f"{len(records):,}"
    return f"{len(records):,}, with {many(number, 'sentence')}"


def _happenings(records: Sequence[Record]) -> list[Happening]:
    counts: Counter[HappeningKind] = Counter()
    for record in records:
        for index, sentence in enumerate(record.sentences):
            # "More people" is told of a crowd: its sentences are counted, not its people.
            several = 1 if sentence.type in ("more", "fewer") else sentence.count or 1
            counts[kind_of(record, index)] += several
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        Happening(happened(*kind, count), {k: v for k, v in zip(("type", "object"), kind, strict=True) if v})
        for kind, count in ordered
    ]


def _untold(records: Sequence[Record], facts: ReportFacts) -> list[str]:
    missing = list(facts.gaps)
    if facts.untold is not None:
        for reason, count in sorted(facts.untold.items(), key=lambda item: (-item[1], item[0])):
            missing.append(f"{UNTOLD.get(reason, reason)}: {many(count, 'sentence')}.")
    elif held := sum(record.suppressed for record in records):
        missing.append(f"Repetition, or more than the hourly limit: {many(held, 'narration')}.")
    capped: Counter[HappeningKind] = Counter()
    for record in records:
        if record.event == "cap_ended":
            capped.update({(kind.type, kind.object): kind.count for kind in record.counts or ()})
    if capped:
        kinds = [happened(*kind, count) for kind, count in capped.most_common()]
        missing.append(f"Held back by the hourly limit: {listed(kinds)}.")
    if unsure := sum(bool(record.abstained) for record in records):
        missing.append(f"Perhaps more in {many(unsure, 'narration')}, not sure enough to be told.")
    for reason, count in sorted(Counter(r.fallback for r in records if r.fallback).items()):
        why = fallback_words(reason)
        missing.append(f"What it was that changed, in {many(count, 'narration')}: {why}.")
    return missing
