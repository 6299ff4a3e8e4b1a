"""Frame pairs as tensors, the input of the papers' captioners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.captioner import PairInput


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    """B frame pairs as tensors, clusters padded to the largest K of the batch.

    Attributes:
        before, after: uint8 ``(B, 3, height, width)``, RGB, aligned; None where `maps` is given, unless the
            captioner needs images all the same.
        masks: bool ``(B, K, mask height, mask width)``, the cluster masks.
        boxes: float32 ``(B, K, 4)``, ``x, y, width, height`` in 0..1.
        active: float32 ``(B, K)``, active pixels of each cluster as a share 0..1 of the frame.
        valid: bool ``(B, K)``, False for padding.
        maps: encoder features of before and after, float ``(B, C, 14, 14)`` each, where they are
            known already (the trainer's cache); otherwise None and `encode` computes them.
        changed: bool ``(B,)``, False for distractors, pairs without a change worth reporting;
            for training, otherwise None.
    """

    before: Tensor | None
    after: Tensor | None
    masks: Tensor
    boxes: Tensor
    active: Tensor
    valid: Tensor
    maps: tuple[Tensor, Tensor] | None = None
    changed: Tensor | None = None

    @classmethod
    def of(cls, pairs: Sequence[PairInput]) -> PairBatch:
        """Pairs of one size, with at least one cluster among them."""
        views = torch.from_numpy(np.stack([pair.views for pair in pairs])).permute(1, 0, 4, 2, 3)
        most = max(len(pair.boxes) for pair in pairs)
        masks = torch.zeros(len(pairs), most, *pairs[0].masks.shape[1:], dtype=torch.bool)
        boxes, active = torch.zeros(len(pairs), most, 4), torch.zeros(len(pairs), most)
        valid = torch.zeros(len(pairs), most, dtype=torch.bool)
        for b, pair in enumerate(pairs):
            own = slice(len(pair.boxes))
            masks[b, own], boxes[b, own], active[b, own] = map(
                torch.from_numpy, (pair.masks, pair.boxes, pair.active)
            )
            valid[b, own] = True
        return cls(views[0].contiguous(), views[1].contiguous(), masks, boxes, active, valid)

    def to(self, device: torch.device | str) -> PairBatch:
        """The same pairs on a device."""

        def moved(part: Any) -> Any:
            if isinstance(part, tuple):
                return tuple(moved(each) for each in part)
            return part.to(device) if isinstance(part, Tensor) else part

        return PairBatch(*(moved(getattr(self, each.name)) for each in fields(self)))

    def features(self) -> Tensor:
        """The alignment prior's features g(z), float32 ``(B, K, 4)``, all as shares 0..1 of the frame.

        Height, width and area of the tight box, and active pixels.
        """
        width, height = self.boxes[..., 2], self.boxes[..., 3]
        return torch.stack([height, width, height * width, self.active], dim=-1)
