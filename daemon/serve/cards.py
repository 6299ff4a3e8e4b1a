"""A narration as the pages show it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import quote

from daemon.questions.local_time import LocalTime
from daemon.search.found import FoundRecord
from daemon.search.output import local_words
from pipeline.feedback import Feedback, Remarks
from pipeline.record import Record, RecordSentence
from pipeline.report.words import (
    EVENTS,
    abstained_words,
    date_words,
    fallback_words,
    has_date,
    sureness,
)

Side = Literal["before", "after"]
_ID = re.compile(r".+-(\d{8}T\d{6}\.\d{3})Z-[0-9a-f]{12}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DrawnMark:
    """What is drawn for one sentence on one picture, in 0..1 of it.

    Attributes:
        number: of the sentence, from 1.
        corners: of an outline, or of a box.
        paths: the ways of its objects.
    """

    number: int
    corners: tuple[tuple[float, float], ...]
    paths: tuple[tuple[tuple[float, float], ...], ...]

    @property
    def points(self) -> str:
        """The corners as SVG writes them."""
        return _points(self.corners)

    @property
    def ways(self) -> list[tuple[str, tuple[float, float]]]:
        """Each way as SVG writes it, and its end."""
        return [(_points(path), path[-1]) for path in self.paths]

    @property
    def top(self) -> tuple[float, float]:
        """Where its number stands."""
        return min(self.corners, key=lambda corner: corner[1])


@dataclass(frozen=True, slots=True)
class NarrationCard:
    """One narration.

    Attributes:
        found: what the journal has.
        remarks: what people say of it.
        local: in which times are told.
    """

    found: FoundRecord
    remarks: Remarks
    local: LocalTime

    @property
    def record(self) -> Record:
        """What is told."""
        return self.found.record

    @property
    def address(self) -> str:
        """Of its own page, for ever."""
        return record_address(self.record)

    @property
    def dated(self) -> bool:
        """Whether the footage knows the time of day."""
        return has_date(self.record.after.moment)

    @property
    def clock(self) -> str:
        """Its time without its day; of footage without a date how far into it."""
        moment = self.record.after.moment
        return f"{self.local.of(moment):%H:%M:%S}" if self.dated else local_words(moment, self.local)

    @property
    def day(self) -> str:
        """Its day, such as Thursday 14 May 2026."""
        if not self.dated:
            return "footage without a date"
        shown = self.local.of(self.record.after.moment)
        return f"{shown:%A} {date_words(shown)}"

    @property
    def event(self) -> str | None:
        """The scene event in words, None where objects changed."""
        return EVENTS.get(self.record.event)

    @property
    def gap(self) -> str:
        """How long before the after frame the before frame was taken."""
        seconds = (self.record.after.moment - self.record.before.moment).total_seconds()
        return f"{seconds:.1f} seconds earlier"

    @property
    def first_side(self) -> Side:
        """Which picture shows more of what is told: who left is on the one before."""
        sentences = self.record.sentences
        return "before" if sentences and all(s.type == "disappeared" for s in sentences) else "after"

    @property
    def pictures(self) -> Mapping[str, str]:
        """The digests of the pictures that are there, by side."""
        return {side: path.name[:64] for side, path in self.found.pictures.items()}

    @property
    def caveats(self) -> list[str]:
        """What is missing in it, as sentences."""
        record, found = self.record, list[str]()
        if record.fallback:
            found.append(
                f"Only where something changed is told, not what: {fallback_words(record.fallback)}."
            )
        if record.abstained:
            found.append(abstained_words(record.abstained))
        return found

    def shapes(self, side: Side) -> list[DrawnMark]:
        """What is drawn on one picture; what is told of one side only is drawn there only."""
        return [
            shape
            for number, sentence in enumerate(self.record.sentences, 1)
            if (shape := _shape(number, sentence, side))
        ]

    def said(self, place: int) -> Feedback | None:
        """What people say of a sentence, by its place from 0."""
        return self.remarks.feedback.get(place)

    def sure(self, sentence: RecordSentence) -> str:
        """How sure it is; empty where nobody judged."""
        return "" if self.event or self.record.fallback else sureness(sentence.confidence)

    def moment(self, sentence: RecordSentence) -> str:
        """When it happened, where that is known."""
        if sentence.time is None:
            return ""
        moment = datetime.fromisoformat(sentence.time)
        return f"{self.local.of(moment):%H:%M:%S}" if has_date(moment) else local_words(moment, self.local)


def record_address(record: Record) -> str:
    """Of a record's page. The time is told beside the id only where the id does not hold it."""
    address = f"/record/{quote(record.id, safe='')}"
    begin, end = moment_of(record.id) or (record.after.moment, record.before.moment)
    return address if begin <= record.after.moment < end else f"{address}?at={record.after.time}"


def moment_of(identity: str, at: str = "") -> tuple[datetime, datetime] | None:
    """When the record of an id was taken, by a time beside it or by the id itself; None if neither tells."""
    named = _ID.fullmatch(identity)
    try:
        if at:
            begin = datetime.fromisoformat(at).astimezone(UTC)
            return begin, begin + timedelta(microseconds=1)
        if named:
            begin = datetime.strptime(f"{named[1]}+0000", "%Y%m%dT%H%M%S.%f%z")
            return begin, begin + timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        pass
    return None


def _shape(number: int, sentence: RecordSentence, side: Side) -> DrawnMark | None:
    sided = sentence.before is not None or sentence.after is not None
    box = (sentence.before if side == "before" else sentence.after) if sided else sentence.box
    if box is None:
        return None
    outline = (sentence.outline_before if side == "before" else sentence.outline_after) if sided else None
    x, y, width, height = box
    corners = outline or ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    return DrawnMark(number, corners, sentence.paths or ())


def _points(path: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in path)
