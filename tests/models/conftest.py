"""A small encoder that sees colours, and small pairs of pictures, for tests of captioners."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from models.captioner import PairBatch
from models.encoder import Encoder
from models.vocabulary import Vocabulary

Rectangle = tuple[int, int, int, int]


class ColourEncoder(Encoder):
    """Mean colour of every cell, its square, and where the cell is: 8 channels, no weights."""

    name = "colour"
    channels = 8

    def __init__(self) -> None:
        super().__init__()
        self._freeze({})

    def features(self, images: Tensor) -> Tensor:
        colour = adaptive_avg_pool2d(images, (14, 14)) / 128 - 1
        at = torch.linspace(-1, 1, 14)
        rows = at.view(1, 1, 14, 1).expand(len(images), 1, 14, 14)
        return torch.cat([colour, colour**2, rows, rows.transpose(2, 3)], dim=1)


@pytest.fixture
def encoder() -> Encoder:
    return ColourEncoder()


@pytest.fixture
def vocabulary() -> Vocabulary:
    said = ["a red car has appeared on the left", "the blue person is gone", "a green bottle has moved"]
    return Vocabulary.build([*said, "nothing has changed"], min_count=1)


@pytest.fixture
def make_pairs(encoder: Encoder) -> Callable[..., PairBatch]:
    """Pairs whose clusters are rectangles ``(x, y, width, height)`` of 224, in random colours."""

    def make(rectangles: list[list[Rectangle]], seed: int = 0, with_maps: bool = True) -> PairBatch:
        random = torch.Generator().manual_seed(seed)
        b, k = len(rectangles), max(1, *(len(r) for r in rectangles))
        before = torch.full((b, 3, 224, 224), 90, dtype=torch.uint8)
        after = before.clone()
        masks, boxes = torch.zeros(b, k, 224, 224, dtype=torch.bool), torch.zeros(b, k, 4)
        valid = torch.zeros(b, k, dtype=torch.bool)
        for i, clusters in enumerate(rectangles):
            for j, (x, y, w, h) in enumerate(clusters):
                side = (before, after)[int(torch.randint(2, (), generator=random))]
                side[i, :, y : y + h, x : x + w] = torch.randint(256, (3, 1, 1), generator=random).byte()
                masks[i, j, y : y + h, x : x + w] = True
                boxes[i, j] = torch.tensor([x, y, w, h]) / 224
                valid[i, j] = True
        maps = (encoder(before), encoder(after)) if with_maps else None
        pictures = (None, None) if with_maps else (before, after)
        return PairBatch(*pictures, masks, boxes, masks.float().mean((2, 3)), valid, maps)

    return make
