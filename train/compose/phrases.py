"""The grammar: from what a sentence claims to its wordings, and back: do these words claim that?

Verbs fit the object: people walk, vehicles drive, cyclists ride, animals run off, bags are put down.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from models.families import ANIMALS, PEOPLE, VEHICLES
from models.language.vocabulary import surface, tokenize
from models.language.wording import places_in, read
from train.compose.claims import COUNTED, Claims
from train.compose.verbs import FROM, TO, verbs_of

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
    "motorcyclist": (("motorcyclist", "motorcyclists"),),
    "animal": (("animal", "animals"),),
    "dog": (("dog", "dogs"),),
    "bag": (("bag", "bags"),),
    "bottle": (("bottle", "bottles"),),
    "object": (("object", "objects"),),
}
"""Class to its nouns, singular and plural, the plain one first."""

PAINTED = VEHICLES
"""Classes whose colour is told."""

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
"""Beyond them are several."""

_PHRASE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9' -]*[A-Za-z0-9])?")
_LONGEST = 40
_BEFORE_A_PLACE = {
    *("above", "across", "along", "alongside", "among", "around", "at", "before", "behind", "below"),
    *("beneath", "beside", "between", "beyond", "by", "close", "down", "downstairs", "in", "indoors"),
    *("inside", "near", "next", "on", "opposite", "outdoors", "outside", "over", "past", "round"),
    *("through", "toward", "towards", "under", "underneath", "up", "upstairs", "within"),
}
"""First words of a phrase for a place."""

_READ_AS = {"object": "something", **dict.fromkeys(ANIMALS, "animal")}
"""The class that `models.language.wording` reads from a noun, where it is not called the same."""


def plain_sentence(claims: Claims) -> str:
    """The first of the `wordings`, with a capital letter and a full stop."""
    return surface(wordings(claims)[0][0].split())  # a zone's name may hold capitals: they are kept


def wordings(claims: Claims, noun: int = 0) -> tuple[tuple[str, float], ...]:
    """Everything that may be said of claims, in lower case and without a full stop, the plain wording first.

    Args:
        claims: what is to be said.
        noun: which of the object's `NOUNS`; the last, where it has not as many.

    Returns:
        Sentences and how often people use them, as shares that sum to 1.

    Raises:
        ValueError: there are no words for the type or the object, or the count is below 1.
    """
    if claims.type not in _FORMS or claims.object not in NOUNS or claims.count < 1:
        raise ValueError(f"no words for {claims.count} {claims.object} that {claims.type}")
    nouns = NOUNS[claims.object]
    one, many = nouns[min(noun, len(nouns) - 1)]
    number = None if claims.count == 1 else NUMBERS[claims.count] if claims.count <= COUNTED else "several"
    words = slots(one, many, number, claims.look)
    if claims.object == "object" and number is None:
        words |= {"a": "something", "the": "something", "another": "something else"}
    if claims.among:
        words["the"] = words["a"]
    if claims.other:
        other = f"another {words['one']}" if number is None else f"{number} other {words['many']}"
        words |= {"a": other, "the": other}
    words |= {"at": claims.place, "who": "who" if claims.object in PEOPLE else "that"}
    words["whole"] = "{the} {at}".format(**words)
    if claims.waited and claims.type in ("disappeared", "moved"):
        stood = verbs_of(claims.object).stood
        stood = "were" if stood == "was" and number else stood
        words["whole"] = "{the} {who} {stood} {at} for {waited}".format(
            **words, stood=stood, waited=claims.waited
        )
    forms = _FORMS[claims.type](claims)
    if claims.other:
        forms = forms[:1]
    total = sum(share for _, share in forms)
    return tuple((" ".join(form.format(**words).split()), share / total) for form, share in forms)


def slots(one: str, many: str, number: str | None = None, look: str | None = None) -> dict[str, str]:
    """What goes into the braces of a form, but for the place.

    Args:
        one: the noun for one object.
        many: its plural.
        number: the words for how many, such as "two" or "several"; None for one.
        look: a colour, said before the noun; of people what they wear, said after it.
    """
    one, many = _dressed(one, look or ""), _dressed(many, look or "")
    if number is None:
        article = "an" if one[0] in "aeiou" else "a"
        return {
            "a": f"{article} {one}",
            "the": f"the {one}",
            "one": one,
            "many": many,
            "another": "another one",
            "has": "has",
            "is": "is",
            "stands": "stands",
        }
    return {
        "a": f"{number} {many}",
        "the": f"the {number} {many}" if number in NUMBERS else f"{number} {many}",
        "one": one,
        "many": many,
        "another": "others",
        "has": "have",
        "is": "are",
        "stands": "stand",
    }


def _dressed(noun: str, look: str) -> str:
    if not look:
        return noun
    if noun.removesuffix("s") in ("people", *PEOPLE):
        return f"{noun} in {look}{' clothes' if look in ('dark', 'light') else ''}"
    return f"{look} {noun}"


Forms = tuple[tuple[str, float], ...]


def _appeared(claims: Claims) -> Forms:
    verbs, place = verbs_of(claims.object), claims.place
    start = FROM[claims.origin] if claims.origin else ""
    stays = f" and {{has}} been there for {claims.waited}" if claims.waited else ""
    if claims.manner in ("came in", "arrived"):
        ways = [f"{come} in" for come in verbs.come] if claims.manner == "came in" else ["arrived"]
        # "has come in in the middle" is not English, and of two places one is where it is now.
        direct = not start and not (place.startswith("in") and claims.manner == "came in")
        at = "" if direct or not place else "{at}"
        tail = f" and {{is}} now {at}" if at else ""
        if claims.rests:
            at = at or "there"
            tail = (
                f" and {{has}} stood {at} for {claims.waited}" if claims.waited else f" and {{stands}} {at}"
            )
        return _even(
            [f"{{a}} {{has}} {way} {start or (place and direct and '{at}') or ''}{tail}" for way in ways]
        )
    if claims.manner in ("stopped", "parked"):
        comma = "," if start and stays else ""
        come = [f"{way} in {start} and " for way in verbs.come] if start else [""]
        return _even([f"{{a}} {{has}} {way}{claims.manner} {{at}}{comma}{stays}" for way in come])
    if claims.manner == "put down":
        return (("{a} {has} been put down {at}" + stays, 1.0),)
    if stays:
        return (("{a} {has} appeared {at}" + stays, 1.0),)
    plain = ("{a} {has} appeared {at}", 0.65), ("there {is} now {a} {at}", 0.25)
    return (*plain, ("{a} {is} now {at}", 0.1)) if place else plain


def _disappeared(claims: Claims) -> Forms:
    if claims.manner == "taken away":
        return (("{whole} {has} been taken away", 1.0),)
    if claims.manner == "left":
        off, end = verbs_of(claims.object).off, f" {TO[claims.target]}" if claims.target else ""
        leaves = claims.object in PEOPLE | VEHICLES and claims.target != "left"
        ways = [*off, "left"] if leaves else list(off)
        if claims.object == "person" and not end:
            ways.reverse()  # "has left" is plainer
        return _even([f"{{whole}} {{has}} {way}{end}" for way in ways])
    return (
        ("{whole} {has} gone", 0.4),
        ("{whole} {is} gone", 0.2),
        ("{whole} {has} disappeared", 0.2),
        ("{whole} {is} no longer there", 0.2),
    )


def _moved(claims: Claims) -> Forms:
    if claims.manner in ("closer", "further"):
        return (
            ("{whole} {has} " + ("come closer" if claims.manner == "closer" else "moved further away"), 1.0),
        )
    end = {"far": "to the background", "near": "to the foreground"}.get(
        claims.target, TO.get(claims.target, "")
    )
    course = f"{FROM.get(claims.origin, '')} {end}".strip()
    subject, verb = "{whole}", verbs_of(claims.object).on if claims.seen else "moved"
    if claims.manner == "crossed":
        verb = "crossed"
    tail = f" and {{is}} now {claims.end}" if claims.end else ""
    if claims.manner in ("stopped", "parked"):
        there = claims.end or ("there" if course else "")
        tail = f" and {claims.manner} {there}"
    plain = f"{subject} {{has}} {verb} {course}{tail}"
    if course or tail:
        return ((plain, 1.0),)
    return (plain, 0.75), ("{whole} {has} changed position", 0.25)


def _replaced(claims: Claims) -> Forms:
    plain = ("{the} {at} {has} been replaced by {another}", 0.7)
    if claims.count > 1 or claims.object == "object":
        return (plain,)
    return plain, ("another {one} has taken the place of {the} {at}", 0.3)


def _more(_: Claims) -> Forms:
    return (
        ("there are more {many} {at}", 0.6),
        ("there are now more {many} {at}", 0.2),
        ("more {many} are {at}", 0.2),
    )


def _fewer(_: Claims) -> Forms:
    return ("there are fewer {many} {at}", 0.8), ("there are now fewer {many} {at}", 0.2)


def _unknown(_: Claims) -> Forms:
    return (("{a} {has} changed {at}", 1.0),)


_FORMS = {
    "appeared": _appeared,
    "disappeared": _disappeared,
    "moved": _moved,
    "replaced": _replaced,
    "more": _more,
    "fewer": _fewer,
    "unknown": _unknown,
}


def _even(forms: Sequence[str]) -> Forms:
    """The plain form in half of all cases, the others alike."""
    rest = 0.5 / max(len(forms) - 1, 1)
    return tuple((form, 0.5 if n == 0 else rest) for n, form in enumerate(forms))


def tells(words: str, claims: Claims) -> bool:
    """Whether words claim just this: type, object, how many, how, where from, where to and how it looks.

    A number that the sentence leaves open ("several cars", "more people") is right for any above one.
    """
    told = read(words)
    looks = told.colour if claims.object not in PEOPLE else told.clothes
    return (
        told.type == claims.type
        and told.object == _READ_AS.get(claims.object, claims.object)
        and (claims.object not in ANIMALS or claims.object in " ".join(tokenize(words)))
        and (looks or "") == claims.look
        and not (told.colour and told.clothes)
        and (told.manner, told.origin, told.target) == (claims.manner, claims.origin, claims.target)
        and (told.rests, told.waited) == (claims.rests, claims.waited)
        and _count_agrees(told.count, claims)
        and _places_agree(words, told.places, claims)
    )


def _count_agrees(told: int, claims: Claims) -> bool:
    if claims.type in ("more", "fewer"):
        return told in (0, claims.count)
    return told == claims.count or (told == 0 and claims.count > 1)


def _places_agree(words: str, told: frozenset[str], claims: Claims) -> bool:
    """A place of the picture by its words, in any order; a zone by its own."""
    expected = places_in(claims.place) | places_in(claims.end)
    if claims.type == "moved":
        expected |= {name for name in (claims.origin, claims.target) if name}
    said = f" {' '.join(tokenize(words))} "
    named = (place for place in (claims.place, claims.end) if place and not places_in(place))
    return told == expected and all(f" {' '.join(tokenize(place))} " in said for place in named)
