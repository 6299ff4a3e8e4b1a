"""Sentences: from the facts that are known to plain English.

`render(Statement("entered", "person", colour="dark", origin="right"))` is "A person in dark clothes has come
in from the right."
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from models.families import KINDS, PEOPLE, THINGS, VEHICLES

ACTIONS = (
    *("entered", "left", "appeared", "disappeared", "moved", "stopped", "resumed", "parked", "placed"),
    *("removed", "got_in", "got_out", "met", "waiting", "crossed", "present", "absent"),
)
"""Actions of statements.

"present" and "absent" are for stills only: of what has appeared, disappeared or moved.
"""

PAST = {
    "entered": "came in",
    "left": "left",
    "appeared": "appeared",
    "disappeared": "disappeared",
    "stopped": "stopped",
    "resumed": "moved on",
    "parked": "parked",
    "met": "met",
    "waiting": "waited",
    "crossed": "crossed a line",
    "placed": "were put down",
    "removed": "were taken",
    "got_in": "got into a vehicle",
    "got_out": "got out of a vehicle",
}
"""What actions of tracks were, of several."""
OTHERS = {
    "placed": "put down by",
    "removed": "taken by",
    "met": "met",
    "got_in": "got into",
    "got_out": "got out of",
}
"""What the other track has to do with an action."""

COLOURS = ("white", "black", "grey", "red", "blue", "green", "yellow", "orange", "brown")
"""The colours of vehicles."""
CLOTHES = ("dark", "light", *COLOURS)
"""The colours of people: what they wear, "in dark clothes", "in red"."""

COUNTED = 3
"""More than these are several in `number_words`: in two pictures one of many is easily detected twice."""

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_UNITS = (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0))
_ALMOST = 0.92  # of a unit, from which a time is rounded up to it

_FROM = {"far": "from the background", "near": "from the foreground", "middle": "from the middle"}
_TO = {"far": "towards the background", "near": "towards the camera", "middle": "to the middle"}
_CARRIED = THINGS - {"object"}  # somebody brings them in and takes them away
_GOES_OFF = {
    "person": "walked off",
    **dict.fromkeys(("cyclist", "motorcyclist", "rider"), "ridden off"),
    **dict.fromkeys((*VEHICLES, "motorcycle"), "driven off"),
}
_SAME_PLACE = {"far": ("background", "top edge"), "near": ("foreground", "bottom edge")}
_COURSE = {**_TO, "far": "to the background", "near": "to the foreground"}


@dataclass(frozen=True, slots=True)
class Statement:
    """The facts of one sentence.

    Attributes:
        action: one of `ACTIONS`.
        object: one of `models.families.KINDS`.
        count: how many.
        several: leave the number open; `count` is more than one then.
        colour: of a vehicle one of `COLOURS`, of people one of `CLOTHES`; of other objects none.
        large: a large one: "large vehicle".
        place: words for where it is, "on the left" or a zone's; where it was, if it left, disappeared,
            moved, resumed or was removed.
        end: words for where a moved one is now.
        origin, target: left, right, far, near or middle: where it came from and where it goes.
        came_from: the same of its arrival, where it left or resumed: "who came in from the right".
        duration_s: for how long it had been there when it left, resumed or was removed; of others, for how
            long it stands, waits or is in company.
        at_least: `duration_s` is only how long it was seen.
        other: follows the same statement about another one.
        among: the place does not identify it: "a car on the left has gone", not "the car".
    """

    action: str
    object: str
    count: int = 1
    several: bool = False
    colour: str = ""
    large: bool = False
    place: str = ""
    end: str = ""
    origin: str = ""
    target: str = ""
    came_from: str = ""
    duration_s: float | None = None
    at_least: bool = False
    other: bool = False
    among: bool = False


def render(statement: Statement) -> str:
    """The sentence, with a capital letter and a full stop.

    Raises:
        ValueError: an unknown action or object, or a count below 1.
    """
    if statement.action not in ACTIONS or statement.count < 1:
        raise ValueError(f"no words for {statement.count} {statement.object} that {statement.action}")
    text = " ".join(_FORMS[statement.action](statement).split())
    return f"{text[0].upper()}{text[1:].replace(' ,', ',')}."


def noun_phrase(
    name: str,
    count: int = 1,
    *,
    colour: str = "",
    large: bool = False,
    article: str = "a",
    several: bool = False,
) -> str:
    """Such as "a red car", "the person in dark clothes", "two large vehicles", "23 people".

    Args:
        name: one of `models.families.KINDS`.
        count: how many.
        colour: see `Statement`.
        large: see `Statement`.
        article: a, the, another or nothing.
        several: say "several" in place of the number.

    Raises:
        ValueError: an unknown name.
    """
    if name not in KINDS:
        raise ValueError(f"no noun for {name!r}")
    if name == "object" and count == 1:
        return "something else" if article == "another" else "something"
    words = KINDS[name].plural if count > 1 else name
    if colour in CLOTHES and name in PEOPLE:
        words += f" in {colour}{' clothes' if colour in ('dark', 'light') else ''}"
    elif colour in COLOURS and name in VEHICLES:
        words = f"{colour} {words}"
    words = f"large {words}" if large else words
    if count > 1:
        number = "several" if several else _NUMBERS[count] if count < len(_NUMBERS) else f"{count}"
        lead = {"the": "" if several else "the ", "another": ""}.get(article, "")
        return f"{lead}{number} {'other ' if article == 'another' else ''}{words}"
    if article == "a":
        article = "an" if words[0] in "aeiou" else "a"
    return f"{article} {words}".strip()


def duration(seconds: float, *, at_least: bool = False) -> str:
    """Such as "14 s", "a minute" or "3 hours"; what was at least so long is rounded down."""
    share, whole = (1.0, math.floor) if at_least else (_ALMOST, round)
    unit, length = next((each for each in _UNITS if seconds >= share * each[1]), ("s", 1.0))
    number = max(whole(seconds / length), 1)
    if unit == "s":
        return f"{number} s"
    return f"{'an' if unit == 'hour' else 'a'} {unit}" if number == 1 else f"{number} {unit}s"


def _indefinite(s: Statement) -> str:
    return _subject(s, "a")


def _definite(s: Statement) -> str:
    return _subject(s, "a" if s.among else "the")


def _subject(s: Statement, article: str) -> str:
    article = "another" if s.other else article
    return noun_phrase(s.object, s.count, colour=s.colour, large=s.large, article=article, several=s.several)


def _has(s: Statement) -> str:
    return "have" if s.count > 1 else "has"


def _way(origin: str, target: str, course: dict[str, str] | None = None) -> str:
    start = _FROM.get(origin, f"from the {origin}") if origin else ""
    end = (course or _TO).get(target, f"to the {target}") if target else ""
    return f"{start} {end}".strip()


def _after_clause(s: Statement) -> str:
    if not s.duration_s:
        return ""
    return f", after {'at least ' if s.at_least else ''}{duration(s.duration_s, at_least=s.at_least)}"


def _for(s: Statement) -> str:
    return f"for {duration(s.duration_s)}" if s.duration_s else ""


def _named_subject(s: Statement) -> str:
    """The object, by its arrival if that is known, else by its place."""
    subject = _definite(s)
    if not s.came_from:
        return f"{subject} {s.place}"
    who = "who" if s.object in PEOPLE else "that"
    return f"{subject} {who} came in {_way(s.came_from, '')}"


def _entered_clause(s: Statement) -> str:
    if not s.origin:  # "has come in in the middle" is no English
        come = "arrived" if s.place.startswith("in ") else "come in"
        return f"{_indefinite(s)} {_has(s)} {come} {s.place}"
    come = "been brought in" if s.object in _CARRIED else "come in"
    known = any(word in s.place for word in _SAME_PLACE.get(s.origin, (s.origin,)))
    now = f"and {'are' if s.count > 1 else 'is'} now {s.place}" if s.place and not known else ""
    return f"{_indefinite(s)} {_has(s)} {come} {_way(s.origin, '')} {now}"


def _left_clause(s: Statement) -> str:
    leave = (
        "been taken away" if s.object in _CARRIED else _GOES_OFF.get(s.object, "left") if s.target else "left"
    )
    return f"{_named_subject(s)} {_has(s)} {leave} {_way('', s.target)}{_after_clause(s)}"


def _disappeared_clause(s: Statement) -> str:
    return f"{_named_subject(s)} {_has(s)} gone{_after_clause(s)}"


def _moved_clause(s: Statement) -> str:
    now = f"and {'are' if s.count > 1 else 'is'} now {s.end}" if s.end else ""
    place = "" if s.origin else s.place
    return f"{_definite(s)} {place} {_has(s)} moved {_way(s.origin, s.target, _COURSE)} {now}"


def _halted_clause(s: Statement) -> str:
    """Stopped or parked; with a duration, that it still stands there."""
    if s.duration_s:
        stands = "stand" if s.count > 1 else "stands"
        return f"{_definite(s)} still {stands} {s.place}{_after_clause(s)}"
    if s.action == "parked" and not s.origin:  # it was seen to stop
        return f"{_definite(s)} {s.place} {_has(s)} parked"
    start = f"come in {_way(s.origin, '')} and " if s.origin else ""
    return f"{_indefinite(s)} {_has(s)} {start}{s.action} {s.place}"


def _resumed_clause(s: Statement) -> str:
    go = "walked on" if s.object == "person" else "set off"
    return f"{_named_subject(s)} {_has(s)} {go} {_way('', s.target)}{_after_clause(s)}"


def _removed_clause(s: Statement) -> str:
    return f"{_named_subject(s)} {_has(s)} been taken away{_after_clause(s)}"


def _boarded_clause(s: Statement) -> str:
    way = "into" if s.action == "got_in" else "out of"
    return f"{_indefinite(s)} {_has(s)} got {way} a vehicle {s.place}"


def _met_clause(s: Statement) -> str:
    if s.duration_s:
        return f"{_indefinite(s)} have been standing together {s.place} {_for(s)}"
    return f"{_indefinite(s)} have met {s.place}"


def _waiting_clause(s: Statement) -> str:
    standing = "waiting" if s.object in PEOPLE else "standing"
    return f"{_indefinite(s)} {_has(s)} been {standing} {s.place} {_for(s)}"


def _crossed_clause(s: Statement) -> str:
    """Its place is the line, with the direction."""
    return f"{_indefinite(s)} {_has(s)} crossed {s.place}"


def _present_clause(s: Statement) -> str:
    return f"there {'are' if s.count > 1 else 'is'} now {_indefinite(s)} {s.place}"


def _absent_clause(s: Statement) -> str:
    return f"{_definite(s)} {s.place} {'are' if s.count > 1 else 'is'} no longer there"


_FORMS: dict[str, Callable[[Statement], str]] = {
    "entered": _entered_clause,
    "left": _left_clause,
    "appeared": lambda s: f"{_indefinite(s)} {_has(s)} appeared {s.place}",
    "disappeared": _disappeared_clause,
    "moved": _moved_clause,
    "stopped": _halted_clause,
    "resumed": _resumed_clause,
    "parked": _halted_clause,
    "placed": lambda s: f"{_indefinite(s)} {_has(s)} been put down {s.place}",
    "removed": _removed_clause,
    "got_in": _boarded_clause,
    "got_out": _boarded_clause,
    "met": _met_clause,
    "waiting": _waiting_clause,
    "crossed": _crossed_clause,
    "present": _present_clause,
    "absent": _absent_clause,
}
