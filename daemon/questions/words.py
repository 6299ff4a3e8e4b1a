"""The words of questions and filters, and what they mean in the records.

They are listed here and not taken from `models`, which would load torch; a test compares the two.
"""

from __future__ import annotations

import re

from daemon.questions.errors import SearchError

NOUNS = {
    "person": "person persons people pedestrian pedestrians man men woman women boy boys girl girls child "
    "children kid kids worker workers figure figures",
    "car": "car cars taxi taxis cab cabs suv suvs sedan sedans hatchback hatchbacks jeep jeeps",
    "van": "van vans minivan minivans ambulance ambulances",
    "bus": "bus buses coach coaches minibus minibuses",
    "truck": "truck trucks lorry lorries pickup pickups trailer trailers",
    "motorcycle": "motorcycle motorcycles motorbike motorbikes scooter scooters moped mopeds",
    "bicycle": "bicycle bicycles bike bikes",
    "cyclist": "cyclist cyclists biker bikers rider riders",
    "motorcyclist": "motorcyclist motorcyclists",
    "bottle": "bottle bottles",
    "umbrella": "umbrella umbrellas",
    "bag": "bag bags backpack backpacks suitcase suitcases",
    "furniture": "furniture chair chairs table tables bench benches",
    "cart": "cart carts stroller strollers pram prams",
    "box": "box boxes package packages parcel parcels",
    "shadow": "shadow shadows",
    "scene": "scene",
}
"""Object of the records to the nouns for it."""

GROUPS = {
    "vehicle": ("car", "van", "bus", "truck", "vehicle", "motorcycle"),
    "somebody": ("person", "cyclist", "motorcyclist"),
    "animal": ("animal", "dog", "cat", "bird", "horse"),
    "object": ("object", "something"),
}
"""Nouns that stand for several objects of the records."""

_GROUP_NOUNS = {
    "vehicle": "vehicle vehicles automobile automobiles traffic",
    "somebody": "somebody someone anybody anyone who",
    "animal": "animal animals",
    "object": "object objects item items",
}
ANIMALS = ("dog", "cat", "bird", "horse")
"""Some captioners call them so, others say "animal" in the record and the name in its text."""

COLOURS = {
    **{name: name for name in ("white", "black", "grey", "red", "blue", "green", "yellow", "orange")},
    "brown": "brown",
    "gray": "grey",
    "silver": "grey",
    "dark": "dark",
    "light": "light",
}
"""Word to the colour that is told; dark and light are said of clothes."""

KINDS = (
    *("appeared", "disappeared", "moved", "more", "fewer", "replaced", "unknown", "none", "light_changed"),
    *("view_changed", "obstructed", "cap_reached", "cap_ended"),
)
"""Kinds of change as records name them."""

CAME, LEFT = "came", "left"
"""Kinds that people mean: with a zone also who moved there, or away from there, within the picture."""

OBJECT_WORDS: dict[str, str] = {
    **{noun: name for name, nouns in NOUNS.items() for noun in nouns.split()},
    **{noun: name for name, nouns in _GROUP_NOUNS.items() for noun in nouns.split()},
    **{name + ending: name for name in ANIMALS for ending in ("", "s")},
}
"""Word to object or group."""

_NOUN = "|".join(sorted(OBJECT_WORDS, key=len, reverse=True))
_PAINT = "|".join(COLOURS)
_COLOURED = re.compile(rf"\b({_PAINT}) (?:[\w'-]+ )?(?:{_NOUN})\b")
_WORN = re.compile(
    r"\b(?:persons?|people|m[ae]n|wom[ae]n|pedestrians?|cyclists?|motorcyclists?|riders?)"
    rf" in ({_PAINT})(?: clothes)?(?![\w'-])"
)


def objects_of(word: str, known: set[str]) -> tuple[tuple[str, ...], str]:
    """What a word for an object means, where the records name the `known` ones.

    Returns:
        Objects of the records, and a word that a sentence about an "animal" must hold; mostly empty.

    Raises:
        SearchError: nobody knows the word.
    """
    name = word.lower()
    name = OBJECT_WORDS.get(name, name)
    if name in GROUPS:
        return GROUPS[name], ""
    if name in ANIMALS:
        return (name, "animal"), name
    if name in NOUNS or name in known:
        return (name,), ""
    names = ", ".join(sorted({*NOUNS, *GROUPS, *ANIMALS, *known} - {"scene"}))
    raise SearchError(f"no object is called {word!r}; there are {names}")


def colour_in(text: str) -> str:
    """The colour of what a sentence is about, empty where none is told."""
    lower = text.lower()
    found = _WORN.search(lower) or _COLOURED.search(lower)
    return COLOURS[found[1]] if found else ""


def colour_of(word: str) -> str:
    """The colour that a word means.

    Raises:
        SearchError: none.
    """
    if word.lower() not in COLOURS:
        raise SearchError(f"no colour is called {word!r}; there are {', '.join(sorted(set(COLOURS)))}")
    return COLOURS[word.lower()]


def kind_of(word: str) -> str:
    """The kind of change that a word means.

    Raises:
        SearchError: none.
    """
    name = word.lower().replace("-", "_").replace(" ", "_")
    if name not in (*KINDS, CAME, LEFT):
        raise SearchError(
            f"no kind of change is called {word!r}; there are {', '.join((CAME, LEFT, *KINDS))}"
        )
    return name
