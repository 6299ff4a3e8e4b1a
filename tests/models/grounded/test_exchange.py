"""Exchanges: another vehicle where one stood is two vehicles, one in another light is one."""

from __future__ import annotations

import math

import pytest
import torch

from models.detections import Detections
from models.families import OBJECTS
from models.grounded.exchange import ALIKE, LATER_S, exchanged
from models.grounded.judge import Sides, correlation_at
from models.grounded.linker import Ends, ends

BOX = torch.tensor([[0.3, 0.4, 0.2, 0.3]])


def sides_of(
    *pictures: torch.Tensor,
    name: str = "car",
    scores: tuple[float, float] = (0.9, 0.9),
    boxes: tuple[torch.Tensor, torch.Tensor] = (BOX, BOX),
    gap_s: float = 3600.0,
) -> tuple[Sides, Ends, Ends]:
    label = torch.zeros(1, len(OBJECTS))
    label[0, OBJECTS.index(name)] = 1
    one, two = (
        ends(picture, Detections(box, torch.tensor([score]), label, torch.zeros(1, 192)))
        for picture, score, box in zip(pictures, scores, boxes, strict=True)
    )
    nothing = torch.zeros(8, 8), torch.zeros(0, 4)
    return Sides((one, two), torch.stack(pictures), *nothing, torch.tensor(gap_s)), one, two


def picture(seed: int, gain: float = 1.0) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, 12, 16, generator=chance) * 200 * gain
    return torch.nn.functional.interpolate(coarse, (96, 128), mode="bilinear")[0].byte()


ONE, OTHER = picture(1), picture(2)


def test_another_one_at_the_same_place_is_two() -> None:
    assert exchanged(*sides_of(ONE, OTHER)).tolist() == [[True]]


def test_the_same_one_in_another_light_is_one() -> None:
    assert exchanged(*sides_of(ONE, picture(1, gain=0.4))).tolist() == [[False]]


@pytest.mark.parametrize(("gap_s", "told"), [(LATER_S, True), (LATER_S - 1, False), (math.nan, False)])
def test_only_where_a_minute_is_known_to_lie_between(gap_s: float, told: bool) -> None:
    assert exchanged(*sides_of(ONE, OTHER, gap_s=gap_s)).tolist() == [[told]]


def test_only_vehicles() -> None:
    assert not exchanged(*sides_of(ONE, OTHER, name="person")).any()


@pytest.mark.parametrize("scores", [(0.9, 0.39), (0.39, 0.9)])
def test_both_must_be_there(scores: tuple[float, float]) -> None:
    assert not exchanged(*sides_of(ONE, OTHER, scores=scores)).any()


def test_who_stands_elsewhere_is_no_exchange() -> None:
    assert not exchanged(*sides_of(ONE, OTHER, boxes=(BOX, BOX + torch.tensor([0.1, 0.0, 0.0, 0.0])))).any()


def test_the_surer_both_are_there_the_less_unlike_they_need_be() -> None:
    half = (0.2 * ONE.float() + 0.8 * OTHER.float()).byte()
    sides, one, two = sides_of(ONE, half)
    alike = float(correlation_at(sides.pictures, BOX)[0])
    assert 0.35 < alike < ALIKE  # what the pictures are made for
    assert exchanged(sides, one, two).any()
    assert not exchanged(*sides_of(ONE, half, scores=(0.4, 0.9))).any()


def test_sides_without_ends() -> None:
    sides, one, two = sides_of(ONE, OTHER)
    none = one.select(torch.zeros(0, dtype=torch.int64))
    assert exchanged(sides, none, two).shape == (0, 1)
    assert exchanged(sides, one, none).shape == (1, 0)
