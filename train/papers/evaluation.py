"""Evaluation of texts, and of a captioner on a split: text scores and correctness."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from models.captioner import DescribeOptions, Sentence
from models.detections import overlaps
from models.papers.captioner import WordCaptioner
from models.papers.ddla import Nearest
from models.papers.vocabulary import PAD, read, tokenize
from train.papers.batches import Split, by_pair
from train.papers.scores import (
    Ratio,
    claim,
    group_scores,
    length_ratio,
    plain,
    sample_groups,
    share,
    text_scores,
    truth_of,
    truth_ratios,
)
from train.samples import Sample

SILENCE = "there are no differences"
"""The text of a captioner that says nothing about a pair, where text is scored.

One that says in its own words that nothing changed is scored by these words, as the papers do.
"""

_AT_ONCE = 32
_Item = TypeVar("_Item")


class Evaluation(NamedTuple):
    """Figures, and what they are made of, see `train.papers.results.Result`.

    The figures are plain values: scores of the first sentence against all sentences of the pair (``single``,
    the paper's Table 4), by group of pairs as well (``groups``), and of T sentences, T given, joined, against
    each annotator's joined sentences (``multi``, Table 5); ``truth``, with the captioner's own number of
    sentences for no change; how many first sentences are ``distinct``; LenRatio (``length_ratio``); of
    captioners ``perplexity``, ``alignment`` (None where nothing is aligned) and ``without_clusters``, pairs
    about which nothing is said since nothing differs in them.
    """

    figures: dict[str, Any]
    single: tuple[str, ...]
    multi: tuple[str, ...] = ()
    nats: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    ratios: Mapping[str, Sequence[Sequence[float]]] = {}


def evaluate_texts(
    first: Sequence[str],
    gold: Sequence[Sequence[str]],
    groups: Sequence[Sequence[str]],
    *,
    whole: Sequence[str] = (),
    annotations: Sequence[Sequence[str]] = (),
    silent: Sequence[bool] | None = None,
) -> Evaluation:
    """Measure one sentence about each pair (`first`) by its references (`gold`), and by groups of pairs.

    `whole` are all sentences about each pair in one text, which `annotations` (each annotator's sentences in
    one text) are for; `silent`: of which pairs nothing is said; None reads it from the first sentence.
    """
    silent = [claim(text)[0] == "none" for text in first] if silent is None else silent
    ratios = truth_ratios(first, silent, gold)
    figures = {
        "single": text_scores(first, gold),
        "groups": group_scores(groups, first, gold),
        "truth": truth_of(ratios),
        "distinct": len(set(first)),
        "length_ratio": length_ratio(whole or first, annotations or gold),
        "multi": text_scores(whole, annotations) if whole else None,
    }
    own = {f"truth.{name}": each.round(4).tolist() for name, each in ratios.items()}
    return Evaluation(plain(figures), tuple(first), tuple(whole), ratios=own)


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
    (nats, tokens), aligned = likelihood(captioner, split), _alignment(captioner, split)
    figures = texts.figures | {
        "perplexity": round(perplexity(nats, tokens), 4) if tokens.any() else None,
        "alignment": None,
        "without_clusters": 0 if captioner.whole else int((split.features.counts == 0).sum()),
    }
    if aligned:
        shares = {name: share(each) for name, each in aligned.items()}
        figures["alignment"] = plain({"sentences": int(aligned["precision"][:, 1].sum()), **shares})
    ratios = {f"alignment.{name}": each.round(4).tolist() for name, each in aligned.items()}
    words = (tuple(nats.round(4).tolist()), tuple(tokens.tolist())) if tokens.any() else ((), ())
    return Evaluation(figures, texts.single, texts.multi, *words, {**texts.ratios, **ratios})


def perplexity(nats: NDArray[np.float64], tokens: NDArray[np.int64]) -> float:
    """Exponential of the nats per token, see `likelihood`; NaN where there is no token."""
    count = int(tokens.sum())
    return math.exp(min(float(nats.sum()) / count, 700.0)) if count else math.nan


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


def likelihood(captioner: WordCaptioner, split: Split) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """-log P(S_i | X) of the sentences about pairs with a cluster, summed, and their tokens, ``(N,)``.

    The pairs are the same for every captioner, also for one that sees pairs as a whole and could be asked
    about the others: perplexities of different sentences do not compare. A captioner that is certain of every
    word has none.
    """
    nats, tokens = np.zeros(len(split.samples)), np.zeros(len(split.samples), np.int64)
    if isinstance(captioner, Nearest):
        return nats, tokens
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
    return nats, tokens


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


def _alignment(captioner: WordCaptioner, split: Split) -> dict[str, Ratio]:
    """Right alignments, and those of a random cluster, of every pair; empty where nothing is aligned."""
    align = getattr(captioner, "alignment", None)  # DDLA's; not every captioner aligns
    worded = [(k, [c for c in sample.changes if c.sentence]) for k, sample in enumerate(split.samples)]
    known = [(k, changes) for k, changes in worded if changes and split.features.counts[k] > 1]
    if align is None:
        return {}
    found = {name: np.zeros((len(split.samples), 2)) for name in ("precision", "chance")}
    for some in _chunks(known):
        tokens = captioner.vocabulary.batch([[c.sentence for c in changes] for _, changes in some])
        chosen = align(split.features.batch([p for p, _ in some]), tokens).tolist()
        for (position, changes), row in zip(some, chosen, strict=True):
            boxes = np.asarray(split.features.boxes[position], np.float64)
            for change, cluster in zip(changes, row, strict=False):
                # The right cluster shares the most with either box of the change.
                own = [b for b in (change.box_before, change.box_after) if b]
                shared = overlaps(boxes, own).max(1, initial=0.0)
                if shared.max(initial=0) > 0 and cluster >= 0:
                    found["precision"][position] += cluster == shared.argmax(), 1
                    found["chance"][position] += 1 / len(boxes), 1
    return found if found["precision"][:, 1].any() else {}
