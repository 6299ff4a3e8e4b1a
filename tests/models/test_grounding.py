"""How things, links and prior are compared with what is known."""

from __future__ import annotations

import pytest
import torch

from models.grounding import identities, link_loss, matched, prior_loss
from models.linking import Linker
from models.perception import OBJECTS, Truth
from models.telling import Tale
from models.things import Things

LEFT, MIDDLE, RIGHT = (0.1, 0.4, 0.1, 0.2), (0.45, 0.4, 0.1, 0.2), (0.8, 0.4, 0.1, 0.2)


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


def test_nothing_is_learned_of_what_is_not_known() -> None:
    linker, things = Linker(), standing(LEFT, RIGHT)
    unknown = torch.tensor([-1, -1])
    loss = link_loss(linker(things, things), things, things, (unknown, unknown))
    loss.backward()
    assert float(loss.detach()) == 0
    assert not any(p.grad is not None and p.grad.any() for p in linker.parameters())


def known() -> Truth:
    """One object before on the left; after, another one there and one of unknown identity on the right."""
    return Truth(
        torch.tensor([[0, 1, 1, -1]]),
        torch.zeros(1, 4, dtype=torch.int64),
        torch.tensor([[LEFT, LEFT, RIGHT, RIGHT]]),
        torch.ones(1, 4, dtype=torch.bool),
        torch.tensor([[7, 8, -1, 9]]),
        torch.ones(1),
        torch.full((1, 1, 4), -1),
    )


def test_things_are_matched_with_the_true_objects_of_their_side() -> None:
    shifted = (LEFT[0] + 0.02, *LEFT[1:])
    things = standing(shifted, MIDDLE, RIGHT)
    for side, expected, who in ((0, [0, -1, -1], [7, -1, -1]), (1, [1, -1, 2], [8, -1, -1])):
        own = matched(things, known(), side)
        assert own.tolist() == expected
        assert identities(things, own, known()).tolist() == who
    assert matched(standing(), known(), 0).tolist() == []


def test_the_prior_learns_to_weigh_what_is_true() -> None:
    gone = Tale(0, 0, "disappeared", "person", 1, LEFT, None, 0.9, 0.9)
    wrong = Tale(0, 0, "disappeared", "person", 1, MIDDLE, None, 0.9, 0.9)
    pair, even = torch.zeros(3, dtype=torch.int64), torch.full((3,), 1 / 3).log()
    cost = prior_loss(even, [None, gone, wrong], pair, known(), 1)
    assert float(cost) == pytest.approx(-float(torch.tensor(1 / 3).log()))
    sure = torch.tensor([0.005, 0.99, 0.005]).log()
    assert float(prior_loss(sure, [None, gone, wrong], pair, known(), 1)) == pytest.approx(0.01, abs=1e-3)
    # There is something to tell, but no row tells it: nothing is learnt.
    assert float(prior_loss(even[:2], [None, wrong], pair[:2], known(), 1)) == 0
    nothing = known()
    nothing.side[:] = -1
    silent = torch.tensor([0.99, 0.01]).log()
    assert float(prior_loss(silent, [None, wrong], pair[:2], nothing, 1)) == pytest.approx(0.01, abs=1e-3)
    assert torch.isfinite(prior_loss(sure, [None, gone, wrong], pair, known(), 1))
