"""Objects that the encoder learnt from ImageNet, named where the footage of the training never showed them.

Perception learns its classes from the footage at hand; what that lacks it takes for the likest thing it
knows, "a person has appeared" of a bottle. The frozen encoder was taught 1,000 classes before: its own
classifier, asked in every cell of a crop and averaged over the cluster's mask, names these objects. Where
perception does not know the object, its boxes are parts of it: those that touch, or lie in one another, are
one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from models.perception import OBJECTS
from models.things import Things, merged

CLASSES = {"bottle": (440, 680, 720, 737, 898, 907)}
"""Numbers in ILSVRC 2012 by our name: beer bottle, nipple (of a baby's bottle), pill, pop, water and wine
bottle. Only what it tells apart in small crops: of buses, lorries and two-wheelers it does not."""

SURE = 0.4
"""Least mean probability over the cluster's mask for the encoder's name to be taken."""
APART = 0.02
"""Parts of one object are no further from each other, as a share of the frame."""


@runtime_checkable
class ClassifyingEncoder(Protocol):
    """An encoder that still has its classifier."""

    def classify(self, cells: Tensor) -> Tensor:
        """From M cells of its coarsest map, float32 ``(M, C)``, to probabilities ``(M, 1000)``."""
        ...


def familiar(encoder: object, coarse: Tensor, masks: Tensor) -> Tensor:
    """How surely the encoder knows each object of `CLASSES` in the clusters.

    Args:
        encoder: one without a classifier knows none.
        coarse: its coarsest maps of N crops, float32 ``(N, 2, C, h, w)``, before and after.
        masks: float32 ``(N, G, G)``, the clusters' masks.

    Returns:
        float32 ``(N, 2, len(CLASSES))`` in 0..1.
    """
    known = coarse.new_zeros((len(coarse), 2, len(CLASSES)))
    if not isinstance(encoder, ClassifyingEncoder):
        return known
    weight = adaptive_avg_pool2d(masks.unsqueeze(1), (coarse.shape[-2], coarse.shape[-1]))[:, 0]
    weight = weight / weight.sum((1, 2), keepdim=True).clamp(min=1e-6)
    n, row, column = weight.nonzero(as_tuple=True)
    for side in (0, 1):
        cells = encoder.classify(coarse[n, side, :, row, column])
        share = torch.stack([cells[:, list(numbers)].sum(1) for numbers in CLASSES.values()], dim=1)
        known[:, side].index_add_(0, n, share * weight[n, row, column, None])
    return known


def recognised(things: Things, known: Tensor) -> Things:
    """The things of one side with the encoder's names where it is sure and perception has another.

    Args:
        things: surest first.
        known: float32 ``(N, len(CLASSES))``, of that side of the crops.
    """
    named = [OBJECTS.index(name) for name in CLASSES]
    share, which = known[things.cluster].max(1)
    name = torch.tensor(named, device=which.device)[which]
    other = (share >= SURE) & (things.label.argmax(1) != name)
    if not other.any():
        return things
    given = torch.zeros_like(things.label).scatter_(1, name[:, None], 1.0)
    mixed = share[:, None] * given + (1 - share[:, None]) * things.label
    label = torch.where(other[:, None], mixed, things.label)
    return merged(_whole(replace(things, label=label), other.tolist()))


def _whole(things: Things, parts: list[bool]) -> Things:
    """Parts of one pair that touch put together, the surest one's score and looks kept."""
    box = things.box.clone()
    kept: list[int] = []
    for t in range(len(things)):
        same = [k for k in kept if parts[t] and parts[k] and _one(things, box, k, t)]
        if not same:
            kept.append(t)
            continue
        first = same[0]
        for other in (t, *same[1:]):
            box[first] = _hull(box[first], box[other])
        kept = [k for k in kept if k not in same[1:]]
    rows = torch.tensor(kept, dtype=torch.int64, device=box.device)
    return replace(things, box=box).select(rows)


def _one(things: Things, box: Tensor, a: int, b: int) -> bool:
    if things.pair[a] != things.pair[b] or things.label[a].argmax() != things.label[b].argmax():
        return False
    gap = torch.maximum(box[a, :2], box[b, :2]) - torch.minimum(
        box[a, :2] + box[a, 2:], box[b, :2] + box[b, 2:]
    )
    return bool((gap <= APART).all())


def _hull(a: Tensor, b: Tensor) -> Tensor:
    low = torch.minimum(a[:2], b[:2])
    return torch.cat([low, torch.maximum(a[:2] + a[2:], b[:2] + b[2:]) - low])
