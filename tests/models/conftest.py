"""A small encoder that sees colours, and small pairs of pictures, for tests of captioners."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from models.captioner import PairBatch
from models.encoder import Encoder
from models.perception import OBJECTS, Truth, crop_levels
from models.vocabulary import Vocabulary

Rectangle = tuple[int, int, int, int]


class ColourEncoder(Encoder):
    """Mean colour of every cell, its square, and where the cell is: 8 channels, no weights."""

    name = "colour"
    channels = 8
    pyramid_channels = (3, 3, 3)

    def __init__(self) -> None:
        super().__init__()
        self._freeze({})

    def features(self, images: Tensor) -> Tensor:
        colour = adaptive_avg_pool2d(images, (14, 14)) / 128 - 1
        at = torch.linspace(-1, 1, 14)
        rows = at.view(1, 1, 14, 1).expand(len(images), 1, 14, 14)
        return torch.cat([colour, colour**2, rows, rows.transpose(2, 3)], dim=1)

    def pyramid(self, images: Tensor) -> tuple[Tensor, ...]:
        side = images.shape[-1]
        return tuple(adaptive_avg_pool2d(images.float() / 128 - 1, side // s) for s in (8, 16, 32))


@pytest.fixture
def encoder() -> ColourEncoder:
    return ColourEncoder()


@pytest.fixture
def vocabulary() -> Vocabulary:
    said = ["a red car has appeared on the left", "the blue person is gone", "a green bottle has moved"]
    return Vocabulary.build([*said, "nothing has changed"], min_count=1)


@pytest.fixture
def make_pairs(encoder: ColourEncoder) -> Callable[..., PairBatch]:
    """Pairs whose clusters are rectangles ``(x, y, width, height)`` of 224, in random colours.

    `sides` and `labels` say on which side each stands and what it is; without them the side is random, and
    nothing is known.
    """

    def make(
        rectangles: list[list[Rectangle]],
        seed: int = 0,
        with_maps: bool = True,
        sides: list[list[int]] | None = None,
        labels: list[list[str]] | None = None,
    ) -> PairBatch:
        random = torch.Generator().manual_seed(seed)
        b, k = len(rectangles), max(1, *(len(r) for r in rectangles))
        before = torch.full((b, 3, 224, 224), 90, dtype=torch.uint8)
        after = before.clone()
        masks, boxes = torch.zeros(b, k, 224, 224, dtype=torch.bool), torch.zeros(b, k, 4)
        valid = torch.zeros(b, k, dtype=torch.bool)
        for i, clusters in enumerate(rectangles):
            for j, (x, y, w, h) in enumerate(clusters):
                drawn = int(torch.randint(2, (), generator=random))
                side = (before, after)[sides[i][j] if sides else drawn]
                side[i, :, y : y + h, x : x + w] = torch.randint(256, (3, 1, 1), generator=random).byte()
                masks[i, j, y : y + h, x : x + w] = True
                boxes[i, j] = torch.tensor([x, y, w, h]) / 224
                valid[i, j] = True
        maps = (encoder(before), encoder(after)) if with_maps else None
        windows, crops = _crops(before, after, boxes, valid)
        return PairBatch(
            before,
            after,
            masks,
            boxes,
            masks.float().mean((2, 3)),
            valid,
            maps,
            windows=windows,
            crops=None if with_maps else crops,
            levels=crop_levels(encoder, crops) if with_maps else None,
            truth=_truth(boxes, valid, sides, labels) if sides and labels else None,
        )

    return make


def _crops(before: Tensor, after: Tensor, boxes: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """The square window around each valid box, cut from both images."""
    windows, crops = torch.zeros(int(valid.sum()), 4), []
    for n, (b, k) in enumerate(valid.nonzero().tolist()):
        x, y, w, h = boxes[b, k].tolist()
        side = max(w, h) * 1.3
        left, top = (min(max(v, 0.0), 1 - side) for v in (x + w / 2 - side / 2, y + h / 2 - side / 2))
        windows[n] = torch.tensor([left, top, side, side])
        at = (
            slice(round(top * 224), round((top + side) * 224)),
            slice(round(left * 224), round((left + side) * 224)),
        )
        both = torch.stack([before[b][:, at[0], at[1]], after[b][:, at[0], at[1]]]).float()
        crops.append(interpolate(both, size=(128, 128), mode="nearest").byte())
    return windows, torch.stack(crops) if crops else torch.zeros(0, 2, 3, 128, 128, dtype=torch.uint8)


def _truth(boxes: Tensor, valid: Tensor, sides: list[list[int]], labels: list[list[str]]) -> Truth:
    side = torch.full(valid.shape, -1)
    label = torch.zeros(valid.shape, dtype=torch.int64)
    for b, k in valid.nonzero().tolist():
        side[b, k], label[b, k] = sides[b][k], OBJECTS.index(labels[b][k])
    identity = torch.arange(valid.numel()).view(valid.shape)
    told = torch.full((len(valid), 1, 4), -1)
    return Truth(side, label, boxes, valid, identity, torch.ones(len(valid)), told)
