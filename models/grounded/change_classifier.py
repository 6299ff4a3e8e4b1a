"""Change classifier: is an object on this side, and not the same one at the same place on the other?

The detector answers each side by itself; the classifier weighs its answer against the other side's at the
same place, the pixels that differ, and how alike the two pictures are there. Whether the object is elsewhere
on the other side is for `models.grounded.association`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.box_tensors import overlaps, shared_area
from models.family_tensors import FAMILY
from models.grounded.observations import Observations, colour_histograms

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
"""Of one observation, in this order."""

_GRID = 12


@dataclass(frozen=True, slots=True, eq=False)
class ObservedPair:
    """A pair of stills with the observations of both.

    Attributes:
        sides: before and after.
        pictures: uint8 RGB ``(2, 3, h, w)``, before aligned, after.
        changed: float32 ``(mask height, mask width)``, 1 where a cluster is.
        clusters: float32 ``(K, 4)``, their boxes.
        gap_s: seconds between the frames, NaN where that is not known, float32 scalar.
        images: both at the camera's own size, RGB uint8 ``(h, w, 3)``; None where they are not at hand.
    """

    sides: tuple[Observations, Observations]
    pictures: Tensor
    changed: Tensor
    clusters: Tensor
    gap_s: Tensor
    images: tuple[NDArray[np.uint8], NDArray[np.uint8]] | None = None


class ChangeClassifier(nn.Module):
    """Log odds that an observation is a change."""

    def __init__(self, hidden: int = 32) -> None:
        """Build with random weights."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(len(EVIDENCE)))
        self.register_buffer("deviation", torch.ones(len(EVIDENCE)))
        self.net = nn.Sequential(
            nn.Linear(len(EVIDENCE), hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    mean: Tensor
    deviation: Tensor

    def fit_scaling(self, evidence: Tensor) -> None:
        """Take the scale of evidence float32 ``(N, len(EVIDENCE))``."""
        self.mean.copy_(evidence.mean(0))
        self.deviation.copy_(evidence.std(0).clamp(min=1e-3))

    def forward(self, evidence: Tensor) -> Tensor:
        """Log odds float32 ``(N,)`` of evidence ``(N, len(EVIDENCE))``."""
        scaled = ((evidence - self.mean) / self.deviation).clamp(-5, 5)
        logits: Tensor = self.net(scaled)[..., 0]
        return logits


def evidence(pair: ObservedPair, side: int) -> Tensor:
    """`EVIDENCE` of the N observations of one side, float32 ``(N, len(EVIDENCE))``."""
    own, other = pair.sides[side], pair.sides[1 - side]
    n = len(own.box)
    if not n:
        return torch.zeros(0, len(EVIDENCE), device=own.box.device)
    family = FAMILY.to(own.box.device)
    kind = family[own.label.argmax(1)]
    of_family = torch.stack([(own.label * (family == f)).sum(1) for f in set(kind.tolist())], 1)
    share = own.label.amax(1) / of_family.amax(1).clamp(min=1e-6)
    shares = overlaps(own.box, other.box)
    alike = kind[:, None] == family[other.label.argmax(1)][None] if len(other.box) else shares > 1
    there = (shares > 0.25) * other.score[None]  # noqa: PLR2004 - about the same place
    changed = _samples(pair.changed, own.box)
    one, two = (_grey(picture, own.box) for picture in pair.pictures)
    opposite = colour_histograms(pair.pictures[1 - side], own.box)
    area = own.box[:, 2:].prod(1).clamp(min=1e-6)
    known = float(~pair.gap_s.isnan())
    gap = float(pair.gap_s.clamp(min=0.05).log()) if known else 0.0
    x, y, w, h = own.box.unbind(1)
    edge = ((x < 0.01) | (y < 0.01) | (x + w > 0.99) | (y + h > 0.99)).float()  # noqa: PLR2004
    clusters = overlaps(own.box, pair.clusters)
    named = [(kind == int(family[row])).float() for row in (0, 1, 5)]
    columns = [
        own.score.clamp(0.01, 0.99).logit(),
        share,
        changed.mean((1, 2)),
        changed[:, _GRID // 2 :].mean((1, 2)),
        _most(there * alike),
        _most(there * alike * shares),
        _most(there * ~alike),
        _correlation(one, two),
        (one - two).abs().mean((1, 2)) / 32,
        (own.colours * opposite).sum(1) / 4,
        area.log() / 2,
        h.clamp(min=1e-3).log(),
        edge,
        _inside(own, kind),
        _most(clusters),
        pair.changed.mean().expand(n),
        (kind[:, None] == kind[None]).float().sum(1).log(),
        own.score.new_full((n,), known),
        own.score.new_full((n,), gap / 3),
        *named,
    ]
    return torch.stack(columns, dim=1)


def _most(values: Tensor) -> Tensor:
    return values.amax(1) if values.shape[1] else values.new_zeros(len(values))


def _inside(own: Observations, kind: Tensor) -> Tensor:
    """How much of each lies within a surer one of its family."""
    part = shared_area(own.box, own.box) / own.box[:, 2:].prod(1).clamp(min=1e-9)[:, None]
    surer = (own.score[None] > own.score[:, None]) & (kind[:, None] == kind[None])
    return _most(part * surer)


def _samples(plane: Tensor, box: Tensor) -> Tensor:
    """A plane ``(h, w)`` at a grid of points of each box: ``(N, G, G)``."""
    along = (torch.arange(_GRID, device=box.device) + 0.5) / _GRID
    height, width = plane.shape
    row = ((box[:, 1:2] + box[:, 3:] * along) * height).long().clamp(0, height - 1)
    column = ((box[:, :1] + box[:, 2:3] * along) * width).long().clamp(0, width - 1)
    return plane[row[:, :, None], column[:, None, :]]


def _grey(picture: Tensor, box: Tensor) -> Tensor:
    return _samples(picture.float().mean(0), box)


def correlation_at(pictures: Tensor, box: Tensor) -> Tensor:
    """How alike the grey values of two pictures are within boxes.

    Args:
        pictures: uint8 RGB ``(2, 3, h, w)``.
        box: float32 ``(N, 4)``.

    Returns:
        float32 ``(N,)``, -1..1.
    """
    return _correlation(*(_grey(picture, box) for picture in pictures))


def _correlation(one: Tensor, two: Tensor) -> Tensor:
    """Of grey values ``(N, G, G)``; 0 where one of them is flat."""
    a, b = (v.flatten(1) - v.flatten(1).mean(1, keepdim=True) for v in (one, two))
    spread = a.square().mean(1) * b.square().mean(1)
    shared = (a * b).mean(1) / spread.clamp(min=1e-6).sqrt()
    return torch.where(spread > 16, shared, 0.0)  # noqa: PLR2004 - flat
