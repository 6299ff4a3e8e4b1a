"""The alignment shift is the one of least L2 distance."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.changes.difference import alignment_shift, shift_image


def textured(seed: int, height: int = 60, width: int = 80) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 1.5), None, 0, 255, cv2.NORM_MINMAX)


def searched(before: np.ndarray, after: np.ndarray, reach: int) -> tuple[int, int]:
    """The definition, word for word."""
    height, width = before.shape[:2]
    window = after[reach : height - reach, reach : width - reach].astype(np.int64)
    costs = {}
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            moved = before[reach - dy : height - reach - dy, reach - dx : width - reach - dx]
            costs[dx, dy] = (((window - moved) ** 2).sum(), dx * dx + dy * dy)
    return min(costs, key=lambda shift: costs[shift])


@settings(max_examples=60, deadline=None)
@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(0, 2**32 - 1), st.sampled_from([0, 10]))
def test_recovers_a_known_shift(dx, dy, seed, noise):
    scene = textured(seed, 90, 110)
    before, after = scene[10:70, 10:90], scene[10 - dy : 70 - dy, 10 - dx : 90 - dx]
    random = np.random.default_rng(seed)
    noisy = np.clip(after + random.normal(0, noise, after.shape), 0, 255).astype(np.uint8)
    assert alignment_shift(before, noisy, 5) == (dx, dy)
    inner = (slice(5, -5), slice(5, -5))
    assert (shift_image(before, (dx, dy))[inner] == after[inner]).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(0, 255))
def test_equals_the_exhaustive_search_whatever_the_pictures(seed, reach, level):
    random = np.random.default_rng(seed)
    before, after = textured(seed, 24, 30), textured(seed + 1, 24, 30)
    after[4:20, 4:20] = level
    before[random.random((24, 30)) < 0.3] = level
    found, expected = alignment_shift(before, after, reach), searched(before, after, reach)
    assert found == expected


def test_equal_distances_take_the_smallest_shift():
    flat = np.full((20, 30, 3), 7, np.uint8)
    assert alignment_shift(flat, flat, 4) == (0, 0)
    stripes = np.zeros((20, 32, 3), np.uint8)
    stripes[:, ::4] = 255
    assert alignment_shift(stripes, np.roll(stripes, 1, axis=1), 4) == (1, 0)


def test_no_search_without_reach():
    assert alignment_shift(textured(0), textured(1), 0) == (0, 0)


def test_the_edge_is_replicated():
    image = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert shift_image(image, (1, 0)).tolist() == [[0, 0, 1, 2], [4, 4, 5, 6], [8, 8, 9, 10]]
    assert shift_image(image, (0, -1)).tolist() == [[4, 5, 6, 7], [8, 9, 10, 11], [8, 9, 10, 11]]
    assert shift_image(image, (0, 0)) is image


@pytest.mark.parametrize(
    ("before", "after", "reach", "says"),
    [
        (np.zeros((20, 20, 3), np.uint8), np.zeros((20, 21, 3), np.uint8), 2, "one shape"),
        (np.zeros((20, 20, 3), np.int16), np.zeros((20, 20, 3), np.int16), 2, "uint8"),
        (np.zeros((20, 20, 3), np.uint8), np.zeros((20, 20, 3), np.uint8), -1, "0 or more"),
        (np.zeros((20, 8, 3), np.uint8), np.zeros((20, 8, 3), np.uint8), 4, "too small"),
        (np.zeros((20, 12000, 3), np.uint8), np.zeros((20, 12000, 3), np.uint8), 4, "too wide"),
    ],
)
def test_refuses_what_it_cannot_align(before, after, reach, says):
    with pytest.raises(ValueError, match=says):
        alignment_shift(before, after, reach)
