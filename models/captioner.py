"""What every captioner is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

Box = tuple[float, float, float, float]
"""``(x, y, width, height)`` in 0..1 of the frame."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence about one change.

    Attributes:
        text: English, starts with a capital letter, ends with a full stop.
        type: appeared, disappeared, moved, more, fewer, replaced, none or unknown.
        object: the class of the first object noun (person, car, ...), or "unknown".
        box: where, ``(x, y, width, height)`` in 0..1 of the frame; None where the captioner has none.
        salience: probability 0..1 under the alignment prior that this cluster is worth a sentence.
        confidence: 0..1, the geometric mean of the words' probabilities.
    """

    text: str
    type: str
    object: str
    box: Box | None
    salience: float
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    """B frame pairs as tensors, clusters padded to the largest K of the batch.

    Attributes:
        before, after: uint8 ``(B, 3, height, width)``, RGB, aligned; None where `maps` is given.
        masks: bool ``(B, K, mask height, mask width)``, the cluster masks.
        boxes: float32 ``(B, K, 4)``, ``x, y, width, height`` in 0..1.
        active: float32 ``(B, K)``, active pixels of each cluster as a share 0..1 of the frame.
        valid: bool ``(B, K)``, False for padding.
        maps: encoder features of before and after, float ``(B, C, 14, 14)`` each, where they are
            known already (the trainer's cache); otherwise None and `encode` computes them.
    """

    before: Tensor | None
    after: Tensor | None
    masks: Tensor
    boxes: Tensor
    active: Tensor
    valid: Tensor
    maps: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True, slots=True)
class DescribeOptions:
    """How a captioner chooses and words its sentences.

    Attributes:
        sentences: how many sentences per pair, if the number is given (the paper's T); None chooses
            by `min_salience` and `min_confidence`.
        max_sentences: at most this many.
        min_salience: a cluster is told if its prior is at least this share of the largest prior.
        min_confidence: a sentence is told if it is at least this confident.
        beam_size: 1 is greedy.
        max_words: longest sentence in words.
    """

    sentences: int | None = None
    max_sentences: int = 8
    min_salience: float = 0.35
    min_confidence: float = 0.0
    beam_size: int = 1
    max_words: int = 24
