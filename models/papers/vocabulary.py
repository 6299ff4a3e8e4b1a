"""Words, their numbers, and the claim of a sentence: kind of change, object, number, place, colour.

All captioners' sentences are read by one small lexicon, so that type and object of a narration agree with its
text. Its patterns stand in `wording.yaml`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from models.families import NOUNS
from models.language.templates import COLOURS

if TYPE_CHECKING:
    from torch import Tensor

PAD, BOS, EOS, UNK = range(4)  # padding, begin and end of sentence, a word not in the vocabulary
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")

_WORD = re.compile(r"[a-z0-9]+(?:['-][a-z0-9]+)*")
_CURLY = str.maketrans({"\u2019": "'", "\u2018": "'", "\u2010": "-", "\u2011": "-"})


def tokenize(sentence: str) -> list[str]:
    """Lower-case words without punctuation, as in the released Spot-the-diff annotations.

    Apostrophes and hyphens inside a word stay ("isn't", "double-decker").
    """
    return _WORD.findall(sentence.lower().translate(_CURLY))


def surface(words: Sequence[str]) -> str:
    """The sentence with its capital letter and full stop; empty for no words."""
    text = " ".join(words)
    return f"{text[0].upper()}{text[1:]}." if text else ""


class Vocabulary:
    """The words of a captioner: `words` by their tokens, of which the first four are `SPECIAL`."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words: tuple[str, ...] = (*SPECIAL, *words)
        self._tokens = {word: token for token, word in enumerate(self.words)}
        if len(self._tokens) != len(self.words):
            twice = [word for word, n in Counter(self.words).items() if n > 1]
            raise ValueError(f"the vocabulary has words twice: {twice[:5]}")
        odd = [word for word in words if tokenize(word) != [word]]
        if odd:
            raise ValueError(
                f"not single lower-case words: {odd[:5]}; make a vocabulary with Vocabulary.build"
            )

    @classmethod
    def build(cls, sentences: Iterable[str], min_count: int = 5) -> Vocabulary:
        """The words that occur at least `min_count` times (5: Jhamtani 2018, Table 1), by frequency."""
        counts = Counter(word for sentence in sentences for word in tokenize(sentence))
        frequent = sorted((-n, word) for word, n in counts.items() if n >= min_count)
        return cls([word for _, word in frequent])

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: str) -> list[int]:
        """Tokens of a sentence, ended by EOS; without BOS. Unknown words become UNK."""
        return [*(self._tokens.get(word, UNK) for word in tokenize(sentence)), EOS]

    def decode(self, tokens: Iterable[int]) -> list[str]:
        """The words up to the first EOS; padding and BOS are left out, UNK reads "<unk>"."""
        said = takewhile(lambda token: token != EOS, tokens)
        return [self.words[token] for token in said if token not in (PAD, BOS)]

    def batch(self, descriptions: Sequence[Sequence[str]], max_words: int | None = None) -> Tensor:
        """Sentences of B pairs as tokens int64 ``(B, T, L)``: words, EOS, padding; T, L >= 1.

        Sentences without words are left out, longer ones than `max_words` cut; a missing one is all padding.
        """
        import torch  # noqa: PLC0415 - words alone need none

        encoded = [[self.encode(s)[:-1][:max_words] for s in sentences] for sentences in descriptions]
        encoded = [[[*tokens, EOS] for tokens in pair if tokens] for pair in encoded]
        most = max((len(pair) for pair in encoded), default=0)
        longest = max((len(tokens) for pair in encoded for tokens in pair), default=0)
        tokens = torch.full((len(encoded), max(most, 1), max(longest, 1)), PAD, dtype=torch.int64)
        for b, pair in enumerate(encoded):
            for t, sentence in enumerate(pair):
                tokens[b, t, : len(sentence)] = torch.tensor(sentence)
        return tokens


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
