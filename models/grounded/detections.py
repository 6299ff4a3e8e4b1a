"""Decoding: from the detector's answers in every cell to the detections of a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from models.box_tensors import corner_overlaps
from models.detections import Detections
from models.family_tensors import FAMILY, GROUPS
from models.grounded.detector import Answer

OVERLAP = 0.6
"""Two detections of one family that share this much (intersection over union) are one object."""

AT_ONCE = 100
"""Most detections of one picture, the surest ones."""

_MARGIN = 1e-3  # in logits, for the first sieve


def decode(answer: Answer, size: tuple[int, int], least: float) -> list[Detections]:
    """The objects of B pictures.

    Args:
        answer: the detector's.
        size: height and width of the pictures in pixels, all of which the frame fills.
        least: least score.
    """
    height, width = size
    edge = answer.edges.new_tensor([width, height, width, height])
    likely = answer.label.amax(-1) >= math.log(least / (1 - least)) - _MARGIN
    found = []
    for b in range(len(answer.label)):
        keep = likely[b].nonzero()[:, 0]
        probability = answer.label[b, keep].sigmoid()
        named = torch.stack([probability[:, row].amax(-1) for row in GROUPS], dim=-1)
        best, label = named.max(-1)
        order = best.argsort(descending=True, stable=True)
        order = order[best[order] >= least][: 6 * AT_ONCE]
        corners = (answer.boxes_of(b, keep[order]) / edge).clamp(0, 1)
        rows = _suppressed(corners, FAMILY.to(label.device)[label[order]])[:AT_ONCE]
        corners, rows = corners[rows], order[rows]
        box = torch.cat([corners[:, :2], corners[:, 2:] - corners[:, :2]], dim=1)
        full = (box[:, 2:] > 0).all(1)
        feature = pooled([level[b] for level in answer.maps], box)
        found.append(Detections(box[full], best[rows][full], named[rows][full], feature[full]))
    return found


def _suppressed(corners: Tensor, family: Tensor) -> Tensor:
    """Rows that stay when of overlapping boxes of one family only the first stays, int64."""
    shares = corner_overlaps(corners, corners)
    return suppress((shares > OVERLAP) & (family[:, None] == family[None]))


def suppress(rivals: Tensor) -> Tensor:
    """The rows that stay when each that stays sends away those of its rivals that come after it.

    Args:
        rivals: bool ``(N, N)``.

    Returns:
        int64 ``(M,)``.
    """
    table = rivals.triu(1).numpy(force=True)
    gone = np.zeros(len(table), np.bool_)
    for i, row in enumerate(table):
        if not gone[i]:
            gone |= row
    return torch.from_numpy(np.flatnonzero(~gone)).to(rivals.device)


def pooled(maps: Sequence[Tensor], box: Tensor) -> Tensor:
    """What the finest two levels show inside of boxes, each half of unit length.

    Args:
        maps: levels float32 ``(C, h, w)``, finest first.
        box: float32 ``(N, 4)`` in 0..1 of the picture.

    Returns:
        float32 ``(N, 2 C)``.
    """
    parts = []
    for level in maps[:2]:
        height, width = level.shape[1:]
        low = (box[:, :2] * box.new_tensor([width, height])).long()
        high = ((box[:, :2] + box[:, 2:]) * box.new_tensor([width, height])).round().long()
        left, top = low[:, 0].clamp(max=width - 1), low[:, 1].clamp(max=height - 1)
        right, bottom = (
            torch.maximum(high[:, k], start + 1).clamp(max=end)
            for k, start, end in ((0, left, width), (1, top, height))
        )
        rows, columns = (
            ((cells >= start[:, None]) & (cells < end[:, None])).to(level.dtype)
            for cells, start, end in (
                (torch.arange(height, device=box.device), top, bottom),
                (torch.arange(width, device=box.device), left, right),
            )
        )
        within = (level.reshape(-1, width) @ columns.T).view(len(level), height, len(box))
        total = (within * rows.T).sum(1).T
        parts.append(nn.functional.normalize(total, dim=1))  # a mean's direction is its sum's
    return torch.cat(parts, dim=1)
