"""The words of questions: what they mean in the records, how they are misspelt, and reading them in order."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from daemon.questions.question import DAY_NAMES, GROUPINGS, SearchError
from models import families
from models.language import templates

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
NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
PARTS = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (22, 30), "lunch": (12, 14)}
"""Hours of the parts of a day; a night ends on the next one."""
GROUPING_OF = {name.replace("-", " "): name for name in GROUPINGS if name != "kind"} | by_word("groupings")


def either(phrases: Iterable[str]) -> str:
    """The pattern of any of these phrases, the longest first."""
    return "|".join(map(re.escape, sorted(phrases, key=len, reverse=True))).replace(r"\ ", " ")


UNIT = either(GROUPING_OF)


def refuse_if(**holds: object) -> None:
    """Raise a `SearchError` of the first that holds; the lexicon has its reason by its name."""
    for name, what in holds.items():
        reason = LEXICON["refusals"][name]
        if what:
            raise SearchError(reason.format(what))


_TOKEN = re.compile(
    r'"[^"]*"|\d{4}[-/]\d\d[-/]\d\d|\d\d?\.\d\d?\.(?:\d{4}|\d\d)(?!\d)|\d\d?/\d\d?/(?:\d{4}|\d\d)(?!\d)|'
    r"\d\d?-\d\d?-\d{4}|\d\d?\.\d\d?\.(?!\d)|\d+(?:[:.]\d+)?|"
    r"(?<=\d)(?:am|pm|st|nd|rd|th)(?=-)|[^\W\d_](?:[\w-]*\w)?(?:'[^\W\d]+)?|\S"
)
_ISO = re.compile(r"(?<=\d)t(?=\d\d:\d\d)")
_SKIPPED = set("?!,;.:()")
_CURLY = str.maketrans({"\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"})
_NUMBERS = {name: n for n, name in enumerate(NUMBERS)}
_NUMBERS |= {"a": 1, "an": 1, "couple": 2, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3}
_NUMBERS |= {"fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "forty-five": 45, "fifty": 50}
_NUMBERS |= {"sixty": 60, "ninety": 90}
_UNIT_S = {"second": 1, "sec": 1, "s": 1, "minute": 60, "min": 60, "hour": 3600, "h": 3600}
_UNIT_S |= {"day": 86400, "week": 7 * 86400}
UNITS = "|".join([*_UNIT_S, "month", "year"])
_NUMBER, _UNIT = rf"\d+|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}", f"({'|'.join(_UNIT_S)})s?"
_PART_OF_UNIT = "(half)(?: an?)?|((?:an? )?quarter(?: of)?) an|(?:three|3) quarters of an"
_MOST = 10**6
T = TypeVar("T")

Rewrite = tuple[str, str, str]
"""Parts of words with a bar between them, one of which stands in all that match, so that few are compiled; a
pattern of whole words; and what is read in its place."""


@lru_cache(2048)  # the module's own cache holds 512
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})(?!\S)")


@dataclass(slots=True)
class Reading:
    """Lower-case words; `place` is the number of the next."""

    words: list[str]
    place: int = 0

    @classmethod
    def of(
        cls,
        question: str,
        rewrites: Iterable[Rewrite] = (),
        meant: Mapping[str, str] | None = None,
        spell: Callable[[str], str] = str,
    ) -> Reading:
        """Split a question; marks are left out, quoted text is one word.

        Args:
            question: as it was typed.
            rewrites: what is read in place of some words, one after another.
            meant: names in their patterns, and the pattern that each stands for.
            spell: gives what is read for a word.
        """
        results = _TOKEN.findall(_ISO.sub(" ", question.translate(_CURLY).lower()))
        text = " ".join(spell(word) for word in results if word not in _SKIPPED)
        outside = r'(?=[^"]*(?:"[^"]*"[^"]*)*$)' if '"' in text else ""  # of quoted words; slow to compile
        for cues, pattern, instead in rewrites:
            if any(cue in text for cue in cues.split("|")):
                for name, words in (meant or {}).items():
                    pattern = pattern.replace(name, words)  # noqa: PLW2901
                text = re.sub(rf"(?<![^ ])(?:{pattern})(?![^ ]){outside}", instead, text).strip()
        return cls(_TOKEN.findall(text))

    @property
    def next(self) -> str:
        """The next word, empty at the end."""
        return self.words[self.place] if self.place < len(self.words) else ""

    @property
    def rest(self) -> str:
        """All words that come next."""
        return " ".join(self.words[self.place :])

    @property
    def previous(self) -> str:
        """The word before, empty at the begin."""
        return self.words[self.place - 1] if self.place else ""

    def take(self, pattern: str) -> re.Match[str] | None:
        """Go past the next words if they begin with a match that ends where a word does."""
        match = _compiled(pattern).match(self.rest)
        if not match or not match[0]:
            return None
        self.place += len(_TOKEN.findall(match[0]))
        return match

    def first_of(self, *parts: Callable[[], T | None]) -> T | None:
        """What the first part reads that reads something; stay where none does."""
        begin = self.place
        for part in parts:
            if found := part():
                return found
            self.place = begin
        return None

    def words_from(self, begin: int) -> str:
        """The words from a place up to here."""
        return " ".join(self.words[begin : self.place])

    def take_number(self) -> int | None:
        """Go past digits or a number word; "a" and "an" are one, "a few" three.

        Raises `SearchError` where it is above a million.
        """
        if not (match := self.take(_NUMBER)):
            return None
        word = match[0]
        if word.isdecimal() and int(word) > _MOST:
            raise SearchError(f"{word} is too large a number")
        return int(word) if word.isdecimal() else _NUMBERS[word]

    def take_duration(self, *, recent: bool = False) -> timedelta | None:
        """Go past a length such as "10 min", "half an hour", "a day"; `recent` also "hour"."""
        begin, part = self.place, self.take(_PART_OF_UNIT)
        number = None if part else self.take_number()
        half = number is not None and self.take("and a half")
        unit = self.take(_UNIT)
        if not unit or (number is None and not part and not recent):
            self.place = begin
            return None
        count = (1 if number is None else number) + 0.5 * bool(half or self.take("and a half"))
        if part:
            count = 0.5 if part[1] else 0.25 if part[2] else 0.75
        return timedelta(seconds=_UNIT_S[unit[1]] * count)


_SPELT, _READ_AS = by_word("spelt"), by_word("read_as")
_ENDINGS = {"d": "", "ve": "", "re": " are", "m": " am"}
_WORD = re.compile("[a-z]+")
_SHORTEST, _LONG = 4, 6
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@cache
def _vocabulary() -> frozenset[str]:
    """All words that the grammar knows."""
    return _meant() | {*_WORD.findall(f"{LEXICON} {[*GROUPING_OF]}")}


@cache
def _meant() -> frozenset[str]:
    """The words that a slip may have made unknown."""
    lists = (*LEXICON["words"].values(), *KIND_OF, *OBJECT_WORDS, *COLOURS, *MONTHS, *PARTS, *DAY_NAMES)
    times = (
        "today yesterday weekend minutes hours months busiest quietest fewest longest shortest "
        "between since before after until"
    )
    return frozenset(_WORD.findall(" ".join((*lists, *NUMBERS, times))))


@dataclass
class Speller:
    """Mends words."""

    names: Callable[[], set[str]]  # gives more words that are known: of cameras and places
    mended: dict[str, str] = field(default_factory=dict)  # the words that were, and what was read for each

    def __call__(self, word: str) -> str:
        """What is read for a word: itself, unless it is unknown and one slip from exactly one known word."""
        stem, _, ending = word.partition("'")
        if ending in _ENDINGS:
            return f"{stem}{_ENDINGS[ending]}"
        if word in _SPELT:
            return _SPELT[word]
        if word in _READ_AS:
            self.mended[word] = _READ_AS[word]
            return _READ_AS[word]
        if word in _vocabulary() or len(word) < _SHORTEST or not _WORD.fullmatch(word):
            return word
        names = self.names()
        near = ({*_slips(word)} & _meant()) | ({*_slips(word, of_name=True)} & names)
        if word in names or len(near) != 1:
            return word
        self.mended[word] = near.pop()
        return self.mended[word]


def _slips(word: str, *, of_name: bool = False) -> Iterator[str]:
    """What a word may have been: with a letter more, two swapped, one less, or another in its place.

    The last two only of a long word, as short ones are near to many others.
    """
    yield from (word + letter for letter in _LETTERS)
    for n in range(1, len(word)):
        before, after = word[:n], word[n:]
        yield from (before + letter + after for letter in _LETTERS)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        if after[0] == before[-1]:
            yield before + after[1:]
        if len(word) >= _LONG + of_name:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in _LETTERS)
