"""From facts about a change to one plain English sentence, and back: does a sentence tell these facts?"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from models.vocabulary import surface, tokenize
from models.wording import CLASSES, places_in, read

NOUNS: dict[str, tuple[tuple[str, str], ...]] = {
    "person": (("person", "people"),),
    "car": (("car", "cars"), ("vehicle", "vehicles")),
    "vehicle": (("vehicle", "vehicles"),),
    "van": (("van", "vans"),),
    "bus": (("bus", "buses"),),
    "truck": (("truck", "trucks"), ("lorry", "lorries")),
    "bicycle": (("bicycle", "bicycles"), ("bike", "bikes")),
    "cyclist": (("cyclist", "cyclists"),),
    "motorcycle": (("motorcycle", "motorcycles"), ("motorbike", "motorbikes")),
    "bottle": (("bottle", "bottles"),),
    "object": (("object", "objects"),),
}
"""Class to its nouns, singular and plural, the plain one first."""

PAINTED = frozenset({"car", "vehicle", "van", "bus", "truck"})
"""Classes whose colour is told: "a black person" would not be heard as what he wears."""

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
"""Beyond them are many."""

PLAIN_FORMS = {
    "appeared": "{a} {has} appeared {at}",
    "disappeared": "{the} {at} {is} gone",
    "moved": "{the} {at} {has} moved",
    "replaced": "{the} {at} {has} been replaced by {another}",
    "more": "there are more {many} {at}",
    "fewer": "there are fewer {many} {at}",
    "unknown": "{a} {has} changed {at}",
}
"""The plain wording of each type; ``{at}`` is the place or nothing."""

_DIFFERENT = "a different {one} is now {at}"
_DIFFERENT_ONES = {"person", "car", "van", "bus", "vehicle"}
"""Classes of which one is told as a different one; such words are read as new of any other."""

_PHRASE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9' -]*[A-Za-z0-9])?")
_LONGEST = 40
_BEFORE_A_PLACE = {
    *("above", "across", "along", "alongside", "among", "around", "at", "before", "behind", "below"),
    *("beneath", "beside", "between", "beyond", "by", "close", "down", "downstairs", "in", "indoors"),
    *("inside", "near", "next", "on", "opposite", "outdoors", "outside", "over", "past", "round"),
    *("through", "toward", "towards", "under", "underneath", "up", "upstairs", "within"),
}
"""First words of a phrase for a place."""

_UNNAMED = "object"
_READ_AS = {_UNNAMED: "something"}
"""The class that `models.wording` reads from a noun, where it is not called the same."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one sentence tells.

    Attributes:
        type: a key of `PLAIN_FORMS`.
        object: a key of `NOUNS`; "object" where the class is not known.
        count: how many, at least 1; of more and fewer it is not said.
        place: words for where it is, one of `models.places.PLACES` or a zone's phrase; empty for nowhere.
        colour: one of `models.wording.COLOURS`, or None where it is not sure. It is said of what is
            `PAINTED`; of replaced it is not said, because it would be unclear of which.
    """

    type: str
    object: str
    count: int
    place: str
    colour: str | None = None

    @property
    def said_colour(self) -> str | None:
        """The colour that a sentence tells."""
        return self.colour if self.object in PAINTED and self.type != "replaced" else None


def plain_sentence(facts: Facts) -> str:
    """The facts in plain words, such as "The two red cars on the left are gone" (with a full stop).

    Raises:
        ValueError: there are no words for the type or the object, or the count is below 1.
    """
    if facts.type not in PLAIN_FORMS or facts.object not in NOUNS:
        raise ValueError(f"no words for {facts.type} {facts.object}")
    if facts.count < 1:
        raise ValueError(f"a sentence tells at least one object, not {facts.count}")
    one, many = NOUNS[facts.object][0]
    number = NUMBERS[facts.count] if facts.count < len(NUMBERS) else "many"
    words = slots(one, many, None if facts.count == 1 else number, facts.said_colour)
    if facts.object == _UNNAMED and facts.count == 1:
        words |= {"a": "something", "the": "something", "another": "something else"}
    form = PLAIN_FORMS[facts.type]
    if facts.type == "replaced" and facts.count == 1 and facts.object in _DIFFERENT_ONES and facts.place:
        form = _DIFFERENT
    # A zone's name may hold capitals: the phrase is kept as it was written.
    return surface(form.format(**words, at=facts.place).split())


def slots(one: str, many: str, number: str | None = None, colour: str | None = None) -> dict[str, str]:
    """What goes into the braces of a form, but for the place.

    Args:
        one: the noun for one object.
        many: its plural.
        number: the words for how many, such as "two", "several" or "many"; None for one.
        colour: said before the noun.
    """
    before = f"{colour} " if colour else ""
    one, many = before + one, before + many
    if number is None:
        article = "an" if one[0] in "aeiou" else "a"
        return {
            "a": f"{article} {one}",
            "new": f"a new {one}",
            "the": f"the {one}",
            "one": one,
            "many": many,
            "another": "another one",
            "has": "has",
            "is": "is",
        }
    return {
        "a": f"{number} {many}",
        "new": f"{number} new {many}",
        "the": f"the {number} {many}" if number in NUMBERS else f"{number} {many}",
        "one": one,
        "many": many,
        "another": "others",
        "has": "have",
        "is": "are",
    }


def coloured(text: str, colour: str) -> str:
    """A sentence that says the colour of what it tells, "The red car on the left is gone.".

    Args:
        text: a sentence, not necessarily a plain one.
        colour: one of `models.wording.COLOURS`.

    Returns:
        The sentence as it was, where it tells nothing that is `PAINTED`, or a colour already.
    """
    told = read(text)
    if told.object not in PAINTED or told.type == "replaced" or told.colour:
        return text
    words = text.split()
    at = next((i for i, w in enumerate(words) if CLASSES.get(w.lower().strip(".,")) == told.object), 0)
    if at == 0:
        return text
    if words[at - 1].lower() in ("a", "an"):
        words[at - 1] = words[at - 1][0] + ("n" if colour[0] in "aeiou" else "")
    changed = " ".join([*words[:at], colour, *words[at:]])
    return changed if read(changed) == replace(told, colour=colour) else text


def agrees(text: str, facts: Facts) -> bool:
    """Whether a sentence tells these facts: type, object, how many, where and in which colour.

    It must tell the colour if there is one to tell, and else none. A number that the sentence
    leaves open ("several cars", "more people") is right for any count above one.
    """
    told = read(text)
    return (
        told.type == facts.type
        and told.object == _READ_AS.get(facts.object, facts.object)
        and told.colour == facts.said_colour
        and _count_agrees(told.count, facts)
        and _place_agrees(text, told.places, facts.place)
    )


def check_zone(phrase: str) -> None:
    """Whether a zone's name can stand in a sentence, "A car has appeared <name>.", and is read as a place.

    Raises:
        ValueError: it cannot; the message says what to write instead.
    """
    words = phrase.split()
    if not words or phrase != " ".join(words) or len(phrase) > _LONGEST or not _PHRASE.fullmatch(phrase):
        raise ValueError(f"write a few plain words without full stop, {_LONGEST} letters at most")
    if words[0].lower() not in _BEFORE_A_PLACE:
        raise ValueError(
            f'"A car has appeared {phrase}." is no sentence: write the words of the place as they are said, '
            '"at the entrance", "in the lot"'
        )
    for kind in PLAIN_FORMS:
        facts = Facts(kind, "car", 1, phrase)
        text = plain_sentence(facts)
        if not agrees(text, facts):
            told = read(text)
            raise ValueError(f'"{text}" would be read as {told.object} {told.type}: choose another name')


def _count_agrees(told: int, facts: Facts) -> bool:
    if facts.type in ("more", "fewer"):
        return told in (0, facts.count)
    return told == facts.count or (told == 0 and facts.count > 1)


def _place_agrees(text: str, told: frozenset[str], place: str) -> bool:
    """A place of the picture by its words, in any order; a zone by its own."""
    expected = places_in(place)
    verbatim = f" {' '.join(tokenize(place))} " in f" {' '.join(tokenize(text))} "
    return told == expected and (bool(expected) or verbatim or not place)
