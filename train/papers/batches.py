"""From samples and their features to the batches of one epoch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models.encoders.encoder import Encoder
from models.papers.pair_batch import PairBatch
from models.papers.vocabulary import Vocabulary, tokenize
from pipeline.changes import ChangeOptions
from train.papers.datasets import load_pairs
from train.papers.features import Features, sample_features
from train.papers.metrics.scores import DISTRACTORS, mentions_change
from train.progress import Count
from train.samples import Sample


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    samples: tuple[Sample, ...]  # one per pair, further annotators merged into it
    features: Features  # of the samples, by position
    # what can be trained on: position of the sample, and one annotator's sentences
    annotations: tuple[tuple[int, tuple[str, ...]], ...]
    skipped: int  # annotations that are not trained on because their pair has no cluster
    sha256: str  # hash (hex) of the annotation file and of the features
    # whether pairs without clusters are trained on as well, by a captioner that sees pairs as a whole
    whole: bool = False

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [tuple(s for annotation in sample.annotations for s in annotation) for sample in self.samples]


def load_split(
    folder: Path,
    split: str,
    encoder: Encoder,
    options: ChangeOptions,
    *,
    cache: Path,
    progress: Count | None = None,
    pairs: int | None = None,
    whole: bool = False,
    images: bool = False,
    masks: bool = True,
) -> Split:
    """Read a split and compute, or take from the cache, what a captioner sees of it.

    `pairs` are cut before anything is encoded; `whole`, `images` and `masks`: see `Captioner`.
    """
    samples = tuple(load_pairs(folder, split)[:pairs])
    features = sample_features(samples, encoder, options, cache, progress, images=images, masks=masks)
    annotated = [
        (position, sentences)
        for position, sample in enumerate(samples)
        for sentences in sample.annotations
        if any(tokenize(s) for s in sentences)
    ]
    annotations = tuple(each for each in annotated if whole or features.counts[each[0]])
    known = json.dumps([[asdict(s) | {"before": "", "after": ""} for s in samples], features.sha256])
    sha256 = hashlib.sha256(known.encode()).hexdigest()
    return Split(samples, features, annotations, len(annotated) - len(annotations), sha256, whole)


def epoch_batches(
    split: Split,
    vocabulary: Vocabulary,
    size: int,
    *,
    seed: int,
    epoch: int,
    max_words: int,
    drawn: bool = False,
    swapped: float = 0.0,
) -> Iterator[tuple[PairBatch, Tensor]]:
    """The annotations of a split in an order that seed and epoch alone decide, tokens int64 ``(B, T, L)``.

    `swapped`: of pairs whose scene was also seen without a change, the share 0..1 whose before frame is that
    other view, see `twins`.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(split.annotations)).tolist()
    if drawn:  # the first of each pair, in an order of chance
        first = {split.annotations[i][0]: i for i in reversed(order)}
        order = [i for i in order if first[split.annotations[i][0]] == i]
    twin = twins(split.samples) if swapped else {}
    turned = {i for i in order if rng.random() < swapped} if twin else set[int]()

    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        chosen = [split.annotations[i] for i in numbers]
        tokens = vocabulary.batch([sentences for _, sentences in chosen], max_words)
        positions = [position for position, _ in chosen]
        pairs = split.features.batch(positions, whole=split.whole)
        other = {
            row: twin[position]
            for row, (number, position) in enumerate(zip(numbers, positions, strict=True))
            if number in turned and position in twin
        }
        rows = [(split.samples[position], sentences) for position, sentences in chosen]
        changed = torch.tensor([mentions_change(sample, sentences) for sample, sentences in rows])
        yield replace(_seen_from(pairs, other, positions, split.features), changed=changed), tokens


def annotations_an_epoch(split: Split, *, drawn: bool) -> int:
    return len({position for position, _ in split.annotations} if drawn else split.annotations)


def twins(samples: Sequence[Sample]) -> dict[int, int]:
    """Distractors by the positions of pairs with the same before frame, and of their own.

    CLEVR-Change has three pictures of a scene: the default one, one in which something changed, and another
    view in which nothing did. The first is the before frame of both pairs.
    """
    views = {s.before: k for k, s in enumerate(samples) if s.kind in DISTRACTORS}
    changed = {s.before for s in samples if s.kind not in DISTRACTORS}
    return {k: views[s.before] for k, s in enumerate(samples) if s.before in views and s.before in changed}


def _seen_from(
    pairs: PairBatch, other: Mapping[int, int], positions: Sequence[int], features: Features
) -> PairBatch:
    """The batch, some rows with another view of the scene as before frame; a distractor's frames swap."""
    if not other:
        return pairs
    rows = list(other)
    views = features.batch([other[row] for row in rows], whole=True)
    own = torch.tensor([other[row] == positions[row] for row in rows])

    def turn(before: Tensor, after: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
        first, second = before.clone(), after.clone()
        first[rows] = view
        swap = [row for row, is_own in zip(rows, own.tolist(), strict=True) if is_own]
        second[swap] = before[swap]
        return first, second

    assert pairs.maps is not None and views.maps is not None  # noqa: S101, PT018 - features have maps
    pairs = replace(pairs, maps=turn(*pairs.maps, views.maps[1]))
    if pairs.before is None or pairs.after is None or views.after is None:
        return pairs
    before, after = turn(pairs.before, pairs.after, views.after)
    return replace(pairs, before=before, after=after)


def by_pair(split: Split) -> Split:
    """The split with all that is said of a pair as one annotation, so that every pair is looked at once."""
    sentences_of: dict[int, tuple[str, ...]] = {}
    for position, sentences in split.annotations:
        sentences_of[position] = (*sentences_of.get(position, ()), *sentences)
    return replace(split, annotations=tuple(sentences_of.items()))


def prior_features(split: Split) -> Tensor:
    """`PairBatch.features` of all clusters of a split, float32 ``(N, 4)``."""
    rows = range(len(split.samples))
    boxes = np.concatenate([split.features.boxes[i] for i in rows])
    active = np.concatenate([split.features.active[i] for i in rows])
    valid = torch.ones(1, len(boxes), dtype=torch.bool)
    clusters = (torch.from_numpy(boxes).unsqueeze(0), torch.from_numpy(active).unsqueeze(0), valid)
    return PairBatch(None, None, valid.view(1, -1, 1, 1), *clusters).features()[0]
