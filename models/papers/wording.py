"""Parses a sentence into its claim: kind of change, object, number, place, colour; by a small lexicon.

All captioners' sentences are read this way, so that type and object of a narration agree with its text.
The patterns stand in `wording.yaml`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from models.families import NOUNS
from models.language.templates import COLOURS
from models.papers.vocabulary import tokenize

CLASSES = {noun: name for name, nouns in NOUNS.items() for noun in nouns.split()}

# Their first word is an object's name, but a place is meant.
_PLACE_NAME = re.compile(
    r"\b(?:car (?:park|lot)|bus (?:stop|lane|shelter|station)|(?:bike|bicycle) (?:rack|lane|stand|path)|"
    r"traffic (?:light|sign|signal|cone|island)|truck stop|taxi (?:rank|stand))s?\b"
)
_QUANTITY_OF = re.compile(r"\b(?:group|crowd)s? of\b")
# "near the red car": where the change is, not what changed.
_REFERENCE = re.compile(
    r"\b(?:near|by|beside|behind|under|against|between|past|around|next to|close to|in front of|at|on|in|"
    r"from|towards?) (?:the|an?|his|her|their|its|another|some) (?:\w+ )?$"
)

_LEXICON = yaml.safe_load(Path(__file__).with_name("wording.yaml").read_text(encoding="utf-8"))


def _pattern(*alternatives: str) -> re.Pattern[str]:
    text = re.sub(r"<(\w+)>", lambda part: _LEXICON["parts"][part[1]], "|".join(alternatives))
    return re.compile(rf"\b(?:{text})(?![\w'-])")


TYPES = [(each["kind"], _pattern(*each["patterns"])) for each in _LEXICON["kinds"]]
_LEFT = _pattern("<verb_left>")
_WHERE = [(name, _pattern(place)) for name, place in _LEXICON["places"].items()]

_COLOURS = {**{name: name for name in COLOURS}, "gray": "grey", "silver": "grey"}

_PLURALS = {"people", "men", "women", "children", "kids", "guys", "ladies", "traffic", "group", "crowd"}
_COUNTING = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: n for n, word in enumerate(_COUNTING, 1)} | {"both": 2, "couple": 2, "pair": 2}

_DIRECTIONS = ("left", "right", "middle", "background", "foreground", "camera")
# "to the left of the car" is a place.
_WAY = re.compile(
    rf"\b(from|to|towards?) the ({'|'.join(_DIRECTIONS)})\b(?! (?:of|side|half|edge|lane|corner))"
)


@dataclass(frozen=True, slots=True)
class Wording:
    """The claim of a sentence."""

    type: str  # appeared, disappeared, moved, more, fewer, replaced, none (nothing changed) or unknown
    object: str  # class of the first noun that is not part of a place, a key of `NOUNS`, or "unknown"
    count: int = 0  # how many of it; 0 where there are several without a number, or no object is named
    # where, of left, right, top, bottom, middle, near and far; empty where it names none. Of arrivals and
    # departures "from the left" and "to the right" are directions, not places.
    places: frozenset[str] = frozenset()
    colour: str | None = None  # of the object, one of `COLOURS`; None where it names none


def read(sentence: str) -> Wording:
    """Read a sentence; one without words claims that nothing changed."""
    text = " ".join(tokenize(sentence))
    if not text:
        return Wording("none", "unknown")
    kind = next((name for name, pattern in TYPES if pattern.search(text)), "unknown")
    where = places_in(_WAY.sub(" ", text) if kind in ("appeared", "disappeared") else text)
    bare = _PLACE_NAME.sub(" ", text)
    noun = _noun(bare)
    if noun is None:
        return Wording(kind, "unknown", 0, where)
    name = CLASSES[noun[0]]
    head = bare[: noun.start()].split()
    return Wording(
        kind,
        name,
        _count(noun[0], head),
        where,
        colour=next((_COLOURS[word] for word in reversed(head) if word in _COLOURS), None),
    )


def places_in(text: str) -> frozenset[str]:
    """The places that words name: left, right, top, bottom, middle, near, far; "has left" is none."""
    text = _LEFT.sub(" ", " ".join(tokenize(text)))
    return frozenset(name for name, pattern in _WHERE if pattern.search(text))


def _noun(text: str) -> re.Match[str] | None:
    """The noun that names what changed; in "a group of cars" the cars."""
    text = _QUANTITY_OF.sub(lambda match: " " * len(match[0]), text)
    nouns = [match for match in re.finditer(r"[\w'-]+", text) if match[0] in CLASSES]
    named = [match for match in nouns if not _REFERENCE.search(text[: match.start()])]
    return next(iter(named or nouns), None)


def _count(noun: str, head: list[str]) -> int:
    """The number nearest to the noun; without one, 1 of a singular and open of a plural."""
    numbers = (int(word) if word.isdecimal() else _NUMBERS.get(word, 0) for word in reversed(head))
    plural = noun in _PLURALS or (noun.endswith("s") and not noun.endswith("bus"))
    return next((n for n in numbers if n > plural), 0 if plural else 1)
