"""Words written otherwise: abbreviations, and known words that a slip of one letter made unknown."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from daemon.questions.local_time import DAY_NAMES
from daemon.questions.moments import MONTHS, PARTS
from daemon.questions.parts import UNIT
from daemon.questions.reading import NUMBERS
from daemon.questions.words import COLOURS, KIND_OF, LEXICON, OBJECT_WORDS, by_word

_SPELT, _READ_AS = by_word("spelt"), by_word("read_as")
_ENDINGS = {"d": "", "ve": "", "re": " are", "m": " am"}
_WORD = re.compile("[a-z]+")
_SHORTEST, _LONG = 4, 6
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@cache
def _vocabulary() -> frozenset[str]:
    """All words that the grammar knows."""
    return _meant() | {*_WORD.findall(f"{LEXICON} {UNIT}")}


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
