"""A record as every page shows it: the page of `serve`, a report, an export and the answer to a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Literal

from pipeline.feedback import Feedback, Remarks
from pipeline.record import Record, RecordSentence
from pipeline.report.words import (
    EVENTS,
    abstained_words,
    clock_time,
    date_words,
    duration_words,
    fallback_words,
    has_date,
    sureness,
)

Side = Literal["before", "after"]
COLOURS = ((230, 100, 20), (0, 130, 220), (0, 150, 100), (200, 60, 150), (165, 115, 0), (110, 80, 210))
"""RGB of the marks, in turn, as in page.css; colour-blind eyes tell them apart."""

NO_REMARKS = Remarks(None, None, {})


@dataclass(frozen=True, slots=True)
class Shape:
    """What is drawn for one sentence on one picture; points in 0..1 of it."""

    number: int
    corners: Sequence[tuple[float, float]]
    paths: Sequence[Sequence[tuple[float, float]]]

    @property
    def outline(self) -> str:
        """The corners as SVG writes them."""
        return _points(self.corners)

    @property
    def ways(self) -> list[tuple[str, tuple[float, float]]]:
        """Each path as SVG writes it, and its end."""
        return [(_points(path), path[-1]) for path in self.paths]

    @property
    def top(self) -> tuple[float, float]:
        """The corner at which its number stands."""
        return min(self.corners, key=lambda corner: corner[1])


@dataclass(frozen=True, slots=True)
class ShownSentence:
    """A sentence at its place by time.

    Attributes:
        number: from 1, in the order of time.
        place: from 0, in the record.
        about: its own time, since when, how long, how sure.
    """

    number: int
    place: int
    sentence: RecordSentence
    about: str
    feedback: Feedback | None


@dataclass(frozen=True, slots=True)
class Card:
    """One record.

    Attributes:
        zone: of all times; None is this machine's.
        pictures: addresses by side: before, after, overlay.
        address: of the record's own page or place.
        marks: doubts about the record, such as that it does not verify.
        remarks: what people say of it.
        clip: address of a recording; empty where there is none.
        offset_s: seconds into the footage; None where that is no use.
    """

    record: Record
    zone: tzinfo | None = UTC
    pictures: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    marks: Sequence[str] = ()
    remarks: Remarks = NO_REMARKS
    clip: str = ""
    offset_s: float | None = None

    @property
    def dated(self) -> bool:
        """True where the footage knows the time of day."""
        return has_date(self.record.after.moment)

    @property
    def clock(self) -> str:
        """Time of day, or for footage without a date the time into it."""
        return self.time_words(self.record.after.moment)

    @property
    def day(self) -> str:
        """Such as Thursday 14 May 2026."""
        if not self.dated:
            return "footage without a date"
        shown = self.record.after.moment.astimezone(self.zone)
        return f"{shown:%A} {date_words(shown)}"

    @property
    def offset(self) -> str:
        """Such as 2:03.4 into the footage; empty where the clock says the same."""
        if self.offset_s is None or not self.dated:
            return ""
        return f"{clock_time(self.offset_s)} into the footage"

    @property
    def event(self) -> str | None:
        """What a record is of, None where objects changed."""
        return EVENTS.get(self.record.event)

    @property
    def gap(self) -> str:
        """Time between its two frames."""
        return f"{(self.record.after.moment - self.record.before.moment).total_seconds():.1f} s earlier"

    @property
    def first_side(self) -> Side:
        """The picture that shows more: what left is on the one before."""
        sentences = self.record.sentences
        return "before" if sentences and all(s.type == "disappeared" for s in sentences) else "after"

    @property
    def caveats(self) -> list[str]:
        """What is missing in it, as sentences."""
        found = []
        if self.record.fallback:
            found.append(f"Where something changed, not what: {fallback_words(self.record.fallback)}.")
        if self.record.abstained:
            found.append(abstained_words(self.record.abstained))
        return found

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
        """Outlines on one picture; what is on one side only is drawn there only."""
        found = [(shown.number, _corners(shown.sentence, side), shown.sentence) for shown in self.sentences]
        return [Shape(number, corners, s.paths or ()) for number, corners, s in found if corners]

    def time_words(self, moment: datetime) -> str:
        """A time of its day."""
        if not has_date(moment):
            return clock_time(moment.timestamp())
        return f"{moment.astimezone(self.zone):%H:%M:%S}"

    def _about(self, sentence: RecordSentence) -> str:
        parts = [self.time_words(datetime.fromisoformat(sentence.time))] if sentence.time else []
        if sentence.since:
            before = "before " * sentence.since.startswith("before ")
            since = datetime.fromisoformat(sentence.since.removeprefix("before "))
            parts.append(f"since {before}{self.time_words(since)}")
        if sentence.duration_s is not None:
            parts.append(f"for {duration_words(sentence.duration_s)}")
        if sentence.same_as:
            parts.append(f"{sentence.same_as.probability:.0%} likely the same as before")
        if self.record.event == "change" and not self.record.fallback:
            parts.append(sureness(sentence.confidence))
        return " · ".join(parts)


def _corners(sentence: RecordSentence, side: Side) -> Sequence[tuple[float, float]]:
    sided = sentence.before is not None or sentence.after is not None
    box = (sentence.before if side == "before" else sentence.after) if sided else sentence.box
    if box is None:
        return ()
    outline = (sentence.outline_before if side == "before" else sentence.outline_after) if sided else None
    x, y, width, height = box
    return outline or ((x, y), (x + width, y), (x + width, y + height), (x, y + height))


def _points(path: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in path)
