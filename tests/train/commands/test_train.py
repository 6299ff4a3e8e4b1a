"""What `narrated-train train` says at its end."""

from __future__ import annotations

import pytest

from train.commands.train import _kept
from train.learning.loop import Point, Trained


@pytest.mark.parametrize(
    ("curves", "best", "stopped", "said"),
    [
        (1, 1, False, "trained for 1 epoch; kept epoch 1, the last"),
        (2, 1, False, "trained for 2 epochs; kept epoch 1, the best"),
        (7, 3, True, "stopped early, after 7 epochs; kept epoch 3, the best"),
    ],
)
def test_it_is_said_which_epoch_is_kept(curves: int, best: int, stopped: bool, said: str) -> None:
    points = tuple(Point(number, 1.0, 0.5, 2.0) for number in range(1, curves + 1))
    assert _kept(Trained(points, best, stopped_early=stopped, seconds=1.0)) == said
