"""The report's page: self-contained HTML that needs no network, and JavaScript only for its filter."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from pipeline.record import Record, RecordSentence
from pipeline.report.facts import ReportFacts
from pipeline.report.marks import COLOURS
from pipeline.report.summary import HappeningKind, kind_of, summary
from pipeline.report.words import (
    EVENTS,
    TYPES,
    abstained_words,
    clock_time,
    date_words,
    fallback_words,
    has_date,
    plural,
    sureness,
)


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One narration on the page.

    Attributes:
        record: what is told.
        offset_s: its after frame's time since the camera's first frame.
        before, after: WebP pictures with marks.
    """

    record: Record
    offset_s: float
    before: bytes
    after: bytes

    @property
    def event(self) -> str | None:
        """The scene event in words, None where objects changed."""
        return EVENTS.get(self.record.event)

    @property
    def offset(self) -> str:
        """The offset as ``1:02:03.4`` or ``2:03.4``."""
        return clock_time(self.offset_s)

    @property
    def wall_time(self) -> str | None:
        """The after frame's time for people, None where the footage has no time of its own."""
        time = self.record.after.moment
        return f"{date_words(time)}, {time:%H:%M:%S} UTC" if has_date(time) else None

    @property
    def gap(self) -> str:
        """How long before the after frame the before frame was taken."""
        gap_s = (self.record.after.moment - self.record.before.moment).total_seconds()
        return f"{gap_s:.1f} seconds earlier"

    @property
    def kinds(self) -> list[HappeningKind]:
        """What the filter knows each sentence by."""
        return [kind_of(self.record, index) for index in range(len(self.record.sentences))]

    def about(self, sentence: RecordSentence) -> str:
        """When a sentence's change happened, on which picture it is outlined, and how sure that is."""
        parts = []
        if sentence.time:
            moment, after = datetime.fromisoformat(sentence.time), self.record.after.moment
            offset_s = self.offset_s + (moment - after).total_seconds()
            parts.append(f"at {moment:%H:%M:%S}" if has_date(after) else f"at {clock_time(offset_s)}")
        if sides := [name for name, box in (("before", sentence.before), ("after", sentence.after)) if box]:
            parts.append(
                "outlined in both pictures" if len(sides) > 1 else f"outlined in the {sides[0]} picture"
            )
        if not self.record.fallback:
            parts.append(sureness(sentence.confidence))
        return " \N{MIDDLE DOT} ".join(parts)


def page(facts: ReportFacts, records: Sequence[Record], entries: Iterator[Entry]) -> Iterator[str]:
    """The page in parts, so that its pictures are never all in memory."""
    environment = page_environment()
    environment.filters |= {"fallback_words": fallback_words, "abstained_words": abstained_words}
    environment.tests["marked"] = lambda sentence: bool(sentence.box or sentence.before or sentence.after)
    files = resources.files(__package__)
    source = files.joinpath("page.html.j2").read_text(encoding="utf-8")
    script = files.joinpath("filter.js").read_text(encoding="utf-8")
    last = {record.camera: record for record in records}
    return environment.from_string(source).generate(
        facts=facts,
        summary=summary(records, facts),
        audit=[*facts.audit, *_audit(records)],
        choices=_choices(records),
        script=Markup(script),  # noqa: S704 - our own file
        entries=entries,
        count=len(records),
        cameras=sorted(last),
        last_records=[last[camera] for camera in sorted(last)],
    )


def page_environment() -> Environment:
    """Jinja for self-contained pages: the filter `webp`, the globals `style` and `colours` (of the marks)."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["webp"] = lambda image: "data:image/webp;base64," + base64.b64encode(image).decode()
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    environment.globals["style"] = Markup(style)  # noqa: S704 - our own file
    environment.globals["colours"] = [f"rgb{colour}" for colour in COLOURS]
    return environment


def _choices(records: Sequence[Record]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """What the filter offers: ``(name, label, [(value, label)])``; a single camera is no choice."""
    kinds = {kind_of(record, index) for record in records for index in range(len(record.sentences))}
    types = {kind for kind, _ in kinds}
    objects = sorted({(noun, plural(noun)) for _, noun in kinds if noun}, key=lambda choice: choice[1])
    cameras = sorted({record.camera for record in records})
    known = [(value, label) for value, label in {**TYPES, **EVENTS}.items() if value in types]
    chosen = [("camera", "Camera", [(name, name) for name in cameras])] if len(cameras) > 1 else []
    return [*chosen, ("type", "What happened", known), ("object", "Who or what", objects)]


def _audit(records: Sequence[Record]) -> list[tuple[str, str]]:
    """What the records say of how they were made."""
    if not records:
        return []
    models = sorted({f"{r.model.name} (sha256 {r.model.sha256})" for r in records})
    return [
        ("Models", "; ".join(models)),
        ("Settings", "; ".join(sorted({f"sha256 {r.config_sha256}" for r in records}))),
    ]
