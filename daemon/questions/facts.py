"""The facts of a record that questions and rules look at, and whether filters mean them.

Records of `narrated/1` and `/2` are read alike.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, get_args

from daemon.questions.question import Filters, SearchError, microseconds
from daemon.questions.words import ANIMALS, CAME, COLOURS, GROUPS, LEFT, LEXICON, NOUNS, OBJECT_WORDS
from pipeline.record_format import Action, ChangeType, Event

_NOUN, _PAINT = "|".join(sorted(OBJECT_WORDS, key=len, reverse=True)), "|".join(COLOURS)
_COLOURED = re.compile(
    r"\b(?:persons?|people|m[ae]n|wom[ae]n|pedestrians?|cyclists?|motorcyclists?|riders?)"
    rf" in ({_PAINT})(?: clothes)?(?![\w'-])|\b({_PAINT}) (?:[\w'-]+ )?(?:{_NOUN})\b"
)
NO, MAYBE, YES = 0, 1, 2
OPEN_CLASSES = {"vehicle": ("car", "van", "bus", "truck"), "rider": ("cyclist", "motorcyclist")}
"""Object that records name where its kind was not sure, to what it may be."""
ARRIVALS, DEPARTURES = ("appeared", "more"), ("disappeared", "fewer")
WITHOUT = {kind: tuple(each.split("|")) for kind, each in LEXICON["lacking"].items()}
"""What a visit may have been without, to the kinds and actions of which it has no sentence then."""
KINDS = dict.fromkeys((CAME, *get_args(ChangeType), *get_args(Event), *get_args(Action)))
"""Kinds of change, events and actions as records name them, and `CAME`."""
_UNCOUNTED = {"summary", "rule", "gap", "deletion", "cap_reached", "cap_ended"}
"""Events that are no visits of their own."""
_SPOKEN = re.compile(r" (parked|stopped|crossed)\b")
"""Actions that records of narrated/1 name in their words alone."""
UNTIL_THE_NEXT = 2**62
"""End of what a mask hides until the next record of masks."""
_PLACE = re.compile(
    r"(?:(?:in|on|at|by|near|to|from|of|into|towards?|behind|beside|before|under|outside|inside|around) )?"
    r"(?:the |an? )?(?P<name>.+)",
    re.IGNORECASE,
)
_PREPOSITIONS = (
    "above|across|along|alongside|among|around|at|before|behind|below|beneath|beside|between|beyond|by|close|crossed|"
    "down|from|in|inside|into|near|next|of|on|opposite|outside|over|past|round|through|to|toward|towards|under|"
    "underneath|up|within"
)
_ADVERBS = {"downstairs", "upstairs", "indoors", "outdoors", "inside", "outside"}
"""Zones that need no word before them."""
_TEXTS = 100_000
"""That are remembered: they name durations, so there are many."""


class Fact(NamedTuple):
    """A sentence of a record; times in microseconds since 1970.

    Attributes:
        time, camera: of the record.
        other, track: of whom or what it was done with, and of itself; None without one.
    """

    record: str | int  # names it
    time: int
    camera: str
    at: int  # when it happened
    kind: str  # the sentence's type, or the event of a record of the whole scene
    action: str | None
    object: str
    colour: str
    confidence: float
    number: int
    counted: bool  # it is an event of its own
    other: str | int | None
    track: str | int | None
    text: str  # as told, and in a second line in English where that was in another language


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
        told, english = sentence["text"], sentence.get("english", "")
        scene, spoken = sentence["object"] == "scene", _SPOKEN.search(told)
        kind, action = sentence["type"], sentence.get("action") or (spoken and spoken[1])
        ended = sentence.get("until") if kind in DEPARTURES else None
        moment = ended or sentence.get("time")
        facts.append(
            Fact(
                record,
                time,
                members["camera"],
                time_of(moment) if moment else time,
                event if kind == "none" and event != "change" else kind,
                action,
                sentence["object"],
                _colour_in(english or told),
                sentence["confidence"],
                1 if scene else max(sentence.get("count") or 1, 1),
                # parking completes "has stopped"; who was lost did nothing
                counts and action != "lost" and (action == "parked" or not completes),
                sentence.get("other"),
                sentence.get("track") or None,
                f"{told}\n{english}".strip(),
            )
        )
    scene = time, members["camera"], time, event, None, "", "", 0.0, 1, False, None, None, members["text"]
    return facts or [Fact(record, *scene)]


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


class RecordPlace:
    """A zone as sentences name it."""

    def __init__(self, words: str) -> None:
        name = re.escape(" ".join(place_name(words).lower().split()))
        before = (
            "" if name in _ADVERBS else rf"(?:{_PREPOSITIONS}) (?:the |an? )?(?:(?!ha[sv]|is |are )[\w'-]+ )?"
        )
        self._named = re.compile(rf"(?<![\w-]){before}{name}(?![\w-])")
        self._end = re.compile(
            rf"\b(?:now|to|into|towards?|stopped|parked)(?: [a-z]+){{0,2}}? {name}(?![\w-])"
        )

    def holds(self, text: str, kind: str, kinds: Sequence[str]) -> bool:
        """True of a sentence about the place; of what moved, where it came there, or went from there."""
        text = text.lower()
        if self._named.search(text) is None:
            return False
        if kind != "moved" or kind in kinds or not {CAME, LEFT} & {*kinds}:
            return True
        return (CAME if self._end.search(text) else LEFT) in kinds


def place_name(words: str) -> str:
    """The words of a place without their preposition and article."""
    named = _PLACE.fullmatch(words.strip())
    return named["name"] if named else words


class Matcher:
    """Filters in the names of records.

    Args:
        filters: words.
        known: objects that the records name beside the usual ones; None takes every word.

    Attributes:
        spoken: object to the words of which its sentence must hold one; an empty one is always held.
        open_classes: object that is recorded where the kind was not sure, to what of the filters it may be.
        kinds, actions: of a sentence either must be among them; none is any.

    Raises:
        SearchError: an object, kind or colour is not known.
    """

    def __init__(self, filters: Filters, known: Collection[str] | None = None) -> None:
        self.filters = filters
        self.spoken = defaultdict[str, set[str]](set)
        for word in filters.objects:
            for name, spoken in _objects_of(word, {word} if known is None else {*known}).items():
                self.spoken[name].add(spoken)
        self.open_classes = _open_classes_of(filters.objects)
        self.colours = tuple(map(_colour_of, filters.colours))
        self._asked = tuple(map(_kind_of, filters.kinds))
        self._places = [RecordPlace(zone) for zone in filters.zones]
        meant = {CAME: ARRIVALS[:1], LEFT: DEPARTURES[:1]}  # what people mean by them is by type
        self.kinds = {each for kind in self._asked for each in meant.get(kind, (kind,))}
        self.actions = {*self._asked} - {LEFT}
        if self._places and {CAME, LEFT} & {*self._asked}:
            self.kinds.add("moved")
        self._at_place = lru_cache(_TEXTS)(self._is_at_place)

    def happens(self, fact: Fact) -> int:
        """Whether a sentence is an event of these filters: `YES`, `MAYBE` of an open class, or `NO`."""
        acts = fact.action in self.actions or (fact.counted and fact.kind in self.kinds)
        return self._about(fact, self._asked) if acts else NO

    def stands(self, fact: Fact) -> int:
        """Whether a sentence has what it is about there."""
        return NO if fact.kind in DEPARTURES or fact.action == "lost" else self._about(fact, (CAME,))

    def at_place(self, text: str, kind: str) -> bool:
        """True of a sentence, of what kind, about one of the places."""
        return self._at_place(text, kind, self._asked)

    def _about(self, fact: Fact, kinds: tuple[str, ...]) -> int:
        sure = YES
        if self.spoken:
            words = self.spoken.get(fact.object)
            if words is None:
                if fact.object not in self.open_classes:
                    return NO
                sure = MAYBE
            elif "" not in words and not any(word in fact.text for word in words):
                return NO
        if self.colours and fact.colour not in self.colours:
            return NO
        if self.filters.confidence is not None and fact.confidence < self.filters.confidence:
            return NO
        return sure if not self._places or self._at_place(fact.text, fact.kind, kinds) else NO

    def _is_at_place(self, text: str, kind: str, kinds: tuple[str, ...]) -> bool:
        return any(place.holds(text, kind, kinds) for place in self._places)


def _objects_of(word: str, known: set[str]) -> dict[str, str]:
    """The objects that a word stands for, to a word that their sentences must hold: "dog" of an "animal".

    Raises `SearchError` where it is no word, and none of the `known` objects of the records.
    """
    name = OBJECT_WORDS.get(word.lower(), word.lower())
    if name in GROUPS:
        return dict.fromkeys(GROUPS[name], "")
    if name in ANIMALS:
        return {name: "", "animal": name}
    return {_check_known("object", name, word, {*NOUNS, *GROUPS, *ANIMALS, *known}): ""}


def _open_classes_of(words: Iterable[str]) -> dict[str, str]:
    """The open classes that these objects may be recorded as, to the objects: vehicle to "car or van"."""
    names = dict.fromkeys(OBJECT_WORDS.get(word.lower(), word.lower()) for word in words)
    asked = {each for name in names for each in (name, *GROUPS.get(name, ()))}
    meant = {
        name: " or ".join(each for each in names if each in kinds) for name, kinds in OPEN_CLASSES.items()
    }
    return {name: objects for name, objects in meant.items() if objects and name not in asked}


def _colour_in(text: str) -> str:
    """The colour of what a sentence is about, empty where none is named."""
    match = _COLOURED.search(text.lower())
    return COLOURS[match[1] or match[2]] if match else ""


def _colour_of(word: str) -> str:
    """The colour that a word means; raises `SearchError`."""
    return COLOURS[_check_known("colour", word.lower(), word, COLOURS)]


def _kind_of(word: str) -> str:
    """The kind of change that a word means; raises `SearchError`."""
    return _check_known("kind of change", word.lower().replace("-", "_").replace(" ", "_"), word, KINDS)


def _check_known(what: str, name: str, word: str, names: set[str] | dict[str, Any]) -> str:
    if name not in names:
        raise SearchError(f"no {what} is called {word!r}; there are {', '.join(sorted(names))}")
    return name
