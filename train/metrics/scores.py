"""Text scores during training: BLEU, ROUGE-L and CIDEr-D, and the trivial rows beside them.

They are counted in Python on the PTB tokens of the field's scorer, and agree with it to 1e-4 (see
`train.metrics`). CIDEr is CIDEr-D; it depends on the set of references, so that scores of subsets do not
compare.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from models.language.vocabulary import tokenize
from train.metrics.overlap import References
from train.metrics.tokens import ptb_tokens

CONSTANT = "there is a person walking in the parking lot"
"""The constant sentence that scores like published DDLA on Spot-the-diff."""

CANDIDATES = 20
CANDIDATE_PAIRS = 300


@dataclass(frozen=True, slots=True)
class TextScores:
    """Agreement of predicted text with the references.

    Attributes:
        bleu: BLEU-1, -2, -3, -4 of the corpus, 0..1.
        rouge_l: ROUGE-L, mean over pairs, 0..1.
        cider: CIDEr-D, mean over pairs, 0..10 (papers print it times 1 or 100).
        pairs: how many pairs were scored.
    """

    bleu: tuple[float, float, float, float]
    rouge_l: float
    cider: float
    pairs: int

    def plain(self) -> dict[str, Any]:
        """As plain values, rounded to 4 places, for JSON and training records."""
        return {
            key: [round(x, 4) for x in value] if isinstance(value, tuple) else round(value, 4)
            for key, value in asdict(self).items()
        }


def text_scores(predicted: Sequence[str], references: Sequence[Sequence[str]]) -> TextScores:
    """Score one text per pair against the references of that pair.

    Args:
        predicted: one text per pair; an empty text is allowed and matches nothing.
        references: at least one text per pair, in the same order.

    Returns:
        The scores; all zero where nothing can be scored.

    Raises:
        ValueError: the numbers of pairs differ, or a pair has no reference.
    """
    if not references and not predicted:
        return TextScores((0.0, 0.0, 0.0, 0.0), 0.0, 0.0, 0)
    gold = References([[ptb_tokens(text) for text in texts] for texts in references])
    scores = gold.score([ptb_tokens(text) for text in predicted])
    if not gold.words:
        return TextScores((0.0, 0.0, 0.0, 0.0), 0.0, 0.0, len(predicted))
    return TextScores(scores.bleu, scores.rouge_l, scores.cider, len(predicted))


def trivial_rows(
    references: Sequence[Sequence[str]], training: Sequence[Sequence[str]]
) -> dict[str, tuple[str, TextScores]]:
    """What systems that look at no picture score; every results table shows them.

    Args:
        references: sentences per scored pair.
        training: sentences per training pair.

    Returns:
        Row name to its sentence ("" for the random row) and its scores.
    """
    rows = {"constant": (CONSTANT, text_scores([CONSTANT] * len(references), references))}
    if any(training):
        best = best_constant(training)
        rows["best constant of train"] = (best, text_scores([best] * len(references), references))
        drawn = random_captions(training, len(references))
        rows["random training caption"] = ("", text_scores(drawn, references))
    return rows


def random_captions(training: Sequence[Sequence[str]], number: int) -> list[str]:
    """Training sentences drawn at random, always the same ones.

    Args:
        training: sentences per training pair, some of them not empty.
        number: how many.
    """
    sentences = [s for pair in training for s in pair]
    return random.Random(0).choices(sentences, k=number)  # noqa: S311 - no secret


def best_constant(training: Sequence[Sequence[str]]) -> str:
    """The frequent training sentence that, said of every training pair, gets the best CIDEr.

    Only training pairs choose it (at most 300 of them, always the same ones), so that it may be scored on
    validation and test pairs.

    Args:
        training: sentences per training pair, some of them not empty.
    """
    pairs = [p for p in training if p]
    counts = Counter(" ".join(tokenize(s)) for p in pairs for s in p)
    frequent = sorted(counts, key=lambda s: (-counts[s], s))[:CANDIDATES]
    if len(pairs) > CANDIDATE_PAIRS:
        pairs = random.Random(0).sample(pairs, CANDIDATE_PAIRS)  # noqa: S311 - no secret
    gold = References([[ptb_tokens(s) for s in p] for p in pairs])
    return max(frequent, key=lambda s: (gold.cider_of_all(ptb_tokens(s)), s))


def length_ratio(predicted: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """LenRatio of the paper: mean predicted tokens over mean gold tokens.

    Args:
        predicted: one text per pair.
        references: gold texts per pair, each a whole annotation.
    """
    said = sum(len(tokenize(text)) for text in predicted)
    gold = sum(sum(len(tokenize(t)) for t in texts) / len(texts) for texts in references if texts)
    return said / gold if gold else 0.0
