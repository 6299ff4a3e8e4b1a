"""Views: both frames at the detector's size, one laid on the other."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from models.grounded.inference import canvas
from pipeline.narration.batch import views
from pipeline.sources import Image

Box = tuple[float, float, float, float]
STILL = (0.0, 0.0)


def textured(height: int, width: int, seed: int = 1) -> Image:
    """A smooth pattern that is nowhere like elsewhere."""
    noise = np.random.default_rng(seed).normal(120, 300, (height, width, 3))
    return cv2.GaussianBlur(noise, (0, 0), 6).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize(("height", "width"), [(1080, 1920), (240, 320), (200, 900)])
def test_views_have_the_size_that_the_detector_takes(height: int, width: int) -> None:
    frame = textured(height, width)
    both = views(frame, frame, STILL)
    assert both.shape == (2, *canvas(height, width), 3)
    assert both.dtype == np.uint8
    assert np.array_equal(both[0], both[1])
    shrinks = height * width > both[0, ..., 0].size
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    at_once = cv2.resize(frame, both.shape[2:0:-1], interpolation=way).astype(int)
    assert np.abs(both[0] - at_once).mean() < (0.6 if height > 1000 else 1e-9)  # 1080 lines are halved first


@pytest.mark.parametrize(("height", "width"), [(720, 960), (300, 400)])
def test_a_shaken_camera_gives_two_views_that_lie_on_each_other(height: int, width: int) -> None:
    scene = textured(height + 20, width + 20)
    before, after = scene[10:-10, 10:-10], scene[4:-16, 7:-13]  # all is 3 to the right and 6 down afterwards
    still, laid = (
        np.abs(np.diff(views(before, after, shift).astype(int), axis=0))[0, 20:-20, 20:-20].mean()
        for shift in (STILL, (3 / width, 6 / height))
    )
    assert laid < 0.35 * still
    assert laid < 4


def test_what_is_thin_is_not_lost_where_a_view_is_smaller() -> None:
    """Bilinear sampling of every fourth line would show it or not, as chance has it."""
    frame = np.zeros((1440, 2560, 3), np.uint8)
    frame[::4] = 240
    for shift in (STILL, (0.01, 0.01)):
        view = views(frame, frame, shift)[0, 40:-40, 40:-40]
        assert view.mean() == pytest.approx(60, abs=8)
        assert view.max() < 160
