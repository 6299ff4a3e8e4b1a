"""Frame pairs as tensors: what every captioner looks at."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.perception import Truth


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
        windows: float32 ``(N, 4)``, the square windows of the N valid clusters, row by row of `valid`, in
            0..1 of the frame; None for a captioner that sees whole frames.
        crops: uint8 ``(N, 2, 3, S, S)``, RGB, both frames in these windows, before aligned; None where
            `levels` is given, or for a captioner that sees whole frames.
        levels: what `models.perception.crop_levels` gives for the crops, where it is known already.
        tracks: float32 ``(B, P, 6)``, points followed through the frames in between (x, y, seconds after
            the before frame, at the start and at the end), NaN for padding; None where there are none.
        truth: what is known to have changed, for training; otherwise None.
        changed: bool ``(B,)``, False for distractors, pairs in which nothing changed that is worth telling;
            for training, otherwise None.
    """

    before: Tensor | None
    after: Tensor | None
    masks: Tensor
    boxes: Tensor
    active: Tensor
    valid: Tensor
    maps: tuple[Tensor, Tensor] | None = None
    windows: Tensor | None = None
    crops: Tensor | None = None
    levels: tuple[Tensor, ...] | None = None
    tracks: Tensor | None = None
    truth: Truth | None = None
    changed: Tensor | None = None

    def to(self, device: torch.device) -> PairBatch:
        """The same pairs on a device."""

        def moved(part: Tensor | None) -> Tensor | None:
            return None if part is None else part.to(device)

        return PairBatch(
            before=moved(self.before),
            after=moved(self.after),
            masks=self.masks.to(device),
            boxes=self.boxes.to(device),
            active=self.active.to(device),
            valid=self.valid.to(device),
            maps=None if self.maps is None else (self.maps[0].to(device), self.maps[1].to(device)),
            windows=moved(self.windows),
            crops=moved(self.crops),
            levels=None if self.levels is None else tuple(level.to(device) for level in self.levels),
            tracks=moved(self.tracks),
            truth=None if self.truth is None else self.truth.to(device),
            changed=moved(self.changed),
        )

    def features(self) -> Tensor:
        """The alignment prior's features g(z): height, width and area of the tight box, and active pixels.

        Returns:
            float32 ``(B, K, 4)``, all as shares 0..1 of the frame.
        """
        width, height = self.boxes[..., 2], self.boxes[..., 3]
        return torch.stack([height, width, height * width, self.active], dim=-1)
