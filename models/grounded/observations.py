"""Colours and features of detections, by which one object is told from another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

FEATURES = 192  # numbers of `Detections.feature`

_HUES, _LIGHTS = 8, 8
_PART = _HUES + 1 + _LIGHTS
COLOUR_BINS = 2 * _PART  # numbers of `colour_histograms`

_GRID = (16, 8)  # rows and columns of the points at which a box is sampled
_VIVID = 0.25  # chroma 0..1 from which a hue counts in full


def colour_histograms(
    picture: NDArray[np.uint8], box: NDArray[np.floating], *, coarse: bool = False
) -> Floats:
    """Colours of the upper and the lower half of boxes, the middle weighing more than the rim.

    The picture is RGB ``(h, w, 3)``, boxes are ``(N, 4)`` in 0..1 of it; `coarse` takes 5 bits a channel, by
    a table: faster. They are float32 ``(N, COLOUR_BINS)``, each half's square roots of shares: 8 hues and
    grey, which sum to 1, and 8 steps of lightness, which sum to 1; so that a product of two is their
    Bhattacharyya coefficient.
    """
    rows, columns = ((np.arange(n) + 0.5) / n for n in _GRID)
    pixels = samples(picture, box, rows, columns)
    if coarse:
        red, green, blue = np.moveaxis(pixels.astype(np.int64) >> 3, -1, 0)
        shares = _table()[(red << 10) | (green << 5) | blue]
    else:
        shares = _shares(pixels.astype(np.float32) / 255)
    weight = np.exp(-4 * (columns - 0.5) ** 2) * np.exp(-2 * (rows[:, None] - 0.5) ** 2)
    half = (weight.reshape(2, -1) / weight[: _GRID[0] // 2].sum()).astype(np.float32)
    weighted = np.einsum("nhpb,hp->nhb", shares.reshape(len(box), *half.shape, _PART), half)
    return np.asarray(np.sqrt(weighted).reshape(len(box), COLOUR_BINS), np.float32)


@lru_cache(maxsize=1)
def _table() -> Floats:
    """`_shares` of every colour of 5 bits a channel, ``(32768, _PART)``."""
    steps = np.arange(32) / 31
    return _shares(np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3))


def _shares(pixels: NDArray[np.floating]) -> Floats:
    """Shares of 8 hues, grey and 8 steps of lightness of RGB 0..1 ``(..., 3)``: float32 ``(..., _PART)``."""
    red, green, blue = np.moveaxis(pixels, -1, 0)
    high, low = pixels.max(-1), pixels.min(-1)
    hue = np.arctan2(math.sqrt(3) * (green - blue), 2 * red - green - blue) / (2 * math.pi) % 1
    vivid = ((high - low) / _VIVID).clip(max=1)[..., None]
    apart = (hue[..., None] * _HUES - np.arange(_HUES) + _HUES / 2) % _HUES - _HUES / 2
    hues = (1 - np.abs(apart)).clip(min=0) * vivid
    lights = (1 - np.abs((high + low)[..., None] / 2 * (_LIGHTS - 1) - np.arange(_LIGHTS))).clip(min=0)
    return np.concatenate([hues, 1 - vivid, lights], axis=-1).astype(np.float32)


def samples(
    plane: NDArray[Any], box: NDArray[np.floating], rows: NDArray[np.floating], columns: NDArray[np.floating]
) -> NDArray[Any]:
    """A plane ``(h, w, ...)`` at R rows and C columns in 0..1 of each of N boxes: ``(N, R, C, ...)``."""
    height, width = plane.shape[:2]
    y = ((box[:, 1:2] + box[:, 3:] * rows) * height).astype(np.int64).clip(0, height - 1)
    x = ((box[:, :1] + box[:, 2:3] * columns) * width).astype(np.int64).clip(0, width - 1)
    return np.asarray(plane[y[:, :, None], x[:, None, :]])


def colour_likeness(one: Floats, two: Floats) -> tuple[NDArray[np.float64], ...]:
    """Bhattacharyya coefficients ``(S, T)`` of hues and of lightness, of the upper and of the lower half."""
    parts = ((0, _HUES + 1), (_HUES + 1, _PART), (_PART, _PART + _HUES + 1), (_PART + _HUES + 1, COLOUR_BINS))
    return tuple(one[:, a:b].astype(np.float64) @ two[:, a:b].T.astype(np.float64) for a, b in parts)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureEmbedding:
    """M linear embeddings of the detector's features, side by side."""

    weight: NDArray[np.float64]  # float64 ``(M, E, FEATURES)``
    bias: NDArray[np.float64]  # float64 ``(M, E)``

    def __call__(self, feature: Floats) -> Floats:
        """Unit vectors float32 ``(N, M E)`` of features ``(N, FEATURES)``."""
        each = [
            unit(feature.astype(np.float64) @ weight.T + bias)
            for weight, bias in zip(self.weight, self.bias, strict=True)
        ]
        return np.asarray(np.concatenate(each, axis=1) / len(each) ** 0.5, np.float32)


def pool_features(maps: Sequence[Floats], box: Floats) -> Floats:
    """Mean features of the finest two levels within boxes, each half of unit length, float32 ``(N, 2 C)``.

    Levels are float32 ``(C, h, w)``, finest first, boxes float32 ``(N, 4)`` in 0..1 of the picture.
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
