import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.narration.narration import MOST_CORNERS, outline

WHOLE = (0.0, 0.0, 1.0, 1.0)
HEIGHT, WIDTH = 72, 96
boxes = st.tuples(st.floats(-0.2, 0.9), st.floats(-0.2, 0.9), st.floats(0.02, 1.2), st.floats(0.02, 1.2))


def filled(corners, shape=(HEIGHT, WIDTH)):
    """Pixels whose centre the polygon encloses."""
    points = np.array(corners) * (shape[1], shape[0])
    rows, columns = np.mgrid[: shape[0], : shape[1]] + 0.5
    flat = [
        cv2.pointPolygonTest(points.astype(np.float32), (float(x), float(y)), measureDist=False) >= 0
        for y, x in zip(rows.ravel(), columns.ravel(), strict=True)
    ]
    return np.array(flat).reshape(shape)


def blob(x, y, across, down, turn=0):
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.ellipse(mask, (x, y), (across, down), turn, 0, 360, 1, cv2.FILLED)
    return mask.astype(bool)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.9), boxes)
@settings(max_examples=60, deadline=None)
def test_every_corner_lies_in_the_box_and_in_the_frame(seed, emptiness, box):
    mask = np.random.default_rng(seed).random((HEIGHT, WIDTH)) > emptiness
    corners = outline(mask, box)
    assert len(corners) == 0 or 3 <= len(corners) <= MOST_CORNERS
    for x, y in corners:
        assert max(0, box[0]) <= x <= min(1, box[0] + box[2])
        assert max(0, box[1]) <= y <= min(1, box[1] + box[3])


@given(st.integers(20, 75), st.integers(20, 50), st.integers(2, 18), st.integers(2, 18), st.integers(0, 180))
@settings(max_examples=40, deadline=None)
def test_the_polygon_covers_most_of_a_thing_and_little_beside_it(x, y, across, down, turn):
    mask = blob(x, y, across, down, turn)
    inside = filled(outline(mask, WHOLE))
    assert (inside & mask).sum() >= 0.9 * mask.sum()
    assert (inside & ~mask).sum() <= 0.1 * mask.sum() + 4


def test_only_what_lies_in_the_box_is_outlined():
    mask = blob(20, 30, 8, 12) | blob(70, 30, 15, 20)
    left = filled(outline(mask, (0.0, 0.0, 0.5, 1.0)))
    assert not left[:, 48:].any()
    assert left[30, 20]
    both = filled(outline(mask, WHOLE))  # one outline tells one thing: the larger
    assert both[30, 70]
    assert not both[30, 20]


def test_a_torn_mask_gives_one_thing():
    mask = blob(45, 35, 14, 20)
    mask[::3] = False
    inside = filled(outline(mask, WHOLE))
    assert (inside & blob(45, 35, 14, 20)).sum() > 0.9 * blob(45, 35, 14, 20).sum()


@pytest.mark.parametrize("rows", [slice(30, 31), slice(30, 60)])
def test_the_smallest_things_keep_an_area(rows):
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[rows, 50] = True
    assert (filled(outline(mask, WHOLE)) == mask).all()


def test_nothing_active_no_outline():
    mask = blob(20, 30, 8, 12)
    assert outline(mask, (0.5, 0.0, 0.5, 1.0)) == ()
    assert outline(mask, (1.0, 0.2, 0.0, 0.3)) == ()
    assert outline(np.zeros((HEIGHT, WIDTH), bool), WHOLE) == ()
