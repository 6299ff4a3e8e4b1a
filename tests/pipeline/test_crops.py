"""Crops: where a window lies, and that what is cut lies where the window says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.clusters import Box, Cluster
from pipeline.crops import LEAST_SIDE, MARGIN, cut_crops, window

share = st.floats(0, 1)


@given(st.tuples(share, share), st.tuples(share, share), st.integers(48, 1200), st.integers(48, 2000))
@settings(max_examples=300, deadline=None)
def test_a_window_is_a_square_around_its_box_inside_the_frame(
    across_edges: tuple[float, float], down_edges: tuple[float, float], height: int, width: int
) -> None:
    (x0, x1), (y0, y1) = sorted(across_edges), sorted(down_edges)
    x, y, across, down = window((x0, y0, x1 - x0, y1 - y0), height, width)
    assert across * width == pytest.approx(down * height)
    assert across * width >= max(LEAST_SIDE * width, 16) - 1e-6
    assert across * width >= MARGIN * max((x1 - x0) * width, (y1 - y0) * height) - 1e-6
    for start, size, low, high in ((x, across, x0, x1), (y, down, y0, y1)):
        assert start <= low + 1e-9
        assert high <= start + size + 1e-9
        if size <= 1:
            assert start >= -1e-9
            assert start + size <= 1 + 1e-9
        else:  # as much beyond it on both sides
            assert start + size / 2 == pytest.approx(0.5)


def slopes(height: int, width: int) -> NDArray[np.uint8]:
    """A picture whose colours say where a pixel is: red from left to right, green from top to bottom."""
    rows, columns = np.mgrid[0:height, 0:width]
    red, green = 250 * (columns + 0.5) / width, 250 * (rows + 0.5) / height
    return np.stack([red, green, np.full_like(red, 90)], axis=-1).round().astype(np.uint8)


def cluster(box: Box, height: int = 72, width: int = 96) -> Cluster:
    mask = np.zeros((height, width), np.bool_)
    left, top = round(box[0] * width), round(box[1] * height)
    mask[top : top + round(box[3] * height), left : left + round(box[2] * width)] = True
    return Cluster(mask, box, int(mask.sum()))


def shown(crop: NDArray[np.uint8], row: int, column: int) -> tuple[float, float]:
    """The place in 0..1 of the frame that a pixel of a crop of `slopes` shows."""
    red, green = crop[row, column, :2].astype(float)
    return red / 250, green / 250


@pytest.mark.parametrize("frame", [(240, 320), (1080, 1920), (96, 128)])
@pytest.mark.parametrize("box", [(0.4, 0.3, 0.2, 0.25), (0.0, 0.0, 0.1, 0.3), (0.7, 0.55, 0.3, 0.45)])
@pytest.mark.parametrize("size", [64, 128])
def test_what_is_cut_lies_where_the_window_says(frame: tuple[int, int], box: Box, size: int) -> None:
    """Both where a crop shrinks what it shows and where it enlarges it."""
    picture = slopes(*frame)
    crops, windows = cut_crops(picture, picture, (0, 0), [cluster(box)], size)
    assert crops.shape == (1, 2, size, size, 3)
    assert windows[0].tolist() == pytest.approx(window(box, *frame))
    assert np.array_equal(crops[0, 0], crops[0, 1])
    x, y, across, down = windows[0].tolist()
    for row, column in ((3, 3), (size // 2, size // 2), (size - 4, 5), (size - 4, size - 4)):
        meant = x + across * (column + 0.5) / size, y + down * (row + 0.5) / size
        if all(0.01 < v < 0.99 for v in meant):
            assert shown(crops[0, 1], row, column) == pytest.approx(meant, abs=0.008)


def test_before_is_moved_by_the_shift_of_the_alignment() -> None:
    """The shift counts pixels of the masks, which are smaller than the frame."""
    after = slopes(288, 384)
    before = np.roll(
        after, (-4 * 2, -4 * 3), axis=(0, 1)
    )  # its content must go 3 right and 2 down on the mask
    crops, _ = cut_crops(before, after, (3, 2), [cluster((0.4, 0.4, 0.2, 0.25))], 96)
    assert np.abs(crops[0, 0].astype(int) - crops[0, 1]).max() <= 2
    unmoved, _ = cut_crops(before, after, (0, 0), [cluster((0.4, 0.4, 0.2, 0.25))], 96)
    assert np.abs(unmoved[0, 0].astype(int) - unmoved[0, 1])[..., 0].mean() > 5


def test_beyond_the_frame_its_edge_is_repeated() -> None:
    picture = slopes(240, 320)
    crops, windows = cut_crops(picture, picture, (0, 0), [cluster((0.0, 0.0, 1.0, 1.0))], 64)
    x, y, across, down = windows[0].tolist()
    assert (x, y) < (0, 0)
    assert x + across > 1
    assert y + down > 1
    edge = crops[0, 1, 32, :3, 0]
    assert edge.max() <= 5
    assert crops[0, 1, :3, 32, 1].max() <= 5
    assert crops[0, 1, -3:, 32, 1].min() >= 245


def test_thin_things_survive_the_shrinking() -> None:
    """A white line of one pixel in a large frame is still seen in a small crop."""
    picture = np.full((1080, 1920, 3), 40, np.uint8)
    picture[:, 961] = 255
    crops, _ = cut_crops(picture, picture, (0, 0), [cluster((0.3, 0.1, 0.4, 0.8))], 64)
    assert int(crops[0, 1].max()) > 50
    assert crops[0, 1].astype(float).sum((1, 2)).std() < 40, "in every row"


def test_every_cluster_has_its_crops_in_order() -> None:
    picture = slopes(240, 320)
    boxes: list[Box] = [(0.1, 0.1, 0.1, 0.1), (0.6, 0.6, 0.2, 0.2), (0.5, 0.1, 0.1, 0.3)]
    crops, windows = cut_crops(picture, picture[::-1], (0, 0), [cluster(box) for box in boxes], 32)
    for k, box in enumerate(boxes):
        alone, where = cut_crops(picture, picture[::-1], (0, 0), [cluster(box)], 32)
        assert np.array_equal(crops[k], alone[0])
        assert np.array_equal(windows[k], where[0])
    none, nowhere = cut_crops(picture, picture, (0, 0), [], 32)
    assert none.shape == (0, 2, 32, 32, 3)
    assert nowhere.shape == (0, 4)
