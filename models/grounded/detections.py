"""Decoding: from the detector's answers in every cell to the detections of a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.boxes import overlaps
from models.detections import FAMILY, GROUPS, Detections
from models.families import CLASSES

STRIDES = (8, 16, 32, 64)
"""Pixels of the picture per cell of each level."""

BINS = 8
"""An edge lies 0 to 7 cells from a cell's middle."""

OVERLAP = 0.6
"""Two detections of one family that share this much (intersection over union) are one object."""

AT_ONCE = 100
"""Most detections of one picture, the surest ones."""

_MARGIN = 1e-3  # in logits, for the first sieve

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The detector's outputs for one picture in each of A cells, the finest level first.

    Attributes:
        cells: float32 ``(A, classes + 4 BINS)``: logits of the classes, then those of the distances from the
            cell's middle to left, top, right and bottom edge, in cells.
        maps: the neck's levels, float32 ``(96, h, w)`` each, finest first.
    """

    cells: Floats
    maps: tuple[Floats, ...]


def decode(answers: Answers, size: tuple[int, int], least: float) -> Detections:
    """The objects of a picture.

    Args:
        answers: the detector's.
        size: height and width of the picture in pixels, all of which the frame fills.
        least: least score.
    """
    logits = answers.cells[:, : len(CLASSES)]
    keep = np.flatnonzero(logits.max(1) >= math.log(least / (1 - least)) - _MARGIN)
    probability = 1 / (1 + np.exp(-logits[keep]))
    named = np.stack([probability[:, row].max(1, initial=0.0) for row in GROUPS], axis=1)
    best, label = named.max(1), named.argmax(1)
    order = np.argsort(-best, kind="stable")
    order = order[best[order] >= least][: 6 * AT_ONCE]
    box = boxes(answers, size, keep[order])
    rivals = (overlaps(box, box) > OVERLAP) & (FAMILY[label[order], None] == FAMILY[label[order]])
    rows = suppress(rivals)[:AT_ONCE]
    rows = rows[(box[rows, 2:] > 0).all(1)]
    box, order = box[rows], order[rows]
    return Detections(box, best[order], named[order], pool_features(answers.maps, box))


def boxes(answers: Answers, size: tuple[int, int], cells: NDArray[np.int64]) -> Floats:
    """The boxes ``(N, 4)`` of some cells, int64 ``(N,)``, cut at the edge of the picture."""
    height, width = size
    middle, stride = cells_of(tuple(level.shape[1:] for level in answers.maps))
    logits = answers.cells[cells, len(CLASSES) :].reshape(-1, 4, BINS)
    weight = np.exp(logits - logits.max(2, keepdims=True))
    far = (weight * np.arange(BINS, dtype=np.float32)).sum(2) / weight.sum(2) * stride[cells, None]
    edge = np.array([width, height], np.float32)
    low = ((middle[cells] - far[:, :2]) / edge).clip(0, 1)
    high = ((middle[cells] + far[:, 2:]) / edge).clip(0, 1)
    return np.concatenate([low, high - low], axis=1)


@lru_cache(maxsize=64)
def cells_of(levels: tuple[tuple[int, ...], ...]) -> tuple[Floats, Floats]:
    """Middles ``(A, 2)``, x and y in pixels of the picture, and strides ``(A,)`` of the cells of levels.

    Args:
        levels: their heights and widths.
    """
    middles, strides = list[Floats](), list[Floats]()
    for (height, width), stride in zip(levels, STRIDES, strict=True):
        rows, columns = ((np.arange(n, dtype=np.float32) + 0.5) * stride for n in (height, width))
        x, y = np.meshgrid(columns, rows)
        middles.append(np.stack([x.ravel(), y.ravel()], axis=1))
        strides.append(np.full(x.size, stride, np.float32))
    return np.concatenate(middles), np.concatenate(strides)


def suppress(rivals: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The rows int64 ``(M,)`` that stay when each that stays sends away those of its rivals after it.

    Args:
        rivals: bool ``(N, N)``.
    """
    table = np.triu(rivals, 1)
    gone = np.zeros(len(table), np.bool_)
    for i, row in enumerate(table):
        if not gone[i]:
            gone |= row
    return np.flatnonzero(~gone)


def pool_features(maps: Sequence[Floats], box: Floats) -> Floats:
    """Mean features of the finest two levels within boxes, each half of unit length.

    Args:
        maps: levels float32 ``(C, h, w)``, finest first.
        box: float32 ``(N, 4)`` in 0..1 of the picture.

    Returns:
        float32 ``(N, 2 C)``.
    """
    parts = []
    for level in maps[:2]:
        size = np.array(level.shape[:0:-1], np.float32)
        start = np.minimum((box[:, :2] * size).astype(np.int64), size.astype(np.int64) - 1)
        end = np.rint((box[:, :2] + box[:, 2:]) * size).astype(np.int64)
        end = np.minimum(np.maximum(end, start + 1), size.astype(np.int64))
        total = [
            level[:, top:bottom, left:right].sum((1, 2))
            for (left, top), (right, bottom) in zip(start.tolist(), end.tolist(), strict=True)
        ]
        parts.append(unit(np.array(total, np.float32).reshape(-1, len(level))))
    return np.concatenate(parts, axis=1)  # a mean's direction is its sum's


def unit(vectors: NDArray[np.floating]) -> Floats:
    """Vectors ``(..., D)`` of length 1, float32; nothing stays nothing."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), np.float32)
