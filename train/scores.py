"""Text scores during training: BLEU, ROUGE-L and CIDEr-D on tokenised text, and the trivial rows beside them.

The scorers are pycocoevalcap's own pure-Python ones. Sentences are split by the project's tokeniser instead
of the PTB one, which starts a Java process: a few thousandths away from the published scale, far quicker.
CIDEr there is CIDEr-D; it depends on the set of references, so that scores of subsets do not compare.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from models.vocabulary import tokenize

CONSTANT = "there is a person walking in the parking lot"
"""The constant sentence that scores like published DDLA on Spot-the-diff."""

CANDIDATES = 20
CANDIDATE_PAIRS = 300


class MissingScorersError(RuntimeError):
    """The extra with the scorers is not installed."""


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
        MissingScorersError: pycocoevalcap is not installed.
    """
    if len(predicted) != len(references):
        raise ValueError(
            f"{len(predicted)} texts cannot be scored against the references of {len(references)} pairs"
        )
    if any(not r for r in references):
        raise ValueError("every scored pair needs at least one reference sentence")
    try:
        from pycocoevalcap.bleu.bleu import Bleu  # noqa: PLC0415 - only the extra `train` has it
        from pycocoevalcap.cider.cider import Cider  # noqa: PLC0415
        from pycocoevalcap.rouge.rouge import Rouge  # noqa: PLC0415
    except ImportError as error:
        raise MissingScorersError(
            "scores need pycocoevalcap: pip install 'narrated[train]' (in a checkout: pip install '.[train]')"
        ) from error
    gold = {i: [_spaced(text) for text in texts] for i, texts in enumerate(references)}
    said = {i: [_spaced(text)] for i, text in enumerate(predicted)}
    if not any(text for texts in gold.values() for text in texts):
        return TextScores((0.0, 0.0, 0.0, 0.0), 0.0, 0.0, len(predicted))
    bleu, _ = Bleu(4).compute_score(gold, said, verbose=0)
    rouge, _ = Rouge().compute_score(gold, said)
    cider, _ = Cider().compute_score(gold, said)
    b1, b2, b3, b4 = (float(b) for b in bleu)
    return TextScores((b1, b2, b3, b4), float(rouge), float(cider), len(predicted))


def trivial_rows(
    references: Sequence[Sequence[str]], training: Sequence[Sequence[str]], seed: int = 0
) -> dict[str, tuple[str, TextScores]]:
    """What systems that look at no picture score; every results table shows them.

    Args:
        references: sentences per scored pair.
        training: sentences per training pair.
        seed: of the random captions.

    Returns:
        Row name to its sentence ("" for the random row) and its scores.
    """
    rows = {"constant": (CONSTANT, text_scores([CONSTANT] * len(references), references))}
    if any(training):
        best = best_constant(training, seed)
        rows["best constant of train"] = (best, text_scores([best] * len(references), references))
        sentences = [s for pair in training for s in pair]
        drawn = random.Random(seed).choices(sentences, k=len(references))  # noqa: S311 - no secret
        rows["random training caption"] = ("", text_scores(drawn, references))
    return rows


def best_constant(training: Sequence[Sequence[str]], seed: int = 0) -> str:
    """The frequent training sentence that, said of every training pair, gets the best CIDEr.

    Only training pairs choose it (at most 300 of them, drawn with `seed`), so that it may be scored on
    validation and test pairs.

    Args:
        training: sentences per training pair, some of them not empty.
        seed: of the draw.
    """
    pairs = [p for p in training if p]
    counts = Counter(" ".join(tokenize(s)) for p in pairs for s in p)
    frequent = sorted(counts, key=lambda s: (-counts[s], s))[:CANDIDATES]
    if len(pairs) > CANDIDATE_PAIRS:
        pairs = random.Random(seed).sample(pairs, CANDIDATE_PAIRS)  # noqa: S311 - no secret
    return max(frequent, key=lambda s: (text_scores([s] * len(pairs), pairs).cider, s))


def length_ratio(predicted: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """LenRatio of the paper: mean predicted tokens over mean gold tokens.

    Args:
        predicted: one text per pair.
        references: gold texts per pair, each a whole annotation.
    """
    said = sum(len(tokenize(text)) for text in predicted)
    gold = sum(sum(len(tokenize(t)) for t in texts) / len(texts) for texts in references if texts)
    return said / gold if gold else 0.0


def _spaced(text: str) -> str:
    return " ".join(tokenize(text))
