"""Evaluation of texts, and of a captioner on a split: text scores and correctness."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from models.boxes import Box, overlaps
from models.captioner import DescribeOptions, Sentence
from models.papers.captioner import WordCaptioner
from models.papers.nearest import Nearest
from models.papers.vocabulary import PAD, tokenize
from models.papers.wording import read
from train.papers.batches import Split, by_pair
from train.papers.metrics.scores import (
    TextScores,
    group_scores,
    length_ratio,
    plain,
    sample_groups,
    text_scores,
)
from train.papers.metrics.truth import Ratio, Truth, claim, share, truth_of, truth_ratios
from train.samples import Sample

SILENCE = "there are no differences"
"""The text of a captioner that says nothing about a pair, where text is scored.

One that says in its own words that nothing changed is scored by these words, as the papers do.
"""

_AT_ONCE = 32
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, eq=False)
class Likelihood:
    # -log P of all sentences about each pair, summed, float64 ``(N,)``; 0 where none counts
    nats: NDArray[np.float64]
    tokens: NDArray[np.int64]  # how many tokens that are, int64 ``(N,)``

    @property
    def perplexity(self) -> float:
        """Exponential of the nats per token; NaN where there is no token."""
        tokens = int(self.tokens.sum())
        return math.exp(min(float(self.nats.sum()) / tokens, 700.0)) if tokens else math.nan


@dataclass(frozen=True, slots=True)
class Evaluation:
    single: TextScores  # the first sentence against all sentences of the pair (the paper's Table 4)
    # scores in the single setting of changed and distractor pairs and of each type of change, where samples
    # know; each by its own references
    groups: Mapping[str, TextScores]
    truth: Truth  # correctness, with the captioner's own number of sentences for no change
    distinct: int  # how many different first sentences there are
    length_ratio: float  # LenRatio of all sentences
    # T sentences, T given, joined, against each annotator's joined sentences (Table 5)
    multi: TextScores | None = None
    # per token, under the marginal likelihood, of the pairs that have a cluster; None without
    perplexity: float | None = None
    # how often a gold sentence is aligned to the cluster that overlaps its box best: sentences counted (of
    # pairs with several clusters), precision, chance; None where no box is known or nothing is aligned
    alignment: Mapping[str, float] | None = None
    without_clusters: int = 0  # pairs about which nothing is said, since nothing differs in them
    # likelihood, ratios: what the perplexity and the shares are made of; first, whole: the texts that were
    # scored, one sentence and all of them. None of these is among the plain values
    likelihood: Likelihood | None = None
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON and training records."""
        left_out = ("likelihood", "ratios", "first", "whole")
        return {
            each.name: plain(getattr(self, each.name)) for each in fields(self) if each.name not in left_out
        }


def evaluate_texts(
    first: Sequence[str],
    gold: Sequence[Sequence[str]],
    groups: Sequence[Sequence[str]],
    *,
    whole: Sequence[str] = (),
    annotations: Sequence[Sequence[str]] = (),
    silent: Sequence[bool] | None = None,
) -> Evaluation:
    """Measure texts about pairs.

    Args:
        first: one sentence about each pair.
        gold: the reference sentences of each pair.
        groups: the groups of each pair, see `train.papers.metrics.scores`.
        whole: all sentences about each pair in one text.
        annotations: each annotator's sentences in one text, for `whole`.
        silent: of which pairs nothing is said; None reads it from the first sentence.
    """
    silent = [claim(text)[0] == "none" for text in first] if silent is None else silent
    ratios = truth_ratios(first, silent, gold)
    return Evaluation(
        single=text_scores(first, gold),
        groups=group_scores(groups, first, gold),
        truth=truth_of(ratios),
        distinct=len(set(first)),
        length_ratio=length_ratio(whole or first, annotations or gold),
        multi=text_scores(whole, annotations) if whole else None,
        ratios={f"truth.{name}": each for name, each in ratios.items()},
        first=tuple(first),
        whole=tuple(whole),
    )


def evaluate(captioner: WordCaptioner, split: Split, silence: str = SILENCE) -> Evaluation:
    """Measure a captioner on a split; `silence` is what saying nothing is scored as, see `silence_of`."""
    described = describe_pairs(captioner, split, lambda _: DescribeOptions())
    given = describe_pairs(captioner, split, lambda sample: _with_number(len(sample.sentences)))
    texts = evaluate_texts(
        single_sentences(captioner, split, silence),
        split.sentences,
        [sample_groups(sample) for sample in split.samples],
        whole=[" ".join(s.text for s in sentences) or silence for sentences in given],
        annotations=joined_annotations(split.samples),
        silent=[not sentences for sentences in described],
    )
    found, aligned = likelihood(captioner, split), _alignment(captioner, split)
    return replace(
        texts,
        perplexity=None if math.isnan(found.perplexity) else found.perplexity,
        alignment=_alignment_shares(aligned) if aligned else None,
        without_clusters=0 if captioner.whole else int((split.features.counts == 0).sum()),
        likelihood=found if found.tokens.any() else None,
        ratios={**texts.ratios, **{f"alignment.{name}": each for name, each in (aligned or {}).items()}},
    )


def joined_annotations(samples: Sequence[Sample]) -> list[list[str]]:
    """Per pair each annotator's sentences as one text."""
    return [[" ".join(annotation) for annotation in sample.annotations] for sample in samples]


def silence_of(training: Sequence[Sequence[str]]) -> str:
    """The training captions' most frequent sentence for no change; `SILENCE` where there is none.

    A captioner of clusters is silent where nothing differs, and would otherwise be scored by words that no
    annotator uses, while others have learnt theirs.
    """
    texts = Counter(" ".join(tokenize(s)) for one in training for s in one if read(s).type == "none")
    return min(texts, key=lambda text: (-texts[text], text)) if texts else SILENCE


def single_sentences(captioner: WordCaptioner, split: Split, silence: str = SILENCE) -> list[str]:
    """The one sentence about each pair: argmax of the prior; `silence` where there is none."""
    sentences_of = describe_pairs(captioner, split, lambda _: _with_number(1))
    return [sentences[0].text if sentences else silence for sentences in sentences_of]


def likelihood(captioner: WordCaptioner, split: Split) -> Likelihood:
    """-log P(S_i | X) of the sentences about the pairs that have a cluster.

    The pairs are the same for every captioner, also for one that sees pairs as a whole and could be asked
    about the others: perplexities of different sentences do not compare. A captioner that is certain of every
    word has none.
    """
    nats, tokens = np.zeros(len(split.samples)), np.zeros(len(split.samples), np.int64)
    if isinstance(captioner, Nearest):
        return Likelihood(nats, tokens)
    captioner.eval()
    if not captioner.joined:
        split = by_pair(split)
    asked = [each for each in split.annotations if split.features.counts[each[0]]]
    with torch.inference_mode():
        for some in _chunks(asked):
            words = captioner.vocabulary.batch([sentences for _, sentences in some])
            positions = [position for position, _ in some]
            pairs = split.features.batch(positions, whole=captioner.whole).to(captioner.device)
            found = captioner.log_likelihood(pairs, words.to(captioner.device))
            np.subtract.at(nats, positions, found.double().sum(dim=1).cpu().numpy())
            np.add.at(tokens, positions, (words != PAD).sum(dim=(1, 2)).numpy())
    return Likelihood(nats, tokens)


def _with_number(number: int) -> DescribeOptions:
    return DescribeOptions(sentences=number, max_sentences=number, no_change=True)


def describe_pairs(
    captioner: WordCaptioner, split: Split, options: Callable[[Sample], DescribeOptions]
) -> list[list[Sentence]]:
    """Sentences about every pair with its own options; none without clusters but of whole pairs."""
    described: list[list[Sentence]] = [[] for _ in split.samples]
    groups: dict[DescribeOptions, list[int]] = {}
    for position, sample in enumerate(split.samples):
        if captioner.whole or split.features.counts[position]:
            groups.setdefault(options(sample), []).append(position)
    for chosen, positions in groups.items():
        for some in _chunks(positions):
            predicted = captioner.describe(split.features.batch(some, whole=captioner.whole), chosen)
            for position, sentences in zip(some, predicted, strict=True):
                described[position] = sentences
    return described


def _chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def _alignment(captioner: WordCaptioner, split: Split) -> dict[str, Ratio] | None:
    """Right alignments, and those of a random cluster, of every pair; None where nothing is aligned."""
    align = getattr(captioner, "alignment", None)  # DDLA's; not every captioner aligns
    known = [
        (position, [c for c in sample.changes if c.sentence])
        for position, sample in enumerate(split.samples)
        if split.features.counts[position] > 1 and any(c.sentence for c in sample.changes)
    ]
    if align is None or not known:
        return None
    found = {name: np.zeros((len(split.samples), 2)) for name in ("precision", "chance")}
    for some in _chunks(known):
        tokens = captioner.vocabulary.batch([[c.sentence for c in changes] for _, changes in some])
        chosen = align(split.features.batch([p for p, _ in some]), tokens).tolist()
        for (position, changes), row in zip(some, chosen, strict=True):
            boxes = split.features.boxes[position]
            for change, cluster in zip(changes, row, strict=False):
                gold = _overlapping(boxes, [b for b in (change.box_before, change.box_after) if b])
                if gold is not None and cluster >= 0:
                    found["precision"][position] += cluster == gold, 1
                    found["chance"][position] += 1 / len(boxes), 1
    return found if found["precision"][:, 1].any() else None


def _alignment_shares(aligned: Mapping[str, Ratio]) -> dict[str, float]:
    shares = {name: share(each) or 0.0 for name, each in aligned.items()}
    return {"sentences": int(aligned["precision"][:, 1].sum()), **shares}


def _overlapping(clusters: NDArray[np.float32], boxes: Sequence[Box]) -> int | None:
    """The cluster ``(K, 4)`` whose box shares the largest intersection over union with any of the boxes."""
    best = overlaps(np.asarray(clusters, np.float64), boxes).max(1, initial=0.0)
    return int(best.argmax()) if best.max(initial=0) > 0 else None
