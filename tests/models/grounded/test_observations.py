"""Colour histograms."""

from __future__ import annotations

import numpy as np

from models.grounded.observations import COLOUR_BINS, colour_histograms, colour_likeness


def test_histograms_tell_colours_and_halves_apart() -> None:
    picture = np.full((100, 300, 3), 90, np.uint8)
    picture[:50, :100, 0] = 220  # red above
    picture[50:, :100, 2] = 220  # blue below
    picture[:, 100:200, 2] = 220
    box = [[0.0, 0, 1 / 3, 1], [1 / 3, 0, 1 / 3, 1], [2 / 3, 0, 1 / 3, 1], [0.9, 0.9, 0.5, 0.5]]
    found = colour_histograms(picture, np.array(box, np.float32))
    assert found.shape == (4, COLOUR_BINS)
    np.testing.assert_allclose(np.square(found).sum(1), 4.0, atol=1e-4)
    hue_above, _, hue_below, _ = colour_likeness(found[:1], found[1:2])
    assert float(hue_above[0, 0]) < 0.4
    assert float(hue_below[0, 0]) > 0.9
    assert len(colour_histograms(picture, np.zeros((0, 4), np.float32))) == 0
    white = colour_histograms(np.full((20, 20, 3), 255, np.uint8), np.array([[0, 0, 1, 1]], np.float32))
    assert np.flatnonzero(white[0]).tolist() == [8, 16, 25, 33]  # grey, and the last step of lightness
