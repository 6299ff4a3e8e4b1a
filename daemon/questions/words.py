"""The words of questions and filters, and what they mean in the records; nouns are those of the sentences."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from daemon.questions.question import SearchError
from models import families
from models.language import templates
from pipeline.record_format import Action, ChangeType, Event

LEXICON: dict[str, Any] = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))


def by_word(section: str) -> dict[str, str]:
    """A section of the lexicon by its words: what each stands for."""
    return {word: meant for meant, words in LEXICON[section].items() for word in words.split("|")}


KIND_OF = by_word("verbs")
"""Verb to the kind of change, action or event."""

ANIMALS = ("dog", "cat", "bird", "horse")
"""Some captioners name them, others say "animal" in the record and the name in its text."""
GROUPS = {name: tuple(each.split("|")) for name, each in LEXICON["groups"].items()}
"""Nouns that stand for several objects of the records."""
OPEN_CLASSES = {"vehicle": ("car", "van", "bus", "truck"), "rider": ("cyclist", "motorcyclist")}
"""Object that records name where its kind was not sure, to what it may be."""
_SOMEBODY = ["somebody", "someone", "anybody", "anyone", "everybody", "everyone", "who"]
_EVERYTHING = ["something", "thing", "things", "group", "crowd"]

NOUNS = {
    name: [noun for noun in nouns.split() if noun not in (*_SOMEBODY, *_EVERYTHING)]
    for name, nouns in families.NOUNS.items()
    if name not in ("something", *GROUPS)
}
"""Object of the records to the nouns for it."""

OBJECT_WORDS: dict[str, str] = {
    **{noun: name for name, nouns in NOUNS.items() for noun in nouns},
    **dict.fromkeys(_SOMEBODY, "somebody"),
    **dict.fromkeys(families.NOUNS["vehicle"].split(), "vehicle"),
    **{name + ending: name for name in ANIMALS for ending in ("", "s")},
    **by_word("nouns"),
}
"""Word to object or group."""

COLOURS = {**{name: name for name in templates.CLOTHES}, "gray": "grey", "silver": "grey"}
"""Word to the colour in sentences; dark and light apply to clothes."""

CAME, LEFT = "came", "left"
"""Kinds that people mean: with a zone also what moved there, or away from there, within the picture."""
ARRIVALS, DEPARTURES = ("appeared", "more"), ("disappeared", "fewer")
WITHOUT = {kind: tuple(each.split("|")) for kind, each in LEXICON["lacking"].items()}
"""What a visit may have been without, to the kinds and actions of which it has no sentence then."""
_TYPES = get_args(ChangeType)
KINDS = dict.fromkeys((CAME, *_TYPES, *get_args(Event), *get_args(Action)))
"""Kinds of change, events and actions as records name them, and `CAME`."""

_NOUN, _PAINT = "|".join(sorted(OBJECT_WORDS, key=len, reverse=True)), "|".join(COLOURS)
_COLOURED = re.compile(
    r"\b(?:persons?|people|m[ae]n|wom[ae]n|pedestrians?|cyclists?|motorcyclists?|riders?)"
    rf" in ({_PAINT})(?: clothes)?(?![\w'-])|\b({_PAINT}) (?:[\w'-]+ )?(?:{_NOUN})\b"
)


def refuse_if(**holds: object) -> None:
    """Raise a `SearchError` of the first that holds; the lexicon has its reason by its name."""
    for name, what in holds.items():
        reason = LEXICON["refusals"][name]
        if what:
            raise SearchError(reason.format(what))


def objects_of(word: str, known: set[str]) -> tuple[tuple[str, ...], str]:
    """The objects that a word stands for, among the `known` ones of the records.

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
    return (_check_known("object", name, word, {*NOUNS, *GROUPS, *ANIMALS, *known}),), ""


def open_classes_of(words: Iterable[str]) -> dict[str, str]:
    """The open classes that these objects may be recorded as, to the objects: vehicle to "car or van"."""
    names = dict.fromkeys(OBJECT_WORDS.get(word.lower(), word.lower()) for word in words)
    asked = {each for name in names for each in (name, *GROUPS.get(name, ()))}
    meant = {
        name: " or ".join(each for each in names if each in kinds) for name, kinds in OPEN_CLASSES.items()
    }
    return {name: objects for name, objects in meant.items() if objects and name not in asked}


def colour_in(text: str) -> str:
    """The colour of what a sentence is about, empty where none is named."""
    match = _COLOURED.search(text.lower())
    return COLOURS[match[1] or match[2]] if match else ""


def colour_of(word: str) -> str:
    """The colour that a word means; raises `SearchError`."""
    return COLOURS[_check_known("colour", word.lower(), word, COLOURS)]


def kind_of(word: str) -> str:
    """The kind of change that a word means; raises `SearchError`."""
    return _check_known("kind of change", word.lower().replace("-", "_").replace(" ", "_"), word, KINDS)


def _check_known(what: str, name: str, word: str, names: set[str] | dict[str, Any]) -> str:
    if name not in names:
        raise SearchError(f"no {what} is called {word!r}; there are {', '.join(sorted(names))}")
    return name
