"""The view of a record that all pages share: `narrated serve`, reports, exports and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Literal

from models.language.catalogue import N_, _, tell
from models.language.templates import PAST
from models.sentences import Sentence
from pipeline.feedback import Feedback, Remarks
from pipeline.record import Record, RecordSentence
from pipeline.report.words import (
    EVENTS,
    NOT_RECORDED,
    abstained_words,
    confidence_words,
    duration_words,
    fallback_words,
    format_offset,
    gap_words,
    has_date,
    moment_words,
)

Side = Literal["before", "after"]
SIDES: tuple[Side, Side] = ("before", "after")
Point = tuple[float, float]
COLOURS = ((173, 72, 10), (0, 99, 168), (0, 113, 76), (168, 47, 124), (122, 85, 0), (100, 70, 200))
"""RGB of the marks, in turn, as in page.css; distinct for colour-blind eyes, readable below white."""


STEPS = {
    **{action: one for action, (one, _several) in PAST.items()},
    "placed": N_("put down"),
    "removed": N_("taken"),
    "opened": N_("opened"),
    "closed": N_("closed"),
}
"""What happened, in a word or two, by action."""

MarkedSentence = Sentence | RecordSentence


@dataclass(frozen=True, slots=True)
class Shape:
    """Outline and paths of one sentence on one picture; points in 0..1 of it."""

    number: int
    corners: Sequence[Point]
    paths: Sequence[Sequence[Point]]
    between: Sequence[Sequence[Point]] = ()  # from a path's end to the next one's begin, unrecorded

    @property
    def top(self) -> Point:
        """The corner at which its number stands."""
        return min(self.corners, key=lambda corner: corner[1])


def shapes_of(sentences: Sequence[MarkedSentence], side: Side) -> list[Shape]:
    """Outlines, or else boxes, on one picture, numbered 1, 2, ... by the sentences.

    A sentence about one side is drawn there only; one that names no side is drawn on both.
    """
    shapes = []
    for number, sentence in enumerate(sentences, 1):
        sided = sentence.before is not None or sentence.after is not None
        box = getattr(sentence, side) if sided else sentence.box
        if box is not None:
            x, y, width, height = box
            corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
            outline = getattr(sentence, f"outline_{side}") if sided else None
            shapes.append(Shape(number, outline or corners, sentence.paths or ()))
    return shapes


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
                _(STEPS.get(s.action or "", s.action or s.type)),
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
        event = EVENTS.get(self.record.event)
        return event and _(event)

    @property
    def text(self) -> str:
        missing = not self.record.text and self.record.event in NOT_RECORDED
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
            reason = fallback_words(record.fallback)
            caveats.append(tell("Only where something changed is known, not what: {reason}.", reason=reason))
        return [*caveats, abstained_words(record.abstained)] if record.abstained else caveats

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
            parts.append(confidence_words(sentence.confidence))
        return " · ".join(parts)
