from __future__ import annotations

import pytest
import torch

from train.metrics.retrieval import ranks


def test_the_place_of_the_right_one() -> None:
    scores = torch.tensor([[0.9, 0.1, 0.3], [0.2, 0.8, 0.5], [0.4, 0.4, 0.4], [0.1, 0.2, 0.3]])
    places = ranks(scores, torch.tensor([0, 2, 1, 0]))
    assert places.tolist() == [1, 2, 3, 3]


def test_what_has_no_rank() -> None:
    with pytest.raises(ValueError, match="targets"):
        ranks(torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="NaN"):
        ranks(torch.tensor([[float("nan")]]), torch.tensor([0]))
