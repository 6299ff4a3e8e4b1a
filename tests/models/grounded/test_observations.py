"""Colour histograms and the embedding of features."""

from __future__ import annotations

import torch

from models.grounded.observations import (
    COLOUR_BINS,
    FEATURES,
    FeatureEmbedding,
    colour_histograms,
    colour_likeness,
)


def test_histograms_tell_colours_and_halves_apart() -> None:
    picture = torch.full((3, 100, 300), 90, dtype=torch.uint8)
    picture[0, :50, :100] = 220  # red above
    picture[2, 50:, :100] = 220  # blue below
    picture[2, :, 100:200] = 220
    box = torch.tensor([[0.0, 0, 1 / 3, 1], [1 / 3, 0, 1 / 3, 1], [2 / 3, 0, 1 / 3, 1], [0.9, 0.9, 0.5, 0.5]])
    found = colour_histograms(picture, box)
    assert found.shape == (4, COLOUR_BINS)
    assert torch.allclose(found.square().sum(1), torch.full((4,), 4.0), atol=1e-4)
    hue_above, _, hue_below, _ = colour_likeness(found[:1], found[1:2])
    assert float(hue_above) < 0.4
    assert float(hue_below) > 0.9
    assert len(colour_histograms(picture, torch.zeros(0, 4))) == 0
    white = colour_histograms(torch.full((3, 20, 20), 255, dtype=torch.uint8), torch.tensor([[0.0, 0, 1, 1]]))
    assert white[0].nonzero().flatten().tolist() == [8, 16, 25, 33]  # grey, and the last step of lightness


def test_embeddings_have_unit_length() -> None:
    torch.manual_seed(0)
    found = FeatureEmbedding().eval()(torch.randn(5, FEATURES))
    assert torch.allclose(found.norm(dim=1), torch.ones(5))
