"""Views and tiles: both frames at the detector's size, one laid on the other, small changes seen near."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.grounded.inference import canvas
from pipeline.clusters import Cluster
from pipeline.narration.views import MOST, SMALL, TILE, tile_views, tile_windows, whole_views
from pipeline.sources import Image

Box = tuple[float, float, float, float]
STILL = (0.0, 0.0)


def textured(height: int, width: int, seed: int = 1) -> Image:
    """A smooth pattern that is nowhere like elsewhere."""
    noise = np.random.default_rng(seed).normal(120, 300, (height, width, 3))
    return cv2.GaussianBlur(noise, (0, 0), 6).clip(0, 255).astype(np.uint8)


def cluster(box: Box) -> Cluster:
    return Cluster(np.zeros((4, 4), np.bool_), box, 1)


@pytest.mark.parametrize(("height", "width"), [(1080, 1920), (240, 320), (200, 900)])
def test_views_have_the_size_that_the_detector_takes(height: int, width: int) -> None:
    frame = textured(height, width)
    views = whole_views(frame, frame, STILL)
    assert views.shape == (2, *canvas(height, width), 3)
    assert views.dtype == np.uint8
    assert np.array_equal(views[0], views[1])
    shrinks = height * width > views[0, ..., 0].size
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    at_once = cv2.resize(frame, views.shape[2:0:-1], interpolation=way).astype(int)
    assert np.abs(views[0] - at_once).mean() < (0.6 if height > 1000 else 1e-9)  # 1080 lines are halved first


@pytest.mark.parametrize(("height", "width"), [(720, 960), (300, 400)])
def test_a_shaken_camera_gives_two_views_that_lie_on_each_other(height: int, width: int) -> None:
    scene = textured(height + 20, width + 20)
    before, after = scene[10:-10, 10:-10], scene[4:-16, 7:-13]  # all is 3 to the right and 6 down afterwards
    still, laid = (
        np.abs(np.diff(whole_views(before, after, shift).astype(int), axis=0))[0, 20:-20, 20:-20].mean()
        for shift in (STILL, (3 / width, 6 / height))
    )
    assert laid < 0.35 * still
    assert laid < 4
    box = (0.4, 0.5, 0.03, 0.03)
    tiles, _ = tile_views(before, after, (3 / width, 6 / height), [cluster(box)])
    assert np.abs(np.diff(tiles.astype(int), axis=1)).mean() < 2


def test_a_tile_shows_its_window_of_both_frames() -> None:
    before = textured(480, 640)
    after = before.copy()
    after[230:240, 320:330] = (250, 20, 20)
    box = (320 / 640, 230 / 480, 10 / 640, 10 / 480)
    tiles, windows = tile_views(before, after, STILL, [cluster(box)])
    assert tiles.shape == (1, 2, TILE, TILE, 3)
    x, y, w, h = windows[0].tolist()
    red = np.abs(tiles[0, 1].astype(int) - (250, 20, 20)).max(2) < 30
    rows, columns = np.nonzero(red)
    assert (columns.min() / TILE * w + x) * 640 == pytest.approx(320, abs=1)
    assert ((columns.max() + 1) / TILE * w + x) * 640 == pytest.approx(330, abs=1)
    assert (rows.min() / TILE * h + y) * 480 == pytest.approx(230, abs=1)
    assert ((rows.max() + 1) / TILE * h + y) * 480 == pytest.approx(240, abs=1)
    assert (
        np.abs(tiles[0, 0].astype(int) - tiles[0, 1])[
            ~cv2.dilate(red.astype(np.uint8), np.ones((9, 9))).astype(bool)
        ].max()
        == 0
    )


def test_what_is_thin_is_not_lost_where_a_view_is_smaller() -> None:
    """Bilinear sampling of every fourth line would show it or not, as chance has it."""
    frame = np.zeros((1440, 2560, 3), np.uint8)
    frame[::4] = 240
    for shift in (STILL, (0.01, 0.01)):
        view = whole_views(frame, frame, shift)[0, 40:-40, 40:-40]
        assert view.mean() == pytest.approx(60, abs=8)
        assert view.max() < 160


def test_only_what_is_small_has_a_tile() -> None:
    high, wide = canvas(480, 640)
    small, large = (0.5, 0.5, 0.9 * SMALL / wide, 0.02), (0.1, 0.1, 1.1 * SMALL / wide, 0.02)
    tall = (0.8, 0.2, 0.01, 1.1 * SMALL / high)
    assert len(tile_windows([large, small, tall], 480, 640)) == 1
    tiles, windows = tile_views(textured(480, 640), textured(480, 640), STILL, [cluster(large)])
    assert tiles.shape == (0, 2, TILE, TILE, 3)
    assert windows.shape == (0, 4)


@given(
    st.lists(
        st.tuples(*(st.floats(0, 0.999) for _ in "xy"), *(st.floats(0.001, 0.3) for _ in "wh")), max_size=8
    ),
    st.sampled_from([(480, 640), (1080, 1920), (640, 360)]),
)
def test_windows_are_square_lie_in_the_frame_and_hold_their_clusters(
    boxes: list[Box], size: tuple[int, int]
) -> None:
    boxes = [(x, y, min(w, 1 - x), min(h, 1 - y)) for x, y, w, h in boxes]
    height, width = size
    windows = tile_windows(boxes, height, width)
    assert len(windows) <= MOST
    for x, y, w, h in windows:
        assert w * width == pytest.approx(h * height) or 1.0 in (w, h)
        assert min(x, y) >= 0
        assert max(x + w, y + h) <= 1 + 1e-9
    high, wide = canvas(height, width)
    small = [b for b in boxes if max(b[2] * wide, b[3] * high) < SMALL]
    for x, y, w, h in small[: 1 if windows else 0]:
        a, b, c, d = windows[0]
        assert a <= x + 1e-9
        assert b <= y + 1e-9
        assert x + w <= a + c + 1e-9
        assert y + h <= b + d + 1e-9
    assert bool(windows) is bool(small)


def test_neighbours_share_a_tile_and_the_most_salient_come_first() -> None:
    one, beside, far = (0.5, 0.5, 0.02, 0.02), (0.53, 0.5, 0.02, 0.02), (0.05, 0.05, 0.02, 0.02)
    windows = tile_windows([one, beside, far], 480, 640)
    assert len(windows) == 2
    assert windows[0][0] < 0.5 < windows[0][0] + windows[0][2]
    spread = [(x, y, 0.01, 0.01) for y in (0.1, 0.5, 0.9) for x in (0.1, 0.5, 0.9)]
    assert tile_windows(spread, 480, 640) == tile_windows(spread[:MOST], 480, 640)
