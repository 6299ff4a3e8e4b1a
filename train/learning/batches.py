"""From samples and their features to the batches of one epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models.captioner import Captioner, PairBatch
from models.encoders.encoder import Encoder
from models.language.vocabulary import Vocabulary, tokenize
from models.language.wording import read
from models.papers.nearest import Nearest
from models.papers.recurrent import WholePair
from pipeline.changes import ChangeOptions
from train.learning.distributed import ALONE, ProcessGroup
from train.learning.features import Features, sample_features
from train.progress import Count
from train.samples import Sample, load_samples

DISTRACTORS = frozenset({"distractor", "light", "nuisance", "shift", "view"})
"""Kinds of samples (`Sample.kind`) in which nothing changed that is worth telling."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """One split with what a captioner sees of it.

    Attributes:
        samples: one per pair, further annotators merged into it.
        features: of the samples, by position.
        annotations: what can be trained on: position of the sample, and one annotator's sentences.
        skipped: annotations that are not trained on because their pair has no cluster.
        sha256: hash (hex) of the annotation file and of the features.
        whole: whether pairs without clusters are trained on as well, by a captioner that sees pairs
            as a whole.
    """

    samples: tuple[Sample, ...]
    features: Features
    annotations: tuple[tuple[int, tuple[str, ...]], ...]
    skipped: int
    sha256: str
    whole: bool = False

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        """Per pair the sentences of all its annotators."""
        return [tuple(s for annotation in sample.annotations for s in annotation) for sample in self.samples]


def load_split(
    folder: Path,
    split: str,
    encoder: Encoder,
    options: ChangeOptions,
    *,
    cache: Path,
    progress: Count | None = None,
    leave_out: frozenset[str] = frozenset(),
    whole: bool = False,
    images: bool = False,
) -> Split:
    """Read a split and compute, or take from the cache, what a captioner sees of it.

    Args:
        folder: samples in the layout of `train.samples`.
        split: train, val or test.
        encoder: gives the maps.
        options: how clusters are found.
        cache: folder of the features.
        progress: told how many samples are ready.
        leave_out: cameras of which nothing is trained on, neither as scene nor pasted.
        whole: skip no pair for want of clusters, see `Captioner.whole`.
        images: keep the images beside the maps, see `Captioner.needs_images`.

    Raises:
        SampleError: the split cannot be read.
        FeatureError: an image cannot be read, or the cache cannot be written.
    """
    samples = tuple(load_samples(folder, split))
    features = sample_features(samples, encoder, options, cache, progress, images=images)
    annotated = [
        (position, sentences)
        for position, sample in enumerate(samples)
        if not leave_out & {sample.camera, *sample.sources}
        for sentences in sample.annotations
        if any(tokenize(s) for s in sentences)
    ]
    annotations = tuple(each for each in annotated if whole or features.counts[each[0]])
    digest = hashlib.sha256((folder / f"{split}.json").read_bytes())
    digest.update(features.sha256.encode())
    skipped = len(annotated) - len(annotations)
    return Split(samples, features, annotations, skipped, digest.hexdigest(), whole)


def epoch_batches(
    split: Split,
    vocabulary: Vocabulary,
    size: int,
    *,
    seed: int,
    epoch: int,
    max_words: int,
    group: ProcessGroup = ALONE,
) -> Iterator[tuple[PairBatch, Tensor]]:
    """The annotations of a split in an order that seed and epoch decide, `size` at a time.

    The order depends on nothing else, so that a resumed run sees what an uninterrupted one sees.

    Args:
        split: at least one annotation to train on.
        vocabulary: gives tokens.
        size: annotations in a batch; the last batch may be smaller.
        seed: of the run, not negative.
        epoch: not negative.
        max_words: longer sentences are cut.
        group: of processes that take their shares of every batch.

    Yields:
        The pairs and their tokens, int64 ``(B, T, L)``.
    """
    order = np.random.default_rng([seed, epoch]).permutation(len(split.annotations))
    for start in range(0, len(order), size):
        chosen = [split.annotations[i] for i in group.share(order[start : start + size].tolist())]
        tokens = vocabulary.batch([sentences for _, sentences in chosen], max_words)
        pairs = split.features.batch([position for position, _ in chosen], whole=split.whole)
        rows = [(split.samples[position], sentences) for position, sentences in chosen]
        changed = torch.tensor([_tells_change(sample, sentences) for sample, sentences in rows])
        yield replace(pairs, changed=changed), tokens


def by_pair(split: Split) -> Split:
    """The split with all that is said of a pair as one annotation, so that every pair is looked at once."""
    sentences_of: dict[int, tuple[str, ...]] = {}
    for position, sentences in split.annotations:
        sentences_of[position] = (*sentences_of.get(position, ()), *sentences)
    return replace(split, annotations=tuple(sentences_of.items()))


def tells_stories(captioner: Captioner) -> bool:
    """Whether it learns the sentences of an annotation as one, so that annotations must stay apart."""
    return isinstance(captioner, (WholePair, Nearest)) and captioner.joined


def _tells_change(sample: Sample, sentences: Sequence[str]) -> bool:
    """Whether a pair is no distractor: by how it was made or else by what is said of it."""
    if sample.kind in DISTRACTORS:
        return False
    return bool(sample.changes) or any(read(sentence).type != "none" for sentence in sentences)


def prior_features(split: Split) -> Tensor:
    """`PairBatch.features` of all clusters of a split, float32 ``(N, 4)``."""
    rows = range(len(split.samples))
    boxes = np.concatenate([split.features.boxes(i) for i in rows])
    active = np.concatenate([split.features.active(i) for i in rows])
    valid = torch.ones(1, len(boxes), dtype=torch.bool)
    clusters = (torch.from_numpy(boxes).unsqueeze(0), torch.from_numpy(active).unsqueeze(0), valid)
    return PairBatch(None, None, valid.view(1, -1, 1, 1), *clusters).features()[0]
