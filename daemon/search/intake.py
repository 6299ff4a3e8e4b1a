"""Lines of a journal's file, read into the columns of the index."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from daemon.questions.local_time import microseconds
from daemon.search.columns import ALTERED, FIRST, MOST, STEPPED, SURE, UNLINKED, Places, Sentences
from pipeline.record import RecordError, hash_holds, read_record

_DIGEST = 16

Phrase = tuple[str, str, str]
"""What is said, as the journals repeat it: text, kind of change, object."""


@dataclass(slots=True)
class ChainMark:
    """A camera's part of a file.

    Attributes:
        first_seq, first_prev: number of its first record, and the hash of the one before it.
        seq, hash: of its last record.
        time: of its last record, microseconds since 1970; a file without one has that of the file before.
    """

    first_seq: int
    first_prev: str
    seq: int
    hash: str
    time: int


@dataclass(slots=True)
class Batch:
    """What was read of a file in one go.

    Attributes:
        lines: that the file has before these; counted on.
        ends: by camera; those of the lines before are given.
        earlier: the time of a camera's last record in the files before; None where there is none.
        sentences, places: see `daemon.search.columns`.
        uses: how often each phrase is said here.
        unread: lines that hold no record.
        fault: the first line that does not hold, and why; empty where all do.
    """

    lines: int
    ends: dict[str, ChainMark]
    earlier: Callable[[str], int | None]
    camera_number: Callable[[str], int]
    phrase_number: Callable[[Phrase], int]
    sentences: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    places: list[tuple[int, int, int]] = field(default_factory=list)
    uses: Counter[int] = field(default_factory=Counter)
    unread: int = 0
    fault: str = ""

    def add(self, raw: bytes, offset: int) -> None:
        """Take a whole line that begins at a byte of the file."""
        self.lines += 1
        holds = hash_holds(raw[:-1])
        members = _members(raw, holds=holds)
        if members is None:
            self.unread += 1
            self._note("no record: the line was changed, or written by something else")
            return
        if not holds:
            self._note("the hash does not match: the line was changed")
        camera, moment = members["camera"], _moment(members["after"]["time"])
        flags = self._flags(members, moment) | (0 if holds else ALTERED)
        number = self.camera_number(camera)
        first = FIRST
        for phrase, confidence, count in _said(members):
            said = self.phrase_number(phrase)
            self.uses[said] += 1
            self.sentences.append((moment, number, said, confidence, count, flags | first))
            first = 0
        self.places.append((offset, len(raw), int(members["hash"][:_DIGEST], 16)))

    def columns(self) -> tuple[Sentences, Places]:
        """What was read."""
        return Sentences.of(self.sentences), Places.of(self.places)

    def _flags(self, members: dict[str, Any], moment: int) -> int:
        """How a record stands to the one before it, which it then becomes."""
        camera, seq, prev = members["camera"], members["seq"], members["prev"]
        flags, end = 0, self.ends.get(camera)
        if end is None:
            before = self.earlier(camera)
            self.ends[camera] = ChainMark(seq, prev, seq, members["hash"], moment)
        else:
            before = end.time
            if (seq, prev) != (end.seq + 1, end.hash):
                flags |= UNLINKED
                self._note(f"seq {seq} of {camera} does not continue the record before it, seq {end.seq}")
            end.seq, end.hash, end.time = seq, members["hash"], moment
        return flags | STEPPED if before is not None and moment < before else flags

    def _note(self, reason: str) -> None:
        self.fault = self.fault or f"{self.lines}: {reason}"


def _members(raw: bytes, *, holds: bool) -> dict[str, Any] | None:
    """The record in a line; None where there is none. What carries its hash was written by us."""
    try:
        if not holds:
            read_record(raw)
        members = json.loads(raw)
        _moment(members["after"]["time"])
        int(members["hash"][:_DIGEST], 16)
        list(_said(members))
        if isinstance(members["camera"], str) and isinstance(members["seq"], int) and members["prev"]:
            return dict(members)
    except (RecordError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return None


def _moment(text: str) -> int:
    return microseconds(datetime.fromisoformat(text))


def _said(members: dict[str, Any]) -> list[tuple[Phrase, int, int]]:
    """Phrases with confidence (0..10000) and count; what tells of the whole scene is called by its event."""
    event = members["event"]
    told = [
        (
            (s["text"], event if s["type"] == "none" and event != "change" else s["type"], s["object"]),
            round(s["confidence"] * SURE),
            0 if s["object"] == "scene" else min(max(s.get("count", 1), 1), MOST),
        )
        for s in members["sentences"]
    ]
    return told or [((members["text"], event, ""), 0, 0)]
