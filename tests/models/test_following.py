"""What the points followed through the frames in between prove, and when they say that it happened."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.following import followed, moment_s
from models.perception import OBJECTS
from models.telling import Box, Tale
from models.things import Things

LEFT, MIDDLE, RIGHT = (0.1, 0.4, 0.1, 0.2), (0.45, 0.4, 0.1, 0.2), (0.8, 0.4, 0.1, 0.2)
GAP_S = 6.0


def standing(*boxes: tuple[float, ...], colour: float = 0.0) -> Things:
    """Things of pair 0 that look alike."""
    n = len(boxes)
    return Things(
        torch.zeros(n, dtype=torch.int64),
        torch.zeros(n, dtype=torch.int64),
        torch.tensor(boxes).view(-1, 4),
        torch.full((n,), 0.9),
        torch.eye(len(OBJECTS))[torch.zeros(n, dtype=torch.int64)],
        torch.ones(n, 5),
        torch.full((n, 6), colour),
    )


def run(
    start: tuple[float, ...],
    end: tuple[float, ...],
    seconds: tuple[float, float] = (0.0, GAP_S),
    points: int = 6,
) -> list[list[float]]:
    """Points that run from the middle of one box to the middle of another."""
    tracks = []
    for p in range(points):
        off = 0.01 * p - 0.02
        x, y, u, v = start[0] + 0.05 + off, start[1] + 0.1, end[0] + 0.05 + off, end[1] + 0.1
        tracks.append([x, y, seconds[0], u, v, seconds[1]])
    return tracks


BACKGROUND = run((0.0, 0.0), (0.0, 0.0))
"""Points of the background: there is always something that is seen from beginning to end."""


def tracks(*some: list[list[float]]) -> Tensor:
    rows = [row for each in (*some, BACKGROUND) for row in each]
    return torch.tensor([*rows, [torch.nan] * 6]).unsqueeze(0)


def mirrored(some: Tensor) -> Tensor:
    """The same points of the pair read backwards."""
    turned = some[..., [3, 4, 5, 0, 1, 2]].clone()
    turned[..., 2] = GAP_S - turned[..., 2]
    turned[..., 5] = GAP_S - turned[..., 5]
    return turned


def test_points_that_run_through_prove_that_two_are_one() -> None:
    before, after = standing(LEFT, MIDDLE), standing(RIGHT, MIDDLE)
    looks = torch.full((2, 2), 0.3)
    same = followed(looks, before, after, tracks(run(LEFT, RIGHT)))
    assert same[0, 0] > 0.9
    assert same[0, 1] == same[1, 0] == same[1, 1] == pytest.approx(0.3)


def test_a_single_point_proves_nothing() -> None:
    looks = torch.full((1, 1), 0.3)
    same = followed(looks, standing(LEFT), standing(RIGHT), tracks(run(LEFT, RIGHT, points=1)))
    assert same.item() == pytest.approx(0.3)


def test_one_gone_long_before_the_other_came_is_another() -> None:
    before, after, looks = standing(LEFT), standing(LEFT), torch.full((1, 1), 0.9)
    went, came = run(LEFT, MIDDLE, (0.0, 1.5)), run(MIDDLE, LEFT, (4.5, GAP_S))
    assert followed(looks, before, after, tracks(went, came)).item() < 0.05
    there_at_once = run(LEFT, MIDDLE, (0.0, 4.0)), run(RIGHT, LEFT, (1.0, GAP_S))
    assert followed(looks, before, after, tracks(*there_at_once)).item() < 0.05
    handed_over = run(LEFT, MIDDLE, (0.0, 3.0)), run(MIDDLE, LEFT, (3.2, GAP_S))
    assert followed(looks, before, after, tracks(*handed_over)).item() == pytest.approx(0.9)
    few = run(LEFT, MIDDLE, (0.0, 1.5), points=3), run(MIDDLE, LEFT, (4.5, GAP_S), points=3)
    assert followed(looks, before, after, tracks(*few)).item() == pytest.approx(0.9)


def test_without_frames_in_between_looks_decide() -> None:
    before, after, looks = standing(LEFT), standing(RIGHT), torch.tensor([[0.4]])
    for none in (None, torch.zeros(1, 0, 6), torch.full((1, 4, 6), torch.nan), tracks()):
        assert torch.equal(followed(looks, before, after, none), looks)
    nobody = standing()
    assert followed(torch.zeros(0, 1), nobody, after, tracks(run(LEFT, RIGHT))).shape == (0, 1)
    assert followed(torch.zeros(1, 0), before, nobody, tracks(run(LEFT, RIGHT))).shape == (1, 0)


def test_tracks_of_another_pair_say_nothing() -> None:
    before, after = standing(LEFT), standing(RIGHT)
    after.pair[0] = 1
    both = torch.cat([tracks(run(LEFT, RIGHT)), tracks(run(LEFT, RIGHT))])
    assert followed(torch.tensor([[0.4]]), before, after, both).item() == pytest.approx(0.4)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_read_backwards_tracks_say_the_same(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    before, after = standing(LEFT, MIDDLE), standing(MIDDLE, RIGHT)
    places = (LEFT, MIDDLE, RIGHT)
    some = []
    for _ in range(4):
        a, b = (places[int(torch.randint(3, (), generator=random))] for _ in (0, 1))
        cut = float(torch.rand((), generator=random)) * GAP_S
        kind = int(torch.randint(3, (), generator=random))
        some.append(run(a, b, ((0.0, GAP_S), (0.0, cut), (cut, GAP_S))[kind]))
    looks = torch.rand(2, 2, generator=random)
    straight = followed(looks, before, after, tracks(*some))
    backwards = followed(looks.T, after, before, mirrored(tracks(*some)))
    torch.testing.assert_close(straight, backwards.T)


def tale(kind: str, box: Box) -> Tale:
    before, after = (box, None) if kind == "disappeared" else (None, box)
    return Tale(0, 0, kind, "person", 1, before, after, 0.9, 0.9)


def test_it_came_when_it_was_first_seen_and_went_when_it_was_last_seen() -> None:
    went, came = run(LEFT, MIDDLE, (0.0, 1.5)), run(MIDDLE, RIGHT, (4.5, GAP_S))
    through = tracks(went, came)
    assert moment_s(tale("disappeared", LEFT), through) == pytest.approx(1.5)
    assert moment_s(tale("appeared", RIGHT), through) == pytest.approx(4.5)
    backwards = mirrored(through)
    assert moment_s(tale("appeared", LEFT), backwards) == pytest.approx(GAP_S - 1.5)
    assert moment_s(tale("disappeared", RIGHT), backwards) == pytest.approx(GAP_S - 4.5)


def test_where_no_point_says_when_it_is_not_known() -> None:
    through = tracks(run(MIDDLE, RIGHT, (4.5, GAP_S)))
    assert moment_s(tale("appeared", LEFT), through) is None
    assert moment_s(tale("appeared", RIGHT), None) is None
    assert moment_s(tale("appeared", RIGHT), tracks(run(RIGHT, RIGHT))) is None, "it was there from the first"
    both = Tale(0, 0, "moved", "person", 1, LEFT, RIGHT, 0.9, 0.9)
    assert moment_s(both, through) is None
