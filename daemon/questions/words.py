"""The words of questions and filters, and what they mean in the records; nouns are those of the sentences."""

from __future__ import annotations

import re
from typing import get_args

from daemon.questions.errors import SearchError
from models.language import templates, wording
from pipeline.record_members import Action, Event, RecordSentence

ANIMALS = ("dog", "cat", "bird", "horse")
"""Some captioners name them, others say "animal" in the record and the name in its text."""
GROUPS = {
    "vehicle": ("car", "van", "bus", "truck", "vehicle", "motorcycle"),
    "somebody": ("person", "cyclist", "motorcyclist"),
    "animal": ("animal", *ANIMALS),
    "object": ("object", "something"),
}
"""Nouns that stand for several objects of the records."""
_SOMEBODY = ["somebody", "someone", "anybody", "anyone", "who"]
_EVERYTHING = ["something", "thing", "things", "group", "crowd"]

NOUNS = {
    name: [noun for noun in nouns.split() if noun not in (*_SOMEBODY, *_EVERYTHING)]
    for name, nouns in wording.NOUNS.items()
    if name not in ("something", *GROUPS)
}
"""Object of the records to the nouns for it."""

OBJECT_WORDS: dict[str, str] = {
    **{noun: name for name, nouns in NOUNS.items() for noun in nouns},
    **dict.fromkeys(_SOMEBODY, "somebody"),
    **dict.fromkeys(wording.NOUNS["vehicle"].split(), "vehicle"),
    **dict.fromkeys(("object", "objects", "item", "items"), "object"),
    **dict.fromkeys(("animal", "animals"), "animal"),
    **{name + ending: name for name in ANIMALS for ending in ("", "s")},
}
"""Word to object or group."""

COLOURS = {
    **{name: name for name in templates.COLOURS},
    "gray": "grey",
    "silver": "grey",
    "dark": "dark",
    "light": "light",
}
"""Word to the colour that is told; dark and light are said of clothes."""

_TYPES = get_args(RecordSentence.model_fields["type"].annotation)
KINDS = tuple(dict.fromkeys((*_TYPES, *get_args(Event), *get_args(Action))))
"""Kinds of change, events and actions as records name them."""
CAME, LEFT = "came", "left"
"""Kinds that people mean: with a zone also what moved there, or away from there, within the picture."""
ARRIVALS, DEPARTURES = ("appeared", "more"), ("disappeared", "fewer")

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
        SearchError: the word is not known.
    """
    name = OBJECT_WORDS.get(word.lower(), word.lower())
    if name in GROUPS:
        return GROUPS[name], ""
    if name in ANIMALS:
        return (name, "animal"), name
    if name in NOUNS or name in known:
        return (name,), ""
    names = ", ".join(sorted({*NOUNS, *GROUPS, *ANIMALS, *known} - {"scene"}))
    raise SearchError(f"no object is called {word!r}; there are {names}")


def colour_in(text: str) -> str:
    """The colour of what a sentence is about, empty where none is said."""
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
    if name not in (*KINDS, CAME):
        raise SearchError(f"no kind of change is called {word!r}; there are {', '.join((CAME, *KINDS))}")
    return name
