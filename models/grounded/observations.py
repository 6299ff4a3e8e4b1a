"""Observations: colours and features of detections, and whether each is a change."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.captioner import PairInput
from models.detections import FAMILY, Detections, overlaps, shared_areas
from models.families import first_of

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


EVIDENCE = (
    *("log odds of its score", "share of its name among its family's", "share of its box that differs"),
    *("share of its lower half that differs", "best score of its family there on the other side"),
    *("the same, weighted by overlap", "best score of another family there on the other side"),
    *("correlation of the two pictures there", "difference of the two pictures there"),
    *("likeness of the colours there", "log of its area", "log of its height", "touches the frame's edge"),
    *("share of it within a surer one of its family", "best overlap with a cluster"),
    *("share of the frame that differs", "how many of its family there are", "time between is known"),
    *("log of the time between", "person", "vehicle", "two wheels"),
)
"""Evidence about one observation, in the order of the columns."""

_CELLS = 12
_ALONG = (np.arange(_CELLS, dtype=np.float32) + 0.5) / _CELLS


@dataclass(frozen=True, slots=True, eq=False)
class ObservedPair:
    """A pair of stills with the observations of both sides, with their colours."""

    pair: PairInput
    sides: tuple[Detections, Detections]


@dataclass(frozen=True, slots=True, eq=False)
class ChangeClassifier:
    """Is an object on this side, and not the same one at the same place on the other?

    The detector answers each side by itself; the classifier weighs its answer against the other side's at the
    same place, the pixels that differ, and how alike the two pictures are there. Whether the object is
    elsewhere on the other side is for `models.grounded.association`. It is M small networks, each with the
    shapes of `train.grounded.change_classifier.Network`.

    Their answer is the mean of their log odds (Lakshminarayanan et al. 2017, "deep ensembles", over logits).
    """

    mean: NDArray[np.float64]  # of evidence, ``(M, len(EVIDENCE))``
    deviation: NDArray[np.float64]  # the same
    weights: tuple[NDArray[np.float64], ...]  # of the layers, ``(M, outputs, inputs)`` each
    biases: tuple[NDArray[np.float64], ...]  # ``(M, outputs)`` each

    def __call__(self, evidence: Floats) -> NDArray[np.float64]:
        """The probability ``(N,)`` that each is a change, of evidence ``(N, len(EVIDENCE))``."""
        x = ((evidence - self.mean[:, None]) / self.deviation[:, None]).clip(-5, 5)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.maximum(x @ weight.transpose(0, 2, 1) + bias[:, None], 0)
        logits = (x @ self.weights[-1].transpose(0, 2, 1) + self.biases[-1][:, None])[..., 0].mean(0)
        return np.asarray(1 / (1 + np.exp(-logits)))

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Self:
        layers = range(sum(name.endswith(".weight") for name in arrays))
        doubles = {name: each.astype(np.float64) for name, each in arrays.items()}
        weights, biases = (tuple(doubles[f"{n}.{part}"] for n in layers) for part in ("weight", "bias"))
        return cls(doubles["mean"], doubles["deviation"], weights, biases)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        found = {"mean": self.mean, "deviation": self.deviation}
        for n, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            found |= {f"{n}.weight": weight, f"{n}.bias": bias}
        return {name: each.astype(np.float32) for name, each in found.items()}


def evidence(observed: ObservedPair, side: int) -> Floats:
    """`EVIDENCE` of the N observations of one side, float32 ``(N, len(EVIDENCE))``."""
    pair, own, other = observed.pair, observed.sides[side], observed.sides[1 - side]
    n = len(own.box)
    if not n:
        return np.zeros((0, len(EVIDENCE)), np.float32)
    kind = own.family
    of_family = np.stack([(own.label * (family == FAMILY)).sum(1) for family in np.unique(kind)], axis=1)
    share = own.label.max(1) / np.maximum(of_family.max(1), 1e-6)
    shares = overlaps(own.box, other.box)
    alike = kind[:, None] == other.family
    there = (shares > 0.25) * other.score  # noqa: PLR2004 - about the same place
    differs = np.asarray(pair.masks.any(0), np.float32)
    changed = samples(differs, own.box, _ALONG, _ALONG)
    pixels = (samples(picture, own.box, _ALONG, _ALONG) for picture in pair.views)
    one, two = (each.mean(-1, dtype=np.float32) for each in pixels)
    opposite = colour_histograms(pair.views[1 - side], own.box)
    area = np.maximum(own.box[:, 2:].prod(1), 1e-6)
    known = not np.isnan(pair.gap_s)
    gap = np.log(max(pair.gap_s, 0.05)) if known else 0.0
    x, y, w, h = own.box.T
    edge = (x < 0.01) | (y < 0.01) | (x + w > 0.99) | (y + h > 0.99)  # noqa: PLR2004
    score = own.score.clip(0.01, 0.99)
    columns = [
        np.log(score / (1 - score)),
        share,
        changed.mean((1, 2)),
        changed[:, _CELLS // 2 :].mean((1, 2)),
        _most(there * alike),
        _most(there * alike * shares),
        _most(there * ~alike),
        _correlation(one, two),
        np.abs(one - two).mean((1, 2)) / 32,
        (own.colours * opposite).sum(1) / 4,
        np.log(area) / 2,
        np.log(np.maximum(h, 1e-3)),
        edge,
        _share_inside(own),
        _most(overlaps(own.box, pair.boxes)),
        differs.mean(),
        np.log((kind[:, None] == kind).sum(1)),
        known,
        gap / 3,
        *(kind == first_of(name) for name in ("person", "vehicle", "two-wheeler")),
    ]
    return np.stack([np.broadcast_to(each, (n,)) for each in columns], axis=1, dtype=np.float32)


def _most(values: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.asarray(values.max(1, initial=0.0))


def _share_inside(own: Detections) -> NDArray[np.floating]:
    """Share of each that lies within a surer one of its family."""
    part = shared_areas(own.box, own.box) / np.maximum(own.box[:, 2:].prod(1), 1e-9)[:, None]
    surer = (own.score > own.score[:, None]) & (own.family[:, None] == own.family)
    return _most(part * surer)


def _correlation(one: Floats, two: Floats) -> Floats:
    """Correlation of grey values ``(N, G, G)``; 0 where one of them is flat."""
    a, b = (v.reshape(len(v), -1) - v.mean((1, 2))[:, None] for v in (one, two))
    spread = np.square(a).mean(1) * np.square(b).mean(1)
    shared = (a * b).mean(1) / np.sqrt(np.maximum(spread, 1e-6))
    return np.where(spread > 16, shared, np.float32(0))  # noqa: PLR2004 - flat
