"""The report's page: self-contained HTML that needs no network and no JavaScript."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from pipeline.record import Record, RecordSentence
from pipeline.report.marks import COLOURS

_EVENTS = {
    "light_changed": "light changed",
    "view_changed": "view changed",
    "obstructed": "view obstructed",
    "cap_reached": "hourly limit reached",
    "cap_ended": "held back by the hourly limit",
}
_NO_CLOCK = "1970-01-01"  # footage without a time of its own


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
        return _EVENTS.get(self.record.event)

    @property
    def offset(self) -> str:
        """The offset as ``1:02:03.4`` or ``2:03.4``."""
        return clock_time(self.offset_s)

    @property
    def wall_time(self) -> str | None:
        """The after frame's time for people, None where the footage has no time of its own."""
        date, time = self.record.after.time.split("T")
        return None if date == _NO_CLOCK else f"{date} {time[:10]} UTC"

    @property
    def gap(self) -> str:
        """How long before the after frame the before frame was taken."""
        gap_s = (self.record.after.moment - self.record.before.moment).total_seconds()
        return f"{gap_s:.1f} s earlier"


def page(
    title: str, rows: Sequence[tuple[str, str]], records: Sequence[Record], entries: Iterator[Entry]
) -> Iterator[str]:
    """The page in parts, so that its pictures are never all in memory.

    Args:
        title: its heading.
        rows: facts as ``(name, value)``, above those that the records hold themselves.
        records: all of them, in the order of the page.
        entries: the same, with pictures.
    """
    environment = page_environment()
    environment.filters["side"] = _side
    environment.tests["marked"] = lambda told: bool(told.box or told.before or told.after)
    source = resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    last = {record.camera: record for record in records}
    return environment.from_string(source).generate(
        title=title,
        facts=[*rows, *_facts(records)],
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


def clock_time(seconds: float) -> str:
    """Seconds as ``2:03.4``, with hours in front where there are any, and with its sign."""
    sign, tenths = ("-" if seconds < 0 else ""), round(abs(seconds) * 10)
    minutes, rest = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    front = f"{hours}:{minutes:02d}" if hours else f"{minutes}"
    return f"{sign}{front}:{rest // 10:02d}.{rest % 10}"


def _side(sentence: RecordSentence) -> str:
    """On which picture the sentence's marks are, and when it happened, to stand before its kind."""
    sides = [name for name, box in (("before", sentence.before), ("after", sentence.after)) if box]
    where = f"marked {' and '.join(sides)} \N{MIDDLE DOT} " if sides else ""
    return f"at {sentence.time[11:21]} \N{MIDDLE DOT} {where}" if sentence.time else where


def _facts(records: Sequence[Record]) -> list[tuple[str, str]]:
    """What the records say about themselves."""
    if not records:
        return []
    events = Counter(_EVENTS.get(record.event, "changes of objects") for record in records)
    sentences: Counter[str] = Counter(
        sentence.type for record in records if record.event == "change" for sentence in record.sentences
    )
    facts = [
        ("Narrations", f"{len(records)}: " + _counted(events)),
        ("Models", "; ".join(sorted({f"{r.model.name} (sha256 {r.model.sha256[:12]})" for r in records}))),
        ("Settings", "; ".join(sorted({f"sha256 {r.config_sha256[:12]}" for r in records}))),
    ]
    if sentences:
        facts.insert(1, ("Sentences", f"{sentences.total()}: " + _counted(sentences)))
    return facts


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.most_common())
