"""Frame pairs as tensors, the input of every captioner."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


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
        views: of each pair uint8 ``(2, 3, h, w)``, RGB, before aligned and after, at a size of their own (see
            `models.grounded.inference.canvas`); None for a captioner that sees frames of one size.
        tiles: uint8 ``(T, 2, 3, S, S)``, RGB, both frames in square windows where something small differs.
        tile_windows: float32 ``(T, 4)``, in 0..1 of the frame.
        tile_pair: int64 ``(T,)``, which pair a tile is of.
        images: of each pair both at the camera's own size, before not aligned, RGB uint8 ``(h, w, 3)``.
        gap_s: float32 ``(B,)``, seconds between before and after, NaN where that is not known; None where no
            pair's is.
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
    views: tuple[Tensor, ...] | None = None
    tiles: Tensor | None = None
    tile_windows: Tensor | None = None
    tile_pair: Tensor | None = None
    images: tuple[tuple[NDArray[np.uint8], NDArray[np.uint8]], ...] | None = None
    gap_s: Tensor | None = None
    changed: Tensor | None = None

    def to(self, device: torch.device) -> PairBatch:
        """The same pairs on a device."""

        def moved(part: Any) -> Any:
            if isinstance(part, tuple):
                return tuple(moved(each) for each in part)
            return part.to(device) if isinstance(part, Tensor) else part

        return PairBatch(*(moved(getattr(self, each.name)) for each in fields(self)))

    def features(self) -> Tensor:
        """The alignment prior's features g(z): height, width and area of the tight box, and active pixels.

        Returns:
            float32 ``(B, K, 4)``, all as shares 0..1 of the frame.
        """
        width, height = self.boxes[..., 2], self.boxes[..., 3]
        return torch.stack([height, width, height * width, self.active], dim=-1)
