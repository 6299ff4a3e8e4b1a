"""Text scores by the field's scorer, pycocoevalcap, on its PTB tokens, of groups of pairs, and trivial rows.

CIDEr is CIDEr-D; it depends on the set of references, so that scores of subsets do not compare. METEOR needs
Java; SPICE needs Java and the CoreNLP 3.6.0 jars, which pycocoevalcap would download by itself: it is
computed only where they lie in its folder ``spice/lib`` already.

Changed and distractor pairs and each type of change are scored by themselves, with document frequencies of
their own references, as in the tables of Park et al. and Hosseinzadeh and Wang.
"""

from __future__ import annotations

import importlib.util
import random
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from models.papers.vocabulary import tokenize
from models.papers.wording import read
from train.papers.metrics.tokens import ptb_tokens
from train.samples import Sample

CONSTANT = "there is a person walking in the parking lot"
"""The constant sentence that scores like published DDLA on Spot-the-diff."""

CHANGED, DISTRACTOR = "changed", "distractor"

DISTRACTORS = frozenset({DISTRACTOR, "light", "shift", "view"})
"""Kinds of samples (`Sample.kind`) in which nothing changed that is worth a sentence."""

CLEVR_TYPES = ("color", "material", "add", "drop", "move")
"""Kinds of CLEVR-Change, whose pairs have one change each."""

_TOGETHER = {"more": "more or fewer", "fewer": "more or fewer"}

_CANDIDATES, _CANDIDATE_PAIRS = 20, 300
_SPICE_JAR = "lib/stanford-corenlp-3.6.0.jar"

Texts = Sequence[str]
References = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class TextScores:
    bleu: tuple[float, float, float, float]  # BLEU-1, -2, -3, -4 of the corpus, 0..1
    rouge_l: float  # ROUGE-L, mean over pairs, 0..1
    cider: float  # CIDEr-D, mean over pairs, 0..10 (papers print it times 1 or 100)
    pairs: int  # how many pairs were scored


def plain(value: Any) -> Any:
    """Scores as plain values for JSON, numbers rounded to 4 places."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def text_scores(predicted: Texts, references: References) -> TextScores:
    """Score one text per pair, which may be empty, against at least one reference of each.

    All is zero where there is no pair, or no reference with a word.
    """
    gold, predictions = _tokenize(predicted, references)
    if not any(text for texts in gold.values() for text in texts):
        return TextScores((0.0, 0.0, 0.0, 0.0), 0.0, 0.0, len(predicted))
    bleu, _ = Bleu(4).compute_score(gold, predictions, verbose=0)
    rouge, _ = Rouge().compute_score(gold, predictions)
    cider, _ = Cider().compute_score(gold, predictions)
    return TextScores((bleu[0], bleu[1], bleu[2], bleu[3]), float(rouge), float(cider), len(predicted))


def pair_ciders(predicted: Texts, references: References) -> NDArray[np.float64]:
    """CIDEr-D of every pair, float64 ``(N,)``; see `text_scores`."""
    return np.asarray(Cider().compute_score(*_tokenize(predicted, references))[1], np.float64)


def meteors(systems: Sequence[Texts], references: References) -> list[float] | None:
    """METEOR 1.5 of several systems, 0..1; None without Java.

    All in one run of the Java program, which takes seconds to read its paraphrases.
    """
    if shutil.which("java") is None:
        return None
    from pycocoevalcap.meteor.meteor import Meteor  # noqa: PLC0415 - starts Java

    scorer = Meteor()
    try:
        return [float(scorer.compute_score(*_tokenize(each, references))[0]) for each in systems]
    finally:
        scorer.meteor_p.stdout.close()
        scorer.meteor_p.stderr.close()


def spices(systems: Sequence[Texts], references: References) -> list[float] | None:
    """SPICE of several systems, 0..1; None without Java or the jars, see the head of this file."""
    result = importlib.util.find_spec("pycocoevalcap.spice")
    places = list(result.submodule_search_locations or ()) if result else []
    if shutil.which("java") is None or not any((Path(place) / _SPICE_JAR).is_file() for place in places):
        return None
    from pycocoevalcap.spice.spice import Spice  # noqa: PLC0415 - downloads where the jars are missing

    return [float(Spice().compute_score(*_tokenize(each, references))[0]) for each in systems]


BEST_CONSTANT = "best constant of train"


def trivial_captions(training: References, number: int) -> dict[str, list[str]]:
    """By name, what systems that look at no picture say about each pair; only a constant without training."""
    rows = {"constant": [CONSTANT] * number}
    if any(training):
        rows[BEST_CONSTANT] = [best_constant(training)] * number
        sentences = [s for pair in training for s in pair]
        drawn = random.Random(0).choices(sentences, k=number)  # noqa: S311 - no secret
        rows["random training caption"] = drawn
    return rows


def best_constant(training: References) -> str:
    """The frequent training sentence that, said of every training pair, gets the best CIDEr.

    At most 300 training pairs choose it, always the same ones.
    """
    pairs = [p for p in training if p]
    counts = Counter(" ".join(tokenize(s)) for p in pairs for s in p)
    frequent = sorted(counts, key=lambda s: (-counts[s], s))[:_CANDIDATES]
    if len(pairs) > _CANDIDATE_PAIRS:
        pairs = random.Random(0).sample(pairs, _CANDIDATE_PAIRS)  # noqa: S311 - no secret
    return max(frequent, key=lambda s: (float(pair_ciders([s] * len(pairs), pairs).mean()), s))


def sample_groups(sample: Sample) -> tuple[str, ...]:
    """The groups of a pair: changed or distractor, and the type if all its changes are of one.

    A pair of which neither the kind nor the changes are known is in no group.
    """
    if sample.changes:
        types = {_TOGETHER.get(change.type, change.type) for change in sample.changes}
        return (CHANGED, types.pop()) if len(types) == 1 else (CHANGED,)
    if not sample.kind:
        return ()
    if sample.kind in CLEVR_TYPES:
        return (CHANGED, sample.kind)
    return (CHANGED if mentions_change(sample, sample.sentences) else DISTRACTOR,)


def mentions_change(sample: Sample, sentences: Sequence[str]) -> bool:
    """True where a pair is no distractor: by how it was made, or else by its captions."""
    if sample.kind in DISTRACTORS:
        return False
    return bool(sample.changes) or any(read(sentence).type != "none" for sentence in sentences)


def group_scores(
    groups: Sequence[Sequence[str]], predicted: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, TextScores]:
    """Text scores of every group: changed, distractor, then the types by name."""
    names = sorted({name for own in groups for name in own}, key=lambda n: (n != CHANGED, n != DISTRACTOR, n))
    chosen = {name: [k for k, own in enumerate(groups) if name in own] for name in names}
    return {
        name: text_scores([predicted[k] for k in rows], [references[k] for k in rows])
        for name, rows in chosen.items()
    }


def length_ratio(predicted: Texts, references: References) -> float:
    """LenRatio of the paper: mean predicted tokens over mean gold tokens."""
    length = sum(len(tokenize(text)) for text in predicted)
    gold = sum(sum(len(tokenize(t)) for t in texts) / len(texts) for texts in references if texts)
    return length / gold if gold else 0.0


def _tokenize(predicted: Texts, references: References) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """References and predictions as pycocoevalcap takes them: tokens with spaces between, by pair."""
    if len(predicted) != len(references):
        raise ValueError(f"{len(predicted)} texts cannot be scored against {len(references)} pairs")
    if any(not texts for texts in references):
        raise ValueError("every scored pair needs at least one reference sentence")
    gold = {k: [" ".join(ptb_tokens(text)) for text in texts] for k, texts in enumerate(references)}
    return gold, {k: [" ".join(ptb_tokens(text))] for k, text in enumerate(predicted)}
