"""Judging: what the judge is given is finite, and the same from either side."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.detections import Detections
from models.families import OBJECTS
from models.grounded.change_classifier import EVIDENCE, ChangeClassifier, ObservedPair, evidence
from models.grounded.observations import Observations, observe

CHANGED, CORRELATION = (
    EVIDENCE.index(name)
    for name in ("share of its box that differs", "correlation of the two pictures there")
)


def sides_of(count: tuple[int, int], seed: int, gap_s: float) -> ObservedPair:
    chance = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=chance)

    pictures = (numbers(2, 3, 64, 96) * 255).byte()
    both = []
    for picture, n in zip(pictures, count, strict=True):
        low = numbers(n, 2)
        box = torch.cat([low, numbers(n, 2) * (1 - low)], dim=1)
        label = numbers(n, len(OBJECTS)) * (numbers(n, len(OBJECTS)) > 0.5)
        both.append(observe(picture, Detections(box, numbers(n), label, numbers(n, 192))))
    clusters = numbers(seed % 3, 4) / 2
    changed = (numbers(40, 60) > 0.6).float()
    return ObservedPair((both[0], both[1]), pictures, changed, clusters, torch.tensor(gap_s))


def swapped(sides: ObservedPair) -> ObservedPair:
    return ObservedPair(sides.sides[::-1], sides.pictures.flip(0), sides.changed, sides.clusters, sides.gap_s)


@given(
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.integers(0, 999),
    st.sampled_from([0.0, 0.4, 3600.0, 1e9, math.nan]),
)
@settings(max_examples=60, deadline=None)
def test_evidence_is_finite_and_swapping_the_sides_swaps_it(
    count: tuple[int, int], seed: int, gap_s: float
) -> None:
    sides = sides_of(count, seed, gap_s)
    for side in (0, 1):
        given_ = evidence(sides, side)
        assert given_.shape == (count[side], len(EVIDENCE))
        assert torch.isfinite(given_).all()
        torch.testing.assert_close(given_, evidence(swapped(sides), 1 - side))
        assert torch.isfinite(ChangeClassifier(8)(given_)).all()


def test_the_order_of_ends_does_not_matter() -> None:
    sides = sides_of((4, 3), 5, 8.0)
    order = torch.tensor([2, 0, 3, 1])
    other = ObservedPair(
        (sides.sides[0].select(order), sides.sides[1]),
        sides.pictures,
        sides.changed,
        sides.clusters,
        sides.gap_s,
    )
    torch.testing.assert_close(evidence(other, 0), evidence(sides, 0)[order])
    torch.testing.assert_close(evidence(other, 1), evidence(sides, 1))


def one_car(box: tuple[float, ...], picture: torch.Tensor) -> Observations:
    label = torch.zeros(1, len(OBJECTS))
    label[0, OBJECTS.index("car")] = 0.9
    return observe(picture, Detections(torch.tensor([box]), torch.tensor([0.9]), label, torch.ones(1, 192)))


def test_what_stays_looks_unchanged_and_what_came_does_not() -> None:
    chance = torch.Generator().manual_seed(3)
    before = (torch.rand(3, 64, 96, generator=chance) * 255).byte()
    after = before.clone()
    after[:, 32:64, 0:48] = (torch.rand(3, 32, 48, generator=chance) * 255).byte()
    changed = torch.zeros(64, 96)
    changed[32:64, 0:48] = 1
    there, new = (0.5, 0.0, 0.5, 0.5), (0.0, 0.5, 0.5, 0.5)
    for box, share in ((there, 0.0), (new, 1.0)):
        sides = ObservedPair(
            (one_car(there, before), one_car(box, after)),
            torch.stack([before, after]),
            changed,
            torch.zeros(0, 4),
            torch.tensor(math.nan),
        )
        [row] = evidence(sides, 1).tolist()
        assert row[CHANGED] == share
        assert (row[CORRELATION] > 0.99) is (share == 0)
        assert row[EVIDENCE.index("best score of its family there on the other side")] == pytest.approx(
            0.9 * (share == 0)
        )


def test_the_judge_learns_what_it_is_given() -> None:
    torch.manual_seed(0)
    rows = torch.randn(256, len(EVIDENCE)) * 7 + 3
    change = rows[:, CHANGED] > 3
    judge = ChangeClassifier(8)
    judge.fit_scaling(rows)
    optimiser = torch.optim.Adam(judge.parameters(), lr=0.02)
    for _ in range(150):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(judge(rows), change.float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert ((judge(rows) > 0) == change).float().mean() > 0.97
