"""The view of a record that all pages share, their templates, and the report of a replay."""

from __future__ import annotations

import base64
import hashlib
import html
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import cache
from importlib import resources
from itertools import accumulate, pairwise
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from models.language.catalogue import N_, _, language, tell
from models.language.templates import PAST
from pipeline.disk import replacing
from pipeline.evidence import EvidenceStore
from pipeline.feedback import Feedback, Remarks
from pipeline.record import Record, RecordSentence
from pipeline.report.picture import COLOURS, SIDES, Shape, Side, inline_pictures, shapes_of
from pipeline.report.words import (
    GAPS,
    counted,
    duration_words,
    format_date,
    format_offset,
    has_date,
    moment_words,
)

_EVENTS = {
    "light_changed": N_("light changed"),
    "view_changed": N_("view changed"),
    "obstructed": N_("view blocked"),
    "summary": N_("summary"),
    "rule": N_("rule met"),
    "gap": N_("not recorded"),
    "deletion": N_("records deleted"),
    "cap_reached": N_("hourly limit reached"),
    "cap_ended": N_("held back by the hourly limit"),
}
"""Labels of events that are not about objects."""

_NOT_RECORDED = ("gap", "deletion", "cap_ended")  # what is missing; `cap_ended` in narrated/1 alone
_FALLBACKS = {"late": N_("the computer could not keep up"), "captioner failed": N_("the captioner failed")}
_ABSTAINED = {
    "unsure": N_("Something else may have changed here, but with too little confidence to be reported."),
    "held": N_("The list is shortened, because a limit held this record: its first line has everything."),
    "nothing of an object": N_("Something changed that narrated has no name for."),
}
MEDIA_TYPES = {".jpg": "image/jpeg", ".webp": "image/webp"}
_STEPS = {
    **{action: one for action, (one, _several) in PAST.items()},
    "placed": N_("put down"),
    "removed": N_("taken"),
    "opened": N_("opened"),
    "closed": N_("closed"),
}
"""What happened, in a word or two, by action."""
_SHOWN_S, _SHORTEST_S = 5.0, 1.5  # of a cue of subtitles

Records = Mapping[str, Sequence[Record]]  # by camera
Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class ShownSentence:
    number: int  # from 1, in the order of time
    place: int  # from 0, in the record
    sentence: RecordSentence
    about: str  # its time, beginning, duration and confidence, in words
    feedback: Feedback | None


@dataclass(frozen=True, slots=True)
class Card:
    """One record, or a visit: its latest record, and those before it as stages."""

    record: Record
    zone: tzinfo | None = UTC  # of all times; None is this machine's
    pictures: Mapping[str, str] = field(default_factory=dict)  # by side: before, after, overlay
    address: str = ""  # of the record's own page or place
    doubts: Sequence[str] = ()  # faults of the record, such as that it does not verify
    remarks: Remarks = field(default_factory=Remarks)  # people's review, note and feedback
    clip: str = ""  # address of a recording; empty where there is none
    start: datetime | None = None  # of the footage, for offsets; None where they are of no use
    stages: Sequence[Card] = ()  # the earlier records of its visit, by time
    others: Sequence[tuple[str, str, str]] = ()  # who met it, ...: words, a record's text, its address

    @property
    def steps(self) -> list[tuple[str, str, str]]:
        every = [(card, card.record.sentences[-1]) for card in (*self.stages, self)] if self.stages else []
        return [
            (
                card.time_words(datetime.fromisoformat(s.time)) if s.time else card.clock,
                _(_STEPS.get(s.action or "", s.action or s.type)),
                card.address,
            )
            for card, s in every
        ]

    @property
    def clock(self) -> str:
        return self.time_words(self.record.after.moment)

    @property
    def day(self) -> str:
        """Such as Thursday 14 May 2026, with the time into the footage where that is known."""
        moment = self.record.after.moment
        if not has_date(moment):
            return _("footage without a date")
        day = moment_words(moment, self.zone, N_("%A %-d %B %Y"))
        if not self.start:
            return day
        offset = format_offset((moment - self.start).total_seconds())
        return tell("{day}, {offset} into the footage", day=day, offset=offset)

    @property
    def event(self) -> str | None:
        """Name of the record's event; None where objects changed."""
        event = _EVENTS.get(self.record.event)
        return event and _(event)

    @property
    def text(self) -> str:
        missing = not self.record.text and self.record.event in _NOT_RECORDED
        return gap_words(self.record, self.zone) if missing else self.record.text

    @property
    def gap(self) -> str:
        """Time between the two frames, such as "1.5 s earlier"."""
        seconds = (self.record.after.moment - self.record.before.moment).total_seconds()
        return tell("{seconds} s earlier", seconds=f"{seconds:.1f}")

    @property
    def first_side(self) -> Side:
        """The picture that shows more: before, where everything is about what left."""
        sentences = self.record.sentences
        return "before" if sentences and all(s.type == "disappeared" for s in sentences) else "after"

    @property
    def caveats(self) -> list[str]:
        record, caveats = self.record, list[str]()
        if record.fallback:
            reason = _(_FALLBACKS.get(record.fallback, record.fallback))
            caveats.append(tell("Only where something changed is known, not what: {reason}.", reason=reason))
        if known := _ABSTAINED.get(record.abstained or ""):
            caveats.append(_(known))
        elif record.abstained:
            caveats.append(tell("Not everything is reported here: {reason}.", reason=record.abstained))
        return caveats

    @property
    def sentences(self) -> list[ShownSentence]:
        """By time, those of one moment as in the record."""
        record = self.record
        order = sorted(enumerate(record.sentences), key=lambda each: each[1].time or record.after.time)
        return [
            ShownSentence(number, place, each, self._about(each), self.remarks.feedback.get(place))
            for number, (place, each) in enumerate(order, 1)
        ]

    def shapes(self, side: Side) -> list[Shape]:
        shapes = shapes_of([shown.sentence for shown in self.sentences], side)
        earlier = [path for stage in self.stages for s in stage.record.sentences for path in s.paths or ()]
        if not (earlier and shapes):
            return shapes
        paths = [*earlier, *shapes[0].paths]
        return [replace(shapes[0], paths=paths, between=[(a[-1], b[0]) for a, b in pairwise(paths)])]

    def time_words(self, moment: datetime) -> str:
        """Time of day, or of footage without a date the time into it."""
        return moment_words(moment, self.zone, N_("%H:%M:%S"))

    def _about(self, sentence: RecordSentence) -> str:
        parts = [self.time_words(datetime.fromisoformat(sentence.time))] if sentence.time else []
        early = (sentence.since or "").startswith("before ")
        if sentence.since:
            message = N_("since before {begin}") if early else N_("since {begin}")
            since = datetime.fromisoformat(sentence.since.removeprefix("before "))
            parts.append(tell(message, begin=self.time_words(since)))
        if sentence.duration_s is not None:
            message = N_("for at least {length}") if early else N_("for {length}")
            parts.append(tell(message, length=duration_words(sentence.duration_s)))
        if sentence.same_as:
            percent = f"{sentence.same_as.probability:.0%}"
            parts.append(tell("{percent} likely the same as before", percent=percent))
        if self.record.event == "change" and not self.record.fallback:
            sure = math.floor(100 * sentence.confidence + 1e-9)  # rounded down
            parts.append(tell("{percent}% sure", percent=sure))
        return " · ".join(parts)


def gap_words(record: Record, zone: tzinfo | None = UTC) -> str:
    """The sentence of a record of `_NOT_RECORDED`: camera, span and reason."""
    if record.deletion:
        number, last = counted(record.deletion.records, "record"), moment_words(record.before.moment, zone)
        message = N_("{camera}: retention deleted {records}, up to {last}.")
        return tell(message, camera=record.camera, records=number, last=last)
    if record.reason == "mask":
        begin = moment_words(record.after.moment, zone)
        return tell("{camera}, from {begin} on: {text}", camera=record.camera, begin=begin, text=record.text)
    since, until = record.since or record.before.time, record.until or record.after.time
    begin, end = (moment_words(datetime.fromisoformat(text), zone) for text in (since, until))
    span = {"camera": record.camera, "begin": begin, "end": end}
    if record.text:  # which knows more reasons than a record has
        return tell("{camera}, {begin} to {end}: {text}", text=record.text, **span)
    message = N_("Nothing was recorded of {camera} from {begin} to {end}: {reason}.")
    return tell(message, reason=_(GAPS[record.reason or "limit"]), **span)


@dataclass(frozen=True, slots=True)
class Head:
    title: str
    facts: Sequence[tuple[str, str]] = ()  # ``(name, value)``
    missing: Sequence[str] | None = None  # sentences on what was not reported; None: no section
    held: int = 0  # number of records that a limit held back, hidden at first
    audit: Sequence[tuple[str, str]] = ()  # ``(name, value)`` for auditors
    last: Sequence[tuple[str, int, str]] = ()  # ``(camera, number, hash)`` of each camera's last record


def records_page(head: Head, cards: Iterable[Card]) -> Iterator[str]:
    """Self-contained HTML in parts, so that its pictures are never all in memory."""
    return environment().get_template("records.html.j2").generate(head=head, cards=cards)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.install_gettext_callables(language.gettext, language.ngettext, newstyle=False)  # type: ignore[attr-defined]
    static = resources.files(__package__).joinpath("static")
    files = {name: static.joinpath(name).read_bytes() for name in ("page.css", "page.js", "icon.svg")}
    made.globals |= {
        "style": Markup(files["page.css"].decode()),  # noqa: S704 - our own files
        "script": Markup(files["page.js"].decode()),  # noqa: S704
        "icon": Markup(files["icon.svg"].decode()),  # noqa: S704
        "script_sha256": base64.b64encode(hashlib.sha256(files["page.js"]).digest()).decode(),
        "colours": len(COLOURS),
        "sides": SIDES,
        "zip": zip,
        "served": False,  # a page is one file by itself, unless it says that it is served
        "language": language,
        "tell": tell,
        "counted": counted,
        "format_date": format_date,
    }
    made.filters["told"] = language.gettext
    made.filters["points"] = lambda points: " ".join(f"{x:g},{y:g}" for x, y in points)
    made.globals["pieces"] = made.get_template("pieces.html.j2").module
    return made


# The report of a replay


def write_report(
    folder: Path, cameras: Records, head: Head, evidence: Path, spans: Mapping[str, Span]
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


def summarize(cameras: Records, head: Head, spans: Mapping[str, Span]) -> Head:
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
    missing = [*(head.missing or ()), *(gap_words(each) for each in records if each.event in _NOT_RECORDED)]
    if unsure := sum(bool(record.abstained) for record in records):
        message = N_("Possibly more in {narrations}, with too little confidence to be reported.")
        missing.append(tell(message, narrations=counted(unsure, "narration")))
    fallbacks = Counter(record.fallback for record in records if record.fallback)
    for reason, count in sorted(fallbacks.items()):
        message, number = N_("What changed, in {narrations}: {reason}."), counted(count, "narration")
        missing.append(tell(message, narrations=number, reason=_(_FALLBACKS.get(reason, reason))))
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
