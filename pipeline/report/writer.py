"""Writes the report of a replay: page, subtitles, and all records in one file."""

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from models.language.catalogue import N_, _, tell
from pipeline.disk import replacing
from pipeline.evidence import EvidenceStore
from pipeline.record import Record
from pipeline.report.card import SIDES, Card
from pipeline.report.pages import Head, records_page
from pipeline.report.picture import inline_pictures
from pipeline.report.words import NOT_RECORDED, counted, fallback_words, gap_words, has_date, moment_words

_SHOWN_S, _SHORTEST_S = 5.0, 1.5  # of a cue of subtitles

Span = tuple[datetime, datetime]


def write_report(
    folder: Path,
    cameras: Mapping[str, Sequence[Record]],
    head: Head,
    evidence: Path,
    spans: Mapping[str, Span],
) -> None:
    """Write ``narrations.jsonl``, ``report.html`` and subtitles, each atomically, into an existing folder.

    The cameras, their records in order, and what was not reported are added to the page's `head`. `evidence`
    has the pictures; records without are shown without. Offsets count from the beginning of `spans`.
    """
    narrated = {camera: records for camera, records in cameras.items() if records}
    starts = {camera: _span(camera, records, spans)[0] for camera, records in narrated.items()}
    if not narrated:
        _write(folder / "narrations.vtt", ["WEBVTT\n"])
    for camera, records in narrated.items():
        name = camera if len(narrated) > 1 else "narrations"
        _write(folder / f"{name}.vtt", [subtitles(records, starts[camera])])
    merged = merge_by_time(narrated.values())
    _write(folder / "narrations.jsonl", (record.line().decode() + "\n" for record in merged))
    store = EvidenceStore(evidence)

    def card(record: Record) -> Card:
        named: dict[str, str | None] = {side: getattr(record.evidence, side, None) for side in SIDES}
        paths = {side: path for side, name in named.items() if name and (path := store.find(name))}
        pictures, start = inline_pictures(paths), starts[record.camera]
        return Card(record, pictures=pictures, address=f"#r-{record.id}", start=start)

    cards = (replace(card(last), stages=[*map(card, stages)]) for *stages, last in visits_of(merged))
    _write(folder / "report.html", records_page(summarize(cameras, head, spans), cards))


def summarize(cameras: Mapping[str, Sequence[Record]], head: Head, spans: Mapping[str, Span]) -> Head:
    """The head of the page with narrations and time of each camera, and what was not reported.

    `spans` are times of the first and the last frame; a camera without has those of its records.
    """
    rows, records = list(head.facts), [record for each in cameras.values() for record in each]
    for camera in sorted({*spans, *(name for name, told in cameras.items() if told)}):
        told = cameras.get(camera, ())
        start, end = _span(camera, told, spans)
        sentences = counted(sum(len(record.sentences) for record in told), "sentence")
        number = f"{counted(len(told), 'narration')} ({sentences})" if told else _("nothing to report")
        times = tell("{begin} to {end}", begin=moment_words(start), end=moment_words(end))
        rows.append((camera, f"{number}, {times}{' UTC' * has_date(start)}"))
    missing = [*(head.missing or ()), *(gap_words(each) for each in records if each.event in NOT_RECORDED)]
    if unsure := sum(bool(record.abstained) for record in records):
        message = N_("Possibly more in {narrations}, with too little confidence to be reported.")
        missing.append(tell(message, narrations=counted(unsure, "narration")))
    fallbacks = Counter(record.fallback for record in records if record.fallback)
    for reason, count in sorted(fallbacks.items()):
        message, number = N_("What changed, in {narrations}: {reason}."), counted(count, "narration")
        missing.append(tell(message, narrations=number, reason=fallback_words(reason)))
    models = sorted({f"{record.model.name} (sha256 {record.model.sha256})" for record in records})
    settings = sorted({f"sha256 {record.config_sha256}" for record in records})
    audit = [(_("Models"), "; ".join(models)), (_("Settings"), "; ".join(settings))] if records else []
    return replace(
        head,
        facts=rows,
        missing=missing,
        held=sum(bool(record.held) for record in records),
        audit=[*head.audit, *audit],
        last=[(name, told[-1].seq, told[-1].hash) for name, told in sorted(cameras.items()) if told],
    )


def _span(camera: str, records: Sequence[Record], spans: Mapping[str, Span]) -> Span:
    if camera in spans:
        return spans[camera]
    return records[0].before.moment, max(each.after.moment for each in records)


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
    timed = list[tuple[str, str, int, Record]]()
    for records in cameras:
        latest = accumulate((record.after.time for record in records), max)
        timed += [(time, each.camera, each.seq, each) for time, each in zip(latest, records, strict=True)]
    return [record for *_, record in sorted(timed, key=lambda each: each[:3])]


def _write(path: Path, parts: Iterable[str]) -> None:
    with replacing(path, durable=False) as file:
        file.writelines(part.encode(errors="replace") for part in parts)  # names of files may be no UTF-8


def subtitles(records: Sequence[Record], start: datetime) -> str:
    """WebVTT: each sentence from its own time on, or else from its record's after frame; none that is held.

    Cues are relative to `start`. Sentences of one moment share one, which lasts until the next one or for
    five seconds, and 1.5 s at least, beside the next one if need be.
    """
    cues: dict[float, list[str]] = {}
    for record in (each for each in records if not each.held):
        texts = [(s.text, s.time) for s in record.sentences] or [(record.text, None)] * bool(record.text)
        for text, time in texts:
            line = html.escape(" ".join(text.split()), quote=False)  # an arrow would begin another cue
            offset = (datetime.fromisoformat(time or record.after.time) - start).total_seconds()
            cues.setdefault(max(0.0, round(offset, 3)), []).append(line)
    offsets = sorted(cues)
    blocks = ["WEBVTT\n"]
    for number, offset in enumerate(offsets, 1):
        following = offsets[number] if number < len(offsets) else offset + _SHOWN_S
        end = max(offset + _SHORTEST_S, min(offset + _SHOWN_S, following))
        lines = "\n".join(cues[offset])
        blocks.append(f"{number}\n{_timestamp(offset)} --> {_timestamp(end)}\n{lines}\n")
    return "\n".join(blocks)


def _timestamp(seconds: float) -> str:
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{milliseconds // 1000:02d}.{milliseconds % 1000:03d}"
