"""Several heard as one: their mean, and one alone is itself."""

from __future__ import annotations

import torch
from torch import nn

from models.grounded.ensemble import ensemble


def test_members_are_heard_in_the_mean() -> None:
    members = [nn.Linear(3, 1) for _ in range(3)]
    given = torch.randn(5, 3)
    expected = sum(member(given) for member in members) / 3
    assert torch.allclose(ensemble(members)(given), expected)


def test_one_alone_is_itself() -> None:
    alone = nn.Linear(3, 1)
    assert ensemble([alone]) is alone
