import pytest
import torch

from train.grounded.detector import between
from train.grounded.start import starting_detector


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_weights_between_two_detectors(share: float) -> None:
    start, trained = starting_detector(None, 1), starting_detector(None, 2)
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    first, made = start.state_dict(), between(start, trained, share).state_dict()
    assert list(made) == list(before)
    for name, value in made.items():
        learnt = before[name].double()
        assert torch.allclose(value.double(), first[name] + share * (learnt - first[name]), atol=1e-6), name
    assert all(torch.equal(value, before[name]) for name, value in trained.state_dict().items())
