"""Which thing before is which thing after: by looks and by place."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.grounding import link_loss
from models.linking import MEASURES, Linker, linked
from models.perception import OBJECTS
from models.things import Things

LEFT, MIDDLE, RIGHT = (0.1, 0.4, 0.1, 0.2), (0.45, 0.4, 0.1, 0.2), (0.8, 0.4, 0.1, 0.2)


def random_things(count: int, random: torch.Generator, pairs: int = 2) -> Things:
    box = torch.rand(count, 4, generator=random) * 0.4 + 0.02
    return Things(
        torch.randint(pairs, (count,), generator=random),
        torch.zeros(count, dtype=torch.int64),
        box,
        torch.rand(count, generator=random),
        torch.rand(count, len(OBJECTS), generator=random).softmax(1),
        torch.randn(count, 5, generator=random),
        torch.rand(count, 6, generator=random),
    )


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


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_measures_are_the_same_backwards(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    one, other = random_things(4, random), random_things(3, random)
    straight, backwards = Linker.measures(one, other), Linker.measures(other, one)
    assert straight.shape == (4, 3, MEASURES)
    torch.testing.assert_close(straight, backwards.transpose(0, 1))
    assert torch.isfinite(straight).all()
    assert straight.abs().max() < 12
    torch.manual_seed(seed)
    linker = Linker()
    torch.testing.assert_close(linker(one, other), linker(other, one).T)


def test_things_that_are_alike_and_near_measure_so() -> None:
    before, after = standing(LEFT), standing(LEFT, RIGHT)
    same, apart = Linker.measures(before, after)[0]
    assert same.tolist() == pytest.approx([2, 0, 0, 2, 0, 0, 0, 2, 1], abs=1e-5)
    assert apart[:5].tolist() == same[:5].tolist()
    assert (apart[5] > 3, apart[6] > 2.5, float(apart[7]), float(apart[8])) == (True, True, 0, 0)
    assert Linker.measures(before, standing(LEFT, colour=0.7))[0, 0, 1] == pytest.approx(0.7)


@given(st.integers(0, 10_000), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_each_thing_has_one_link_at_most_in_its_own_pair(seed: int, least: float) -> None:
    random = torch.Generator().manual_seed(seed)
    before, after = random_things(6, random), random_things(5, random)
    sure = torch.rand(6, 5, generator=random)
    links = linked(sure, before, after, least)
    assert len({i for i, _ in links}) == len({j for _, j in links}) == len(links)
    for i, j in links:
        assert before.pair[i] == after.pair[j]
        assert sure[i, j] >= least
    free_i, free_j = set(range(6)) - {i for i, _ in links}, set(range(5)) - {j for _, j in links}
    assert not [
        (i, j) for i in free_i for j in free_j if before.pair[i] == after.pair[j] and sure[i, j] >= least
    ]
    assert {(j, i) for i, j in linked(sure.T, after, before, least)} == set(links)


def test_the_surest_link_comes_first() -> None:
    two = standing(LEFT, RIGHT)
    assert linked(torch.tensor([[0.6, 0.9], [0.2, 0.8]]), two, two) == [(0, 1), (1, 0)]
    assert linked(torch.tensor([[0.6, 0.9], [0.05, 0.8]]), two, two) == [(0, 1)]


def test_links_are_learned_from_true_ones() -> None:
    """Every weight gets a gradient, and what looks alike becomes likely."""
    torch.manual_seed(2)
    random, linker = torch.Generator().manual_seed(2), Linker()
    before, after = random_things(6, random, pairs=1), random_things(6, random, pairs=1)
    after.feature[:4] = before.feature[:4] + 0.1
    after.colour[:4] = before.colour[:4]
    same = torch.tensor([0, 1, 2, 3, 10, -1]), torch.tensor([0, 1, 2, 3, 11, 12])
    optimiser = torch.optim.Adam(linker.parameters(), lr=0.05)
    losses = []
    for _ in range(120):
        loss = link_loss(linker(before, after), before, after, same)
        optimiser.zero_grad()
        loss.backward()
        if not losses:
            assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in linker.parameters())
            assert all(p.grad is not None and p.grad.any() for p in linker.parameters())
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 * losses[0]
    assert set(linked(linker(before, after).sigmoid().detach(), before, after, 0.5)) >= {
        (k, k) for k in range(4)
    }
