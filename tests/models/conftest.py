"""A small encoder that sees colours, and small pairs of pictures, for tests of captioners."""

from collections.abc import Callable

import pytest
import torch
from rectangles import COLOURS, GREY
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from models.captioner import PairInput
from models.encoders import EfficientNetLite0, Encoder
from models.papers.captioner import PairBatch
from models.papers.vocabulary import Vocabulary

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


@pytest.fixture(scope="session")
def lite0() -> Encoder:
    return EfficientNetLite0()


@pytest.fixture
def encoder() -> ColourEncoder:
    return ColourEncoder()


@pytest.fixture
def vocabulary() -> Vocabulary:
    said = ["a red car has appeared on the left", "the blue person is gone", "a green bottle has moved"]
    return Vocabulary.build([*said, "nothing has changed"], min_count=1)


@pytest.fixture
def make_pairs(encoder) -> Callable[..., PairBatch]:
    """Pairs whose clusters are rectangles ``(x, y, width, height)`` of 224, in random colours.

    `sides` says on which side each stands, else that is random; `labels` gives them a thing's colour.
    """

    def make(
        places: list[list[Rectangle]],
        seed: int = 0,
        with_maps: bool = True,
        sides: list[list[int]] | None = None,
        labels: list[list[str]] | None = None,
    ) -> PairBatch:
        random = torch.Generator().manual_seed(seed)
        b, k = len(places), max(1, *(len(r) for r in places))
        before = torch.full((b, 3, 224, 224), GREY, dtype=torch.uint8)
        after = before.clone()
        masks, boxes = torch.zeros(b, k, 224, 224, dtype=torch.bool), torch.zeros(b, k, 4)
        valid = torch.zeros(b, k, dtype=torch.bool)
        for i, clusters in enumerate(places):
            for j, (x, y, w, h) in enumerate(clusters):
                drawn, colour = (
                    torch.randint(2, (), generator=random),
                    torch.randint(256, (3,), generator=random),
                )
                side = (before, after)[sides[i][j] if sides else int(drawn)]
                if labels:
                    colour = torch.tensor(COLOURS[labels[i][j]])
                side[i, :, y : y + h, x : x + w] = colour.view(3, 1, 1).byte()
                masks[i, j, y : y + h, x : x + w] = True
                boxes[i, j] = torch.tensor([x, y, w, h]) / 224
                valid[i, j] = True
        maps = (encoder(before), encoder(after)) if with_maps else None
        return PairBatch(before, after, masks, boxes, masks.float().mean((2, 3)), valid, maps)

    return make


def pair_inputs(pairs: PairBatch) -> list[PairInput]:
    """The same pairs as the pipeline gives them."""
    assert pairs.before is not None
    assert pairs.after is not None
    views = torch.stack([pairs.before, pairs.after], 1).permute(0, 1, 3, 4, 2).contiguous().numpy()
    parts = pairs.masks, pairs.boxes, pairs.active
    return [
        PairInput(view, *(part[b][pairs.valid[b]].numpy() for part in parts)) for b, view in enumerate(views)
    ]


@pytest.fixture
def make_inputs(make_pairs) -> Callable[..., list[PairInput]]:
    """As `make_pairs`."""
    return lambda *places, **options: pair_inputs(make_pairs(*places, **options))
