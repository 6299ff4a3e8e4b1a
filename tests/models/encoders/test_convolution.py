"""The convolution that takes its ReLU6 along computes what the two would."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from models.encoders.convolution import Convolution, InvertedBottleneck


def padded_by_itself(stride: int, padding: tuple[int, int, int, int] = (1, 1, 1, 1)) -> nn.Conv2d:
    convolution = nn.Conv2d(8, 8, 3, stride=stride, groups=8)
    convolution.static_padding = nn.ZeroPad2d(padding)
    return convolution


def pictures() -> torch.Tensor:
    return 20 * torch.randn(2, 8, 12, 10, generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=["fused", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr("models.encoders.convolution._FUSES", False)
    return request.param


@pytest.mark.parametrize("rectified", [True, False])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (0, 1, 0, 1), (2, 0, 0, 3), (0, 0, 0, 0)])
def test_it_is_padding_convolution_and_relu6(
    way: str, stride: int, padding: tuple[int, int, int, int], *, rectified: bool
) -> None:
    given = padded_by_itself(stride, padding)
    with torch.no_grad():
        expected = nn.Conv2d.forward(given, given.static_padding(pictures()))
        expected = expected.clamp(0, 6) if rectified else expected
        result = Convolution(given, rectified=rectified)(pictures())
    torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)


def test_a_bottleneck_adds_its_input_and_leaves_it_as_it_was(way: str) -> None:
    expand, project = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
    x = pictures()
    with torch.no_grad():
        with_skip, without = (
            InvertedBottleneck(expand, padded_by_itself(1), project, skip=skip).requires_grad_(
                requires_grad=False
            )
            for skip in (True, False)
        )
        with_skip.path = without.path
        torch.testing.assert_close(with_skip(x), without(x) + x)
    assert torch.equal(x, pictures())
