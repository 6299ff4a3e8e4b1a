"""Sentences: from the facts that are known to plain English.

`render(Statement("entered", "person", colour="dark", origin="right"))` is "A person in dark clothes has come
in from the right."
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from models.families import KINDS, PEOPLE, THINGS, VEHICLES
from models.language.catalogue import N_, NN_, _, ngettext
from models.language.places import DIRECTIONS

ACTIONS = (
    *("entered", "left", "appeared", "disappeared", "moved", "stopped", "resumed", "parked", "placed"),
    *("removed", "got_in", "got_out", "met", "waiting", "crossed", "opened", "closed"),
    *("lost", "present", "absent", "visible", "hidden"),
)
"""Actions of statements.

The last four are for stills only: "present" and "absent" of what has appeared, disappeared or moved,
"visible" and "hidden" of what may as well have been, or be, behind something.
"""

PAST = {
    "entered": NN_("came in"),
    "left": NN_("left"),
    "appeared": NN_("appeared"),
    "disappeared": NN_("disappeared"),
    "moved": NN_("moved"),
    "stopped": NN_("stopped"),
    "resumed": NN_("moved on"),
    "parked": NN_("parked"),
    "met": NN_("met"),
    "waiting": NN_("waited"),
    "crossed": NN_("crossed a line"),
    "opened": NN_("opened"),
    "closed": NN_("closed"),
    "lost": NN_("was lost from view"),
    "placed": NN_("was put down"),
    "removed": NN_("was taken"),
    "got_in": NN_("got into a vehicle"),
    "got_out": NN_("got out of a vehicle"),
}
"""What actions were, of one and of several."""
OTHERS = {
    "placed": N_("put down by"),
    "removed": N_("taken by"),
    "met": N_("met"),
    "got_in": N_("got into"),
    "got_out": N_("got out of"),
}
"""What the other track has to do with an action."""

COLOURS = (
    *(N_("white"), N_("black"), N_("grey"), N_("red"), N_("blue"), N_("green"), N_("yellow")),
    *(N_("orange"), N_("brown")),
)
"""The colours of vehicles."""
CLOTHES = (N_("dark"), N_("light"), *COLOURS)  # of people: "in dark clothes", "in red"
COUNTED = 3  # more are "several": in two pictures one of many is easily seen twice
_NUMBERS = N_("zero one two three four five six seven eight nine ten")
_UNITS = (
    (86400.0, N_("a day"), NN_("{number} day", "{number} days")),
    (3600.0, N_("an hour"), NN_("{number} hour", "{number} hours")),
    (60.0, N_("a minute"), NN_("{number} minute", "{number} minutes")),
)
_ALMOST = 0.92  # of a unit, from which a time is rounded up to it

_FROM = {
    "left": N_("from the left"),
    "right": N_("from the right"),
    "far": N_("from the background"),
    "near": N_("from the foreground"),
    "middle": N_("from the middle"),
}
_TO = {
    "left": N_("to the left"),
    "right": N_("to the right"),
    "far": N_("towards the background"),
    "near": N_("towards the camera"),
    "middle": N_("to the middle"),
}
_COURSE = {**_TO, "far": N_("to the background"), "near": N_("to the foreground")}
_CARRIED = THINGS - {"object"}  # somebody brings them in and takes them away
_RIDERS = ("cyclist", "motorcyclist", "rider")
_PAINTED = {
    False: NN_("{article} {colour} {noun}", "{colour} {noun}"),
    True: NN_("{article} large {colour} {noun}", "large {colour} {noun}"),
}
_ARTICLES = N_("the"), N_("another")
_WORN = {"dark": N_("{thing} in dark clothes"), "light": N_("{thing} in light clothes")}
_NUMBERED = {"a": N_("{number} {thing}"), "the": N_("the {number} {thing}")}
_NUMBERED |= {"another": N_("{number} other {thing}")}
_SEVERAL = {"a": N_("several {thing}"), "the": N_("several {thing}"), "another": N_("several other {thing}")}
_SAME_PLACE = {"far": ("background", "top edge"), "near": ("foreground", "bottom edge")}


@dataclass(frozen=True, slots=True)
class Statement:
    """The facts of one sentence."""

    action: str  # one of `ACTIONS`
    object: str  # one of `models.families.KINDS`
    count: int = 1
    several: bool = False  # leave the number open; `count` is more than one then
    colour: str = ""  # of a vehicle one of `COLOURS`, of people one of `CLOTHES`; of other objects none
    large: bool = False  # a large one: "large vehicle"
    # words for where it is, "on the left" or a zone's; where it was, if it left, disappeared, moved,
    # resumed or was removed; the line that was crossed, or the door
    place: str = ""
    end: str = ""  # words for where a moved one is now
    origin: str = ""  # left, right, far, near or middle: where it came from
    target: str = ""  # where it goes
    came_from: str = ""  # the same of its arrival, where it left or resumed: "who came in from the right"
    came_at: str = ""  # the time of day of its arrival: "10:02"
    # for how long it had been there when it left, resumed or was removed; of others, for how long it
    # stands, waits or is in company
    duration_s: float | None = None
    at_least: bool = False  # `duration_s` is only how long it was seen
    other: bool = False  # follows the same statement about another one
    among: bool = False  # the place does not identify it: "a car on the left has gone", not "the car"
    seen: bool = True  # of a door, that it was seen when it opened or closed


def render(statement: Statement) -> str:
    """The sentence, with a capital letter and a full stop; ValueError for an unknown action or object."""
    if statement.action not in ACTIONS or statement.count < 1:
        raise ValueError(f"no words for {statement.count} {statement.object} that {statement.action}")
    met = _conditions(statement)
    one, several = next(text for needs, text in _MESSAGES[statement.action] if met.issuperset(needs.split()))
    text = ngettext(one, several, statement.count).format_map(_fields(statement))
    text = " ".join(text.split()).replace(" ,", ",").replace(" .", ".")
    return f"{text[0].upper()}{text[1:]}"


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

    The article is a, the or another; `several` stands for the number, see `Statement`. ValueError for an
    unknown name.
    """
    if name not in KINDS:
        raise ValueError(f"no noun for {name!r}")
    if name == "object" and count == 1:
        return _("something else") if article == "another" else _("something")
    noun, nouns = (f"large {word}" if large else word for word in (name, KINDS[name].plural))
    painted = colour in COLOURS and name in VEHICLES
    lead = article_of(colour if painted and not large else noun) if article == "a" else article
    named = f"{lead} {noun}"  # of `noun_messages`
    thing = _(named) if count == 1 else ngettext(noun, nouns, count)
    if painted:
        bare = ngettext(name, KINDS[name].plural, count)
        message = ngettext(*_PAINTED[large], count)
        thing = message.format(article=_(lead), colour=_(colour), noun=bare, thing=thing)
    elif colour in CLOTHES and name in PEOPLE:
        thing = _(_WORN.get(colour, N_("{thing} in {colour}"))).format(thing=thing, colour=_(colour))
    if count == 1:
        return thing
    messages = _SEVERAL if several else _NUMBERED
    numbers = dict(enumerate(_(_NUMBERS).split()))
    return _(messages[article]).format(number=numbers.get(count, count), thing=thing)


def noun_messages() -> Iterator[tuple[str, ...]]:
    """The messages of nouns, which no call names in full: of one and several, and with their articles."""
    yield ("scene",)  # the object of records of the whole scene
    kinds = {name: kind.plural for name, kind in KINDS.items()} | {"large vehicle": "large vehicles"}
    for name, nouns in kinds.items():
        yield name, nouns
        yield from ((f"{article} {name}",) for article in (article_of(name), *_ARTICLES))


def article_of(words: str) -> str:
    return N_("an") if words[0] in "aeiou" else N_("a")


def duration(seconds: float, *, at_least: bool = False) -> str:
    """Such as "14 s", "a minute" or "3 hours"; what lasted at least so long is rounded down."""
    almost, whole = (1.0, math.floor) if at_least else (_ALMOST, round)
    unit = next((each for each in _UNITS if seconds >= almost * each[0]), None)
    if unit is None:
        return _("{number} s").format(number=max(whole(seconds), 1))
    length, one, several = unit
    number = whole(seconds / length)
    return _(one) if number == 1 else ngettext(*several, number).format(number=number)


def _fields(s: Statement) -> dict[str, str]:
    """What the messages of a sentence may name."""
    the, place, after, lasting = _subject(s, "a" if s.among else "the"), _where(s.place), "", ""
    arrived = N_("{the} who came in {origin}") if s.object in PEOPLE else N_("{the} that came in {origin}")
    origin = _(_FROM.get(s.came_from, ""))
    if s.came_at:
        origin = _("{origin} at {time}").format(origin=origin, time=s.came_at)
    if s.duration_s:
        length = duration(s.duration_s, at_least=s.at_least)
        later = N_(", after at least {length}") if s.at_least else N_(", after {length}")
        after, lasting = _(later).format(length=length), _("for {length}").format(length=length)
    return {
        "some": _subject(s, "a"),
        "the": the,
        "that": _(arrived if s.came_from else N_("{the} {place}")).format(
            the=the, place=place, origin=origin
        ),
        "place": place,
        "origin": _(_FROM.get(s.origin, "")),
        "target": _(_TO.get(s.target, "")),
        "course": f"{_(_FROM.get(s.origin, ''))} {_(_COURSE.get(s.target, ''))}",
        "now": _now(s),
        "after": after,
        "lasting": lasting,
    }


def _subject(s: Statement, article: str) -> str:
    article = "another" if s.other else article
    return noun_phrase(s.object, s.count, colour=s.colour, large=s.large, article=article, several=s.several)


def _where(words: str) -> str:
    """A place of the picture, or a line with its direction; the names of zones and lines stay as they are."""
    way = next((each for each in DIRECTIONS if words.endswith(each)), words)
    return words.removesuffix(way) + _(way)


def _now(s: Statement) -> str:
    """Where it is now: where it moved to, or came to by a side that says less."""
    came_there = any(word in s.place for word in _SAME_PLACE.get(s.origin, (s.origin,)))
    place = s.end if s.action == "moved" else "" if came_there else s.place
    now = ngettext("and is now {place}", "and are now {place}", s.count)
    return now.format(place=_where(place)) if place else ""


_MESSAGES: dict[str, tuple[tuple[str, tuple[str, str]], ...]] = {
    "entered": (
        ("origin carried", NN_("{some} has been brought in {origin} {now}.")),
        ("origin", NN_("{some} has come in {origin} {now}.")),
        ("in", NN_("{some} has arrived {place}.")),  # "has come in in the middle" is no English
        ("", NN_("{some} has come in {place}.")),
    ),
    "left": (
        ("carried", NN_("{that} has been taken away {target}{after}.")),
        ("target person", NN_("{that} has walked off {target}{after}.")),
        ("target ridden", NN_("{that} has ridden off {target}{after}.")),
        ("target driven", NN_("{that} has driven off {target}{after}.")),
        ("", NN_("{that} has left {target}{after}.")),
    ),
    "appeared": (("", NN_("{some} has appeared {place}.")),),
    "disappeared": (("", NN_("{that} has gone{after}.")),),
    "moved": (
        ("origin", NN_("{the} has moved {course} {now}.")),
        ("", NN_("{the} {place} has moved {course} {now}.")),
    ),
    "stopped": (
        ("origin", NN_("{some} has come in {origin} and stopped {place}.")),
        ("", NN_("{some} has stopped {place}.")),
    ),
    "resumed": (
        ("person", NN_("{that} has walked on {target}{after}.")),
        ("", NN_("{that} has set off {target}{after}.")),
    ),
    "parked": (
        ("origin", NN_("{some} has come in {origin} and parked {place}.")),
        ("", NN_("{the} {place} has parked.")),  # it was seen to stop
    ),
    "placed": (("", NN_("{some} has been put down {place}.")),),
    "removed": (("", NN_("{that} has been taken away{after}.")),),
    "got_in": (("", NN_("{some} has got into a vehicle {place}.")),),
    "got_out": (("", NN_("{some} has got out of a vehicle {place}.")),),
    "met": (
        ("duration_s", NN_("{some} have been standing together {place} {lasting}.")),
        ("", NN_("{some} have met {place}.")),
    ),
    "waiting": (
        ("people", NN_("{some} has been waiting {place} {lasting}.")),
        ("", NN_("{the} still stands {place}{after}.")),
    ),
    "crossed": (("", NN_("{some} has crossed {place}.")),),  # a line, with the direction
    "opened": (("seen", NN_("{place} has opened.")), ("", NN_("{place} is open."))),
    "closed": (("seen", NN_("{place} has closed{after}.")), ("", NN_("{place} is closed."))),
    "lost": (("", NN_("{that} was lost from view.")),),
    # true also where it came from elsewhere in the picture
    "present": (("place", NN_("{some} is now {place}.")), ("", NN_("there is now {some}."))),
    "absent": (("", NN_("{that} is no longer in the same place.")),),  # gone, or elsewhere in the picture
    "visible": (("", NN_("{some} is now visible {place}.")),),
    "hidden": (("", NN_("{that} is no longer visible there.")),),
}
"""Sentences by action, of one and several: the first of which all conditions hold, see `_conditions`."""


def _conditions(s: Statement) -> set[str]:
    """The fields of a statement that `_MESSAGES` asks for and that say something, and what its object is."""
    kinds = {
        "person": s.object == "person",
        "people": s.object in PEOPLE,
        "carried": s.object in _CARRIED,
        "ridden": s.object in _RIDERS,
        "driven": s.object in VEHICLES or s.object == "motorcycle",
        "in": s.place.startswith("in "),
    }
    known = {name for name in ("origin", "target", "place", "duration_s", "seen") if getattr(s, name)}
    return known | {name for name, is_so in kinds.items() if is_so}
