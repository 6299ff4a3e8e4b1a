"""BLEU, ROUGE-L and CIDEr-D in Python: what pycocoevalcap computes, without it and without Java.

* BLEU (Papineni et al. 2002): clipped n-gram precisions of the whole set, with the brevity penalty of the
  closest reference lengths.
* ROUGE-L (Lin 2004): the F measure of longest common subsequences, beta 1.2, of the best precision and the
  best recall over the references of a pair.
* CIDEr-D (Vedantam et al. 2015): cosine of clipped tf-idf vectors of 1- to 4-grams with a Gaussian penalty of
  length, sigma 6, times 10. Document frequencies are those of the references, so that scores of subsets do
  not compare. As in the field's code the "length" is the number of word pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Tokens = Sequence[str]
_Grams = Counter[tuple[str, ...]]
_Vector = dict[tuple[str, ...], float]

MOST = 4
"""The longest n-grams."""

_SMALL, _TINY = 1e-9, 1e-15
_BETA_SQUARE = 1.2**2
_SIGMA = 6.0


@dataclass(frozen=True, slots=True)
class Overlap:
    """Scores of a set of captions.

    Attributes:
        bleu: BLEU-1..4 of the set, 0..1.
        rouge_l: ROUGE-L, mean over pairs, 0..1.
        cider: CIDEr-D, mean over pairs, 0..10.
        pair_cider: of each pair.
    """

    bleu: tuple[float, float, float, float]
    rouge_l: float
    cider: float
    pair_cider: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Tfidf:
    """A caption's vectors of 1..4-grams, their lengths, and how many word pairs it has."""

    vectors: tuple[_Vector, ...]
    norms: tuple[float, ...]
    pairs: int


class References:
    """The references of a set of pairs, prepared once so that many predictions can be scored."""

    def __init__(self, references: Sequence[Sequence[Tokens]]) -> None:
        """Count what scores need.

        Args:
            references: per pair at least one tokenised caption.

        Raises:
            ValueError: a pair has none, or there are no pairs.
        """
        if not references or any(not each for each in references):
            raise ValueError("every scored pair needs at least one reference sentence")
        self._texts = [[tuple(text) for text in texts] for texts in references]
        counted = [[_grams(text) for text in texts] for texts in self._texts]
        self._most = [_union(each) for each in counted]
        documents = Counter(gram for most in self._most for gram in most)
        self._log_pairs = math.log(len(references))
        self._log_documents = {gram: math.log(n) for gram, n in documents.items()}
        self._tfidf = [[self._vectors(grams) for grams in each] for each in counted]

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def words(self) -> int:
        """How many words there are in all of them."""
        return sum(len(text) for texts in self._texts for text in texts)

    def score(self, predicted: Sequence[Tokens]) -> Overlap:
        """Score one tokenised caption per pair.

        Raises:
            ValueError: there is not one per pair.
        """
        if len(predicted) != len(self):
            raise ValueError(
                f"{len(predicted)} texts cannot be scored against the references of {len(self)} pairs"
            )
        counted = [_grams(text) for text in predicted]
        rouge = [_rouge_l(text, texts) for text, texts in zip(predicted, self._texts, strict=True)]
        cider = tuple(
            self._cider(self._vectors(grams), own) for grams, own in zip(counted, self._tfidf, strict=True)
        )
        return Overlap(
            self._bleu(predicted, counted),
            sum(rouge) / len(rouge),
            sum(cider) / len(cider),
            cider,
        )

    def cider_of_all(self, text: Tokens) -> float:
        """CIDEr-D of one tokenised caption that is said about every pair."""
        said = self._vectors(_grams(text))
        return sum(self._cider(said, own) for own in self._tfidf) / len(self)

    def _bleu(
        self, predicted: Sequence[Tokens], counted: Sequence[_Grams]
    ) -> tuple[float, float, float, float]:
        said = sum(len(text) for text in predicted)
        gold = sum(
            min((abs(len(r) - len(text)), len(r)) for r in texts)[1]
            for text, texts in zip(predicted, self._texts, strict=True)
        )
        right = [0] * MOST
        for grams, most in zip(counted, self._most, strict=True):
            for gram, n in grams.items():
                right[len(gram) - 1] += min(n, most.get(gram, 0))
        guessed = [sum(max(len(text) - k, 0) for text in predicted) for k in range(MOST)]
        ratio = (said + _TINY) / (gold + _SMALL)
        brevity = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
        product, scores = 1.0, []
        for k in range(MOST):
            product *= (right[k] + _TINY) / (guessed[k] + _SMALL)
            scores.append(product ** (1 / (k + 1)) * brevity)
        return scores[0], scores[1], scores[2], scores[3]

    def _vectors(self, grams: _Grams) -> _Tfidf:
        vectors: tuple[_Vector, ...] = tuple({} for _ in range(MOST))
        squares, pairs = [0.0] * MOST, 0
        for gram, n in grams.items():
            k = len(gram) - 1
            weight = n * (self._log_pairs - self._log_documents.get(gram, 0.0))
            vectors[k][gram] = weight
            squares[k] += weight * weight
            pairs += n if k == 1 else 0
        return _Tfidf(vectors, tuple(math.sqrt(s) for s in squares), pairs)

    @staticmethod
    def _cider(said: _Tfidf, references: Sequence[_Tfidf]) -> float:
        total = 0.0
        for gold in references:
            penalty = math.exp(-((said.pairs - gold.pairs) ** 2) / (2 * _SIGMA**2))
            for mine, theirs, norm, other in zip(
                said.vectors, gold.vectors, said.norms, gold.norms, strict=True
            ):
                if norm and other:
                    shared = sum(min(w, theirs[g]) * theirs[g] for g, w in mine.items() if g in theirs)
                    total += penalty * shared / (norm * other)
        return 10.0 * total / (MOST * len(references))


def _grams(text: Tokens) -> _Grams:
    words = tuple(text)
    return Counter(words[i : i + n] for n in range(1, MOST + 1) for i in range(len(words) - n + 1))


def _union(counted: Sequence[_Grams]) -> _Grams:
    most = Counter(counted[0])
    for grams in counted[1:]:
        most |= grams
    return most


def _rouge_l(text: Tokens, references: Sequence[Tokens]) -> float:
    # No words count as one empty word, as in the field's code: silence matches a reference without words.
    said = list(text) or [""]
    lengths = [(_common(said, list(r) or [""]), max(len(r), 1)) for r in references]
    precision = max(n for n, _ in lengths) / len(said)
    recall = max(n / length for n, length in lengths)
    if precision == 0 or recall == 0:
        return 0.0
    return (1 + _BETA_SQUARE) * precision * recall / (recall + _BETA_SQUARE * precision)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for word in one:
        corner = 0
        for j, theirs in enumerate(other, 1):
            above = row[j]
            row[j] = corner + 1 if word == theirs else max(above, row[j - 1])
            corner = above
    return row[-1]
