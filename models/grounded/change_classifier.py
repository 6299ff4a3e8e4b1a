"""Change classifier: is an object on this side, and not the same one at the same place on the other?

The detector answers each side by itself; the classifier weighs its answer against the other side's at the
same place, the pixels that differ, and how alike the two pictures are there. Whether the object is elsewhere
on the other side is for `models.grounded.association`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.boxes import overlaps, shared_areas
from models.captioner import PairInput
from models.detections import FAMILY, Detections
from models.families import first_of
from models.grounded.observations import Floats, colour_histograms, samples

EVIDENCE = (
    "log odds of its score",
    "share of its name among its family's",
    "share of its box that differs",
    "share of its lower half that differs",
    "best score of its family there on the other side",
    "the same, weighted by overlap",
    "best score of another family there on the other side",
    "correlation of the two pictures there",
    "difference of the two pictures there",
    "likeness of the colours there",
    "log of its area",
    "log of its height",
    "touches the frame's edge",
    "share of it within a surer one of its family",
    "best overlap with a cluster",
    "share of the frame that differs",
    "how many of its family there are",
    "time between is known",
    "log of the time between",
    "person",
    "vehicle",
    "two wheels",
)
"""Evidence about one observation, in the order of the columns."""

_GRID = 12
_ALONG = (np.arange(_GRID, dtype=np.float32) + 0.5) / _GRID


@dataclass(frozen=True, slots=True, eq=False)
class ObservedPair:
    """A pair of stills with the observations of both sides, with their colours."""

    pair: PairInput
    sides: tuple[Detections, Detections]


@dataclass(frozen=True, slots=True, eq=False)
class ChangeClassifier:
    """M small networks, each with the shapes of `train.grounded.change_classifier.Network`.

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
    def of(cls, arrays: Mapping[str, NDArray[np.generic]]) -> ChangeClassifier:
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
        changed[:, _GRID // 2 :].mean((1, 2)),
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
