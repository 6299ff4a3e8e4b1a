"""What is asked of perception: which cells, which edges, which side, and where nothing is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from models.encoder import Encoder
from models.perception import (
    OBJECTS,
    STRIDE,
    Perception,
    Seen,
    Truth,
    _targets,
    cell_centres,
    crop_levels,
    crop_masks,
    perception_loss,
)

G = 16
WHOLE = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
CAR = (0.25, 0.25, 0.25, 0.5)  # its centre lies in row 8, column 6


def truth(*objects: tuple[int, str, tuple[float, ...]], sure: bool = True, weight: float = 1.0) -> Truth:
    most = max(1, len(objects))
    side, label = torch.full((1, most), -1), torch.zeros(1, most, dtype=torch.int64)
    box = torch.zeros(1, most, 4)
    for m, (s, name, where) in enumerate(objects):
        side[0, m], label[0, m], box[0, m] = s, OBJECTS.index(name), torch.tensor(where)
    known = torch.full((1, most), fill_value=sure)
    none = torch.full((1, most), -1)
    return Truth(side, label, box, known, none, torch.tensor([weight]), torch.full((1, 1, 4), -1))


def mask_of(*boxes: tuple[float, ...], window: Tensor = WHOLE) -> Tensor:
    """The cluster's mask in the crop, float ``(1, G, G)``."""
    x, y = cell_centres(window, G)
    inside = torch.zeros(1, G, G, dtype=torch.bool)
    for left, top, width, height in boxes:
        inside |= (x >= left) & (x <= left + width) & (y >= top) & (y <= top + height)
    return inside.float()


PAIR = torch.zeros(1, dtype=torch.int64)


def test_a_centre_is_one_cell_on_its_own_side() -> None:
    known, mask = truth((1, "car", CAR)), mask_of(CAR)
    before, after = (_targets(known, side, PAIR, WHOLE, mask) for side in (0, 1))
    assert (after.heat[0] >= 0.99).nonzero().tolist() == [[8, 6]]
    assert float(after.heat.min()) >= 0
    assert after.heat[0, 8, 7] > after.heat[0, 8, 12]
    assert not before.heat.any()
    assert not len(before.positive)
    assert before.weight.eq(1).all(), "that it is not there before is known"


def test_positive_cells_lead_to_the_edges_and_the_class() -> None:
    window = torch.tensor([[0.1, 0.2, 0.5, 0.6]])
    target = _targets(truth((0, "person", CAR)), 0, PAIR, window, mask_of(CAR, window=window))
    assert len(target.positive) > 1
    x, y = cell_centres(window, G)
    for (_, m, row, column), edges, label in zip(
        target.positive.tolist(), target.edges, target.label.tolist(), strict=True
    ):
        left, top, right, bottom = (edges * window[0, 2:].repeat(2)).tolist()
        at_x, at_y = float(x[0, 0, column]), float(y[0, row, 0])
        assert (at_x - left, at_y - top) == pytest.approx(CAR[:2], abs=1e-5)
        assert (at_x + right, at_y + bottom) == pytest.approx((0.5, 0.75), abs=1e-5)
        assert (m, OBJECTS[label]) == (0, "person")


def test_a_cell_of_two_objects_is_the_smaller_ones() -> None:
    small = (0.34, 0.45, 0.07, 0.1)
    known = truth((1, "car", CAR), (1, "person", small))
    target = _targets(known, 1, PAIR, WHOLE, mask_of(CAR))
    owners = {(row, column): m for _, m, row, column in target.positive.tolist()}
    assert owners[8, 6] == 1
    assert set(owners.values()) == {0, 1}


def test_nothing_is_learnt_where_an_object_is_not_sure() -> None:
    target = _targets(truth((1, "car", CAR), sure=False), 1, PAIR, WHOLE, mask_of(CAR))
    inside = mask_of(CAR).bool()
    assert not target.heat.any()
    assert not target.weight[inside].any()
    assert target.weight[~inside].eq(1).all()
    assert not len(target.positive)


def test_an_object_of_another_cluster_is_ignored() -> None:
    elsewhere = (0.7, 0.1, 0.2, 0.2)
    target = _targets(truth((1, "car", CAR)), 1, PAIR, WHOLE, mask_of(elsewhere))
    assert not target.heat.any()
    assert not target.weight[mask_of(CAR).bool()].any()
    assert target.weight[mask_of(elsewhere).bool()].all()


def test_an_object_whose_centre_lies_beyond_the_crop_is_ignored() -> None:
    window = torch.tensor([[0.4, 0.2, 0.4, 0.4]])  # right of the car's centre at .375
    mask = mask_of(CAR, window=window)
    assert mask.any()
    target = _targets(truth((1, "car", CAR)), 1, PAIR, window, mask)
    assert not (target.heat >= 0.99).any()
    assert not target.weight[mask.bool()].any()


@pytest.mark.parametrize("side", [0, 1])
def test_a_guess_that_nothing_is_there_counts_less(side: int) -> None:
    mask = mask_of(CAR)
    assert _targets(truth(weight=0.35), side, PAIR, WHOLE, mask).weight.eq(0.35).all()
    # Where something is known about the cluster, on either side, it is no guess.
    assert _targets(truth((1, "car", CAR), weight=0.35), side, PAIR, WHOLE, mask).weight.max() == 1
    elsewhere = truth((1, "car", (0.7, 0.1, 0.2, 0.2)), weight=0.35)
    assert _targets(elsewhere, side, PAIR, WHOLE, mask).weight.max() == pytest.approx(0.35)


def answered(known: Truth, mask: Tensor, *, sure: float = 9.0) -> tuple[Seen, Seen]:
    """Both sides' answers that are right about everything."""
    sides = []
    for side in (0, 1):
        target = _targets(known, side, PAIR, WHOLE, mask)
        centre = torch.where(target.heat >= 0.99, sure, -sure)
        label, edges = torch.zeros(1, len(OBJECTS), G, G), torch.full((1, 4, G, G), 0.01)
        for (n, _, row, column), each, name in zip(
            target.positive.tolist(), target.edges, target.label, strict=True
        ):
            label[n, name, row, column], edges[n, :, row, column] = 9.0, each
        sides.append(Seen(centre, label, edges, torch.zeros(1, 2, G, G)))
    return sides[0], sides[1]


def test_what_is_right_costs_nothing_and_every_fault_costs() -> None:
    known, mask = (
        truth((0, "car", CAR), (1, "person", (0.6, 0.6, 0.2, 0.3))),
        mask_of(CAR, (0.6, 0.6, 0.2, 0.3)),
    )
    right = answered(known, mask)
    least = float(perception_loss(right, known, PAIR, WHOLE, mask))
    assert least < 0.5  # the labels are smoothed
    before, after = right
    swapped = float(perception_loss((after, before), known, PAIR, WHOLE, mask))
    silent = replace(before, centre=torch.full_like(before.centre, -9.0))
    named = replace(before, label=before.label.roll(1, 1))
    wide = replace(before, edges=2 * before.edges)
    assert swapped > least + 5
    for fault in (silent, named, wide):
        assert float(perception_loss((fault, after), known, PAIR, WHOLE, mask)) > least + 0.2


def test_no_object_is_ever_known_and_the_loss_is_still_finite() -> None:
    known, mask = truth(), mask_of(CAR)
    nothing = Truth(
        *(part[:, :0] for part in (known.side, known.label, known.box, known.sure, known.identity)),
        known.weight,
        known.told,
    )
    seen = answered(known, mask)
    assert torch.isfinite(perception_loss(seen, nothing, PAIR, WHOLE, mask))


@pytest.mark.parametrize("options", [{}, {"other_side": False}, {"use_mask": False}])
def test_exchanging_the_frames_exchanges_what_is_seen(options: dict[str, bool]) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        seeing = Perception((5, 4, 3), width=24, embedded=8, blocks=2, **options).eval()
        levels = [tuple(torch.randn(3, c, s, s) for c, s in ((5, G), (4, 8), (3, G))) for _ in (0, 1)]
        masks = torch.rand(3, G, G)
        straight, swapped = seeing(*levels, masks), seeing(*levels[::-1], masks)
        for one, other in zip(straight, swapped[::-1], strict=True):
            for name in Seen.__slots__:
                assert torch.equal(getattr(one, name), getattr(other, name))
        assert not torch.equal(straight[0].label, straight[1].label)


def test_what_is_switched_off_changes_nothing() -> None:
    torch.manual_seed(1)
    levels = [tuple(torch.randn(2, c, G, G) for c in (5, 3)) for _ in range(3)]
    masks = torch.rand(2, 2, G, G)
    alone = Perception((5, 3), width=24, embedded=8, blocks=1, other_side=False).eval()
    assert torch.equal(
        alone(levels[0], levels[1], masks[0])[0].centre, alone(levels[0], levels[2], masks[0])[0].centre
    )
    blind = Perception((5, 3), width=24, embedded=8, blocks=1, use_mask=False).eval()
    assert torch.equal(
        blind(levels[0], levels[1], masks[0])[0].centre, blind(levels[0], levels[1], masks[1])[0].centre
    )


def test_masks_of_crops_are_shares_and_empty_beyond_the_frame() -> None:
    mask = torch.zeros(1, 100, 100, dtype=torch.bool)
    mask[0, 20:60, 40:50] = True
    whole = crop_masks(mask, WHOLE, 10)
    assert float(whole.mean()) == pytest.approx(0.04, abs=1e-4)
    assert whole[0, 2:6, 4].eq(1).all()
    cut = crop_masks(mask, torch.tensor([[0.4, 0.2, 0.2, 0.2]]), 4)
    assert cut[0, :, :2].eq(1).all()
    assert not cut[0, :, 2:].any()
    beyond = crop_masks(torch.ones_like(mask), torch.tensor([[-0.5, -0.5, 2.0, 2.0]]), 8)
    assert beyond[0, 2:6, 2:6].eq(1).all()
    assert beyond.sum() == 16


def test_levels_end_with_the_colours(encoder: Encoder) -> None:
    crops = torch.zeros(2, 2, 3, 128, 128, dtype=torch.uint8)
    crops[1, 1, 0] = 255
    levels = crop_levels(encoder, crops)
    cells = 128 // STRIDE
    assert [tuple(level.shape) for level in levels] == [
        (2, 2, 3, cells, cells), (2, 2, 3, 8, 8), (2, 2, 3, 4, 4), (2, 2, 3, cells, cells),
    ]  # fmt: skip
    assert levels[-1][1, 1, 0].eq(1).all()
    assert levels[-1][0].lt(-0.98).all()
