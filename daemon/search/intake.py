"""Lines of a journal's file, read into rows of the index."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from daemon.questions.local_time import microseconds
from daemon.questions.words import ARRIVALS, DEPARTURES, colour_in
from pipeline.record import RecordError, hash_holds, read_record

ALTERED, UNLINKED, STEPPED, HELD = 1, 2, 4, 8
"""Flags of a record: its hash does not hold, it does not continue the record before it, it is older than that
(the camera's clock stepped back)."""

UNTIL_THE_NEXT = 2**62
"""End of what a mask hides until the next record of masks."""

_UNCOUNTED = {"summary", "rule", "gap", "deletion", "cap_reached", "cap_ended"}
"""Events that are no visits of their own."""


class SentenceRow(NamedTuple):
    """A row of the table ``sentences``, but for its record; `visit` is None without a track."""

    time: int
    camera: str
    kind: str
    action: str | None
    object: str
    colour: str
    confidence: float
    many: int
    counted: bool
    visit: VisitRow | None
    text: str


class VisitRow(NamedTuple):
    """What a sentence tells of a track: a row of the table ``visits``; microseconds since 1970."""

    camera: str
    track: str
    begin: int
    end: int | None
    last: int


class RecordRow(NamedTuple):
    """A row of the table ``records``, but for its file; its sentences, and the gap that it tells of."""

    offset: int
    length: int
    digest: bytes
    key: bytes
    time: int
    camera: str
    flags: int
    sentences: list[SentenceRow]
    gap: tuple[str, int, int, str] | None


@dataclass(slots=True)
class ChainMark:
    """A camera's part of a file: number and ``prev`` of its first record; number, hash, time of its last."""

    first_seq: int
    first_prev: str
    seq: int
    hash: str
    time: int


@dataclass(slots=True)
class Batch:
    """Some lines of a file.

    Attributes:
        lines: number of lines before these; counted on.
        ends: by camera; those of the lines before are given.
        earlier: the time of a camera's last record in the files before, None without one.
        unread: lines that hold no record.
        fault: the first line that does not hold, and why; mostly empty.
    """

    lines: int = 0
    ends: dict[str, ChainMark] = field(default_factory=dict)
    earlier: Callable[[str], int | None] = lambda _camera: None
    records: list[RecordRow] = field(default_factory=list)
    unread: int = 0
    fault: str = ""

    def add(self, raw: bytes, offset: int) -> None:
        """Take a whole line that begins at a byte of the file."""
        self.lines += 1
        holds = hash_holds(raw[:-1])
        try:
            if not holds:
                read_record(raw)  # a line that carries its hash was written by narrated
            members = json.loads(raw)
            time, digest = _time(members["after"]["time"]), bytes.fromhex(members["hash"])[:8]
            sentences, gap = list(_sentences(members, time)), _gap(members, time)
            camera, seq, prev = str(members["camera"]), int(members["seq"]), str(members["prev"])
            key = key_of(members["id"])
        except (RecordError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            self.unread += 1
            self._note("no record: the line was changed, or written by something else")
            return
        if not holds:
            self._note("the hash does not match: the line was changed")
        flags = self._link(camera, seq, prev, members["hash"], time) | (0 if holds else ALTERED)
        flags |= HELD if members.get("held") else 0
        row = RecordRow(offset, len(raw), digest, key, time, camera, flags, sentences, gap)
        self.records.append(row)

    def _link(self, camera: str, seq: int, prev: str, digest: str, time: int) -> int:
        """How a record stands to the one before it, which it then becomes."""
        flags, end = 0, self.ends.get(camera)
        if end is None:
            before = self.earlier(camera)
            self.ends[camera] = ChainMark(seq, prev, seq, digest, time)
        else:
            before = end.time
            if (seq, prev) != (end.seq + 1, end.hash):
                flags |= UNLINKED
                self._note(f"seq {seq} of {camera} does not continue the record before it, seq {end.seq}")
            end.seq, end.hash, end.time = seq, digest, time
        return flags | STEPPED if before is not None and time < before else flags

    def _note(self, reason: str) -> None:
        self.fault = self.fault or f"{self.lines}: {reason}"


def key_of(identity: str) -> bytes:
    """Eight bytes by which the record of an id is found."""
    return hashlib.sha256(identity.encode()).digest()[:8]


def _time(text: str) -> int:
    return microseconds(datetime.fromisoformat(text.removeprefix("before ")))


def _sentences(members: Mapping[str, Any], time: int) -> list[SentenceRow]:
    """Both schemas are read: what narrated/1 lacks is absent."""
    event, camera = members["event"], members["camera"]
    counted = event not in _UNCOUNTED and not members.get("continues")
    rows = []
    for said in members["sentences"]:
        scene = said["object"] == "scene"
        kind = event if said["type"] == "none" and event != "change" else said["type"]
        track = said.get("track")
        rows.append(
            SentenceRow(
                time,
                camera,
                kind,
                said.get("action"),
                said["object"],
                colour_in(said["text"]),
                said["confidence"],
                1 if scene else max(said.get("count") or 1, 1),
                counted,
                _visit(said, camera, track, time) if track else None,
                said["text"],
            )
        )
    return rows or [SentenceRow(time, camera, event, None, "", "", 0.0, 1, False, None, members["text"])]


def _visit(said: Mapping[str, Any], camera: str, track: str, time: int) -> VisitRow:
    at = _time(said["time"]) if said.get("time") else time
    begin, end = at, None
    if said["type"] in DEPARTURES:
        end = _time(said["until"]) if said.get("until") else at
        begin = end - round((said.get("duration_s") or 0) * 1_000_000)
    if said.get("since") and said["type"] in (*ARRIVALS, *DEPARTURES):
        begin = min(begin, _time(said["since"]))
    return VisitRow(camera, track, begin, end, at)


def _gap(members: Mapping[str, Any], time: int) -> tuple[str, int, int, str] | None:
    """Camera, begin, end and reason of a span in which nothing was recorded."""
    event, until = members["event"], members.get("until")
    if event == "gap":
        begin = _time(members["since"]) if members.get("since") else time
        reason = members.get("reason") or "gap"
        end = _time(until) if until else UNTIL_THE_NEXT if reason == "mask" else time
        return members["camera"], begin, end, reason
    if event == "cap_reached" and until:
        return members["camera"], time, _time(until), "hourly limit"
    return None
