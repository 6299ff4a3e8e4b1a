"""L2 distances are exact, whole and block by block."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.distance import l2_luma, l2_rgb


def plain(a: np.ndarray, b: np.ndarray, block: int) -> tuple[float, np.ndarray]:
    squares = (a.astype(np.float64) - b.astype(np.float64)) ** 2
    height, width = a.shape[:2]
    blocks = [
        [np.sqrt(squares[y : y + block, x : x + block].mean()) for x in range(0, width, block)]
        for y in range(0, height, block)
    ]
    return float(np.sqrt(squares.mean())), np.array(blocks)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 40), st.integers(1, 150), st.integers(1, 60), st.booleans(), st.integers(0, 2**32 - 1))
def test_equals_the_plain_formula(height, width, block, rgb, seed):
    shape = (height, width, 3) if rgb else (height, width)
    a, b = np.random.default_rng(seed).integers(0, 256, (2, *shape), np.uint8)
    whole, blocks = (l2_rgb if rgb else l2_luma)(a, b, block)
    expected, expected_blocks = plain(a, b, block)
    assert whole == pytest.approx(expected, rel=1e-12)
    assert blocks.dtype == np.float32
    np.testing.assert_allclose(blocks, expected_blocks, rtol=1e-6)


@pytest.mark.parametrize("block", [1, 31, 32, 500, 8192])
def test_the_largest_difference_does_not_overflow(block):
    black, white = np.zeros((70, 3000, 3), np.uint8), np.full((70, 3000, 3), 255, np.uint8)
    whole, blocks = l2_rgb(black, white, block)
    assert whole == 255.0
    assert (blocks == 255).all()


def test_views_are_measured_as_what_they_show():
    frame = np.random.default_rng(0).integers(0, 256, (64, 90, 3), np.uint8)
    part, flipped = frame[5:45, 7:67], frame[5:45, 7:67][:, ::-1]
    assert l2_rgb(part, flipped)[0] == l2_rgb(part.copy(), flipped.copy())[0] > 0


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5, 3), np.uint8), "of one shape"),
        (np.zeros((4, 4, 3), np.float32), np.zeros((4, 4, 3), np.uint8), "float32"),
        (np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), r"\(4, 4, 4\)"),
        (np.zeros((4, 4), np.uint8), np.zeros((4, 4), np.uint8), r"\(4, 4\)"),
        (np.zeros((0, 4, 3), np.uint8), np.zeros((0, 4, 3), np.uint8), "of one shape"),
    ],
)
def test_refuses_what_is_no_pair_of_images(a, b, says):
    with pytest.raises(ValueError, match=says):
        l2_rgb(a, b)


@pytest.mark.parametrize("block", [0, -1, 8193])
def test_refuses_blocks_out_of_range(block):
    plane = np.zeros((4, 4), np.uint8)
    with pytest.raises(ValueError, match="not within"):
        l2_luma(plane, plane, block)
