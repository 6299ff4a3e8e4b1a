"""Frame pairs as tensors, the input of the papers' captioners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from models.captioner import PairInput


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    """B frame pairs as tensors, clusters padded to the largest K of the batch."""

    # before, after: uint8 ``(B, 3, height, width)``, RGB, aligned; None where `maps` is given, unless the
    # captioner needs images all the same
    before: Tensor | None
    after: Tensor | None
    masks: Tensor  # bool ``(B, K, mask height, mask width)``, the cluster masks
    boxes: Tensor  # float32 ``(B, K, 4)``, ``x, y, width, height`` in 0..1
    active: Tensor  # float32 ``(B, K)``, active pixels of each cluster as a share 0..1 of the frame
    valid: Tensor  # bool ``(B, K)``, False for padding
    # encoder features of before and after, float ``(B, C, 14, 14)`` each, where they are known already (the
    # trainer's cache); otherwise None and `encode` computes them
    maps: tuple[Tensor, Tensor] | None = None
    # bool ``(B,)``, False for distractors, pairs without a change worth reporting; None outside of training
    changed: Tensor | None = None

    @classmethod
    def of(cls, pairs: Sequence[PairInput]) -> PairBatch:
        """Pairs of one size, with at least one cluster among them."""
        views = torch.from_numpy(np.stack([pair.views for pair in pairs])).permute(1, 0, 4, 2, 3).contiguous()
        return cls.pad([(p.masks, p.boxes, p.active) for p in pairs], before=views[0], after=views[1])

    @classmethod
    def pad(
        cls,
        clusters: Sequence[tuple[NDArray[np.bool_], NDArray[np.float32], NDArray[np.float32]]],
        *,
        before: Tensor | None = None,
        after: Tensor | None = None,
        maps: tuple[Tensor, Tensor] | None = None,
    ) -> PairBatch:
        """Pairs with their masks ``(K, height, width)``, boxes ``(K, 4)`` and active pixels ``(K,)``."""
        masks, boxes, active = (
            pad_sequence([torch.from_numpy(part) for part in parts], batch_first=True)
            for parts in zip(*clusters, strict=True)
        )
        counts = torch.tensor([len(each) for _, each, _ in clusters])
        valid = torch.arange(boxes.shape[1]) < counts.unsqueeze(1)
        return cls(before, after, masks, boxes, active, valid, maps)

    def to(self, device: torch.device | str) -> PairBatch:
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
