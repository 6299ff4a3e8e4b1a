"""The facts of a record that questions and rules look at, for `narrated/1` and `/2` alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from daemon.questions.local_time import microseconds
from daemon.questions.words import DEPARTURES, colour_in

_UNCOUNTED = {"summary", "rule", "gap", "deletion", "cap_reached", "cap_ended"}
"""Events that are no visits of their own."""
_SPOKEN = re.compile(r" (parked|stopped|crossed)\b")
"""Actions that records of narrated/1 name in their words alone."""
UNTIL_THE_NEXT = 2**62
"""End of what a mask hides until the next record of masks."""


class Fact(NamedTuple):
    """A sentence of a record; times in microseconds since 1970.

    Attributes:
        record: names it.
        time: of the record.
        at: when it happened.
        kind: the sentence's type, or the event of a record of the whole scene.
        counted: it is an event of its own.
        other, track: of whom or what it was done with, and of itself; None without one.
    """

    record: str | int
    time: int
    at: int
    kind: str
    action: str | None
    object: str
    colour: str
    confidence: float
    number: int
    counted: bool
    other: str | int | None
    track: str | int | None
    text: str


def facts_of(members: Mapping[str, Any], time: int, record: str | int) -> list[Fact]:
    """The sentences of a record; raises `KeyError`, `TypeError` or `ValueError` where it is none.

    Args:
        members: of the record.
        time: of its after frame.
        record: what names it.
    """
    event = members["event"]
    counts, completes = event not in _UNCOUNTED, bool(members.get("continues"))
    facts = []
    for sentence in members["sentences"]:
        scene, spoken = sentence["object"] == "scene", _SPOKEN.search(sentence["text"])
        kind, action = sentence["type"], sentence.get("action") or (spoken and spoken[1])
        ended = sentence.get("until") if kind in DEPARTURES else None
        moment = ended or sentence.get("time")
        facts.append(
            Fact(
                record,
                time,
                time_of(moment) if moment else time,
                event if kind == "none" and event != "change" else kind,
                action,
                sentence["object"],
                colour_in(sentence["text"]),
                sentence["confidence"],
                1 if scene else max(sentence.get("count") or 1, 1),
                counts and (action == "parked" or not completes),  # it completes "has stopped"
                sentence.get("other"),
                sentence.get("track") or None,
                sentence["text"],
            )
        )
    scene = Fact(record, time, time, event, None, "", "", 0.0, 1, False, None, None, members["text"])
    return facts or [scene]


def gap_of(members: Mapping[str, Any], time: int) -> tuple[int, int, str] | None:
    """Begin, end and reason of a span in which nothing was recorded."""
    event, until = members["event"], members.get("until")
    if event == "gap":
        begin = time_of(members["since"]) if members.get("since") else time
        reason = members.get("reason") or "gap"
        end = time_of(until) if until else UNTIL_THE_NEXT if reason == "mask" else time
        return begin, end, reason
    return (time, time_of(until), "hourly limit") if event == "cap_reached" and until else None


def time_of(text: str) -> int:
    """Microseconds since 1970 of a record's time, with or without "before"."""
    return microseconds(datetime.fromisoformat(text.removeprefix("before ")))
