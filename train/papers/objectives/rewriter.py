"""False captions that look like true ones: the negatives of fine-grained difference aligning (FDA).

Yao, Wang and Jin 2022 rewrite a caption in three ways; their generator was never released, this is ours.

* **Retrieve**: a similar caption of another pair, by the cosine of TF-IDF vectors: the nearest of the
  training captions. One that says the same thing in other words would be no negative: where
  `models.papers.vocabulary` reads the same type, object, number, colour and places out of both, it is left
  out, and so is one that was also said about this pair.
* **Replace**: about half of the attribute words, at least one, each by another word of its kind
  (``lexicon.yaml``) that is not its synonym and that the captions use.
* **Confuse**: what the frames or the animals swap: animal1 and animal2, before and after, appeared and
  disappeared, more and fewer; in "the brown cube changed to green" the two colours; otherwise two attribute
  words of one kind within the caption.

Where a way gives too few, the next one fills in; last come captions of other pairs at random. A caption that
nothing changed has no attributes: all its negatives are captions of changes.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import yaml
from sklearn.feature_extraction.text import TfidfVectorizer

from models.papers.vocabulary import read, tokenize

Way = Literal["retrieve", "replace", "confuse", "other"]

NEAREST = 20  # captions that Retrieve draws from
_TRIES = 8
_LEXICON = yaml.safe_load(Path(__file__).with_name("lexicon.yaml").read_text(encoding="utf-8"))
KINDS: dict[str, list[str]] = _LEXICON["kinds"]
_KIND = {
    word: (kind, number)
    for kind, lines in KINDS.items()
    for number, line in enumerate(lines)
    for word in line.split()
}
_SAMENESS = re.compile(r"\b(?:differen\w+|same|identical|nothing|unchanged|change)\b")
_TURN = re.compile(rf"\b(?:{'|'.join(_LEXICON['turns'])})\b")


class Negative(NamedTuple):
    """A false caption, and how it was made ("other": one of another pair, at random)."""

    text: str
    way: Way


class Rewriter:
    def __init__(self, captions: Sequence[Sequence[str]]) -> None:
        pairs: dict[str, set[int]] = defaultdict(set)
        for pair, said in enumerate(captions):
            for caption in said:
                pairs[" ".join(tokenize(caption))].add(pair)
        pairs.pop("", None)
        if len(pairs) < 2:  # noqa: PLR2004 - a caption, and another one
            raise ValueError("negatives need at least two different training captions")
        self.texts, self._pairs = tuple(pairs), tuple(pairs.values())
        self._place = {text: k for k, text in enumerate(self.texts)}
        self._tfidf = TfidfVectorizer(tokenizer=str.split, token_pattern=None, smooth_idf=False)
        self._vectors = self._tfidf.fit_transform(self.texts)
        self._near: dict[str, tuple[int, ...]] = {}

    def negatives(
        self, caption: str, rng: np.random.Generator, each: int = 2, true: Collection[str] = ()
    ) -> list[Negative]:
        """Different false captions, `each` of every way as far as it goes, three times `each` in all."""
        text = " ".join(tokenize(caption))
        taken = {text, *(" ".join(tokenize(t)) for t in true)}
        results: list[Negative] = []
        ways: dict[Way, Callable[[str, np.random.Generator], str | None]]
        ways = {
            "confuse": self.confuse,
            "replace": self.replace,
            "retrieve": self.retrieve,
            "other": self._other,
        }
        for number, (way, rewrite) in enumerate(ways.items(), start=1):
            wanted = min(number, 3) * each  # what an earlier way could not give, this one makes up for
            for _ in range(_TRIES * each * (4 if way == "other" else 1)):
                if len(results) >= wanted:
                    break
                rewritten = rewrite(text, rng)
                if rewritten and rewritten not in taken:
                    taken.add(rewritten)
                    results.append(Negative(rewritten, way))
        return results

    def retrieve(self, caption: str, rng: np.random.Generator) -> str | None:
        """One of the nearest captions of another pair; None where there is none."""
        near = self._nearest(caption)
        return self.texts[near[int(rng.integers(len(near)))]] if near else None

    def replace(self, caption: str, rng: np.random.Generator) -> str | None:
        """With other attribute words; None where there is no attribute to replace."""
        words = caption.split()
        options = {k: self._others(word) for k, word in enumerate(words) if word in _KIND}
        places = [k for k, others in options.items() if others]
        if not places:
            return None
        chosen = rng.permutation(places)[: max(1, len(places) // 2)]
        for k in chosen:
            words[k] = options[k][int(rng.integers(len(options[k])))]
        return " ".join(words)

    def confuse(self, caption: str, rng: np.random.Generator) -> str | None:
        """With before and after, or the animals, swapped; None where nothing can be swapped."""
        for pair in _LEXICON["opposites"]:
            swapped = _swap(caption, *pair)
            if swapped != caption:
                return swapped
        words = caption.split()
        turn = _TURN.search(caption)
        start = len(caption[: turn.start()].split()) if turn else None
        kinds: dict[str, list[int]] = defaultdict(list)
        for k, word in enumerate(words):
            if word in _KIND:
                kinds[_KIND[word][0]].append(k)
        pairs = [pair for places in kinds.values() for pair in combinations(places, 2)]
        swaps = [(i, j) for i, j in pairs if _KIND[words[i]] != _KIND[words[j]]]
        swaps = [(i, j) for i, j in swaps if start is None or i < start <= j]
        if not swaps:
            return None
        i, j = swaps[0] if start is not None else swaps[int(rng.integers(len(swaps)))]
        words[i], words[j] = words[j], words[i]
        return " ".join(words)

    def _other(self, caption: str, rng: np.random.Generator) -> str | None:
        other = self.texts[int(rng.integers(len(self.texts)))]
        return None if _same_claim(caption, other) else other

    def _others(self, word: str) -> list[str]:
        kind, number = _KIND[word]
        lines = [line.split() for k, line in enumerate(KINDS[kind]) if k != number]
        return [other for line in lines for other in line if other in self._tfidf.vocabulary_]

    def _nearest(self, caption: str) -> tuple[int, ...]:
        if caption in self._near:
            return self._near[caption]
        scores = (self._vectors @ self._tfidf.transform([caption]).T).toarray()[:, 0]
        own = self._pairs[self._place[caption]] if caption in self._place else set()
        near: list[int] = []
        for k in np.argsort(-scores, kind="stable").tolist():
            if len(near) == NEAREST or scores[k] == 0:
                break
            if not (self._pairs[k] & own or _same_claim(caption, self.texts[k])):
                near.append(k)
        self._near[caption] = tuple(near)
        return self._near[caption]


def _same_claim(caption: str, other: str) -> bool:
    if caption == other:
        return True
    claim, second = read(caption), read(other)
    if claim.type == "none":  # "i can't tell any differences" is not always read as what it says
        return second.type == "none" or _SAMENESS.search(other) is not None
    return claim.type != "unknown" and claim == second


def _swap(text: str, left: str, right: str) -> str:
    swap = {left: right, right: left}
    # The longer first, so that a phrase within the other does not hide it.
    either = "|".join(re.escape(p) for p in sorted(swap, key=len, reverse=True))
    return re.sub(rf"\b(?:{either})\b", lambda found: swap[found[0]], text)
