"""Inference: the sizes of pictures, decoded detections, sessions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import load_captioner
from models.detections import Detections, suppress
from models.families import CLASSES, OBJECTS
from models.grounded.grounded import Grounded
from models.grounded.inference import (
    BINS,
    STRIDES,
    Answers,
    OnnxDetector,
    canvas,
    cells_of,
    decode,
    pixels_at,
)
from models.grounded.settings import SETTINGS

Seen = tuple[tuple[float, float, float, float], Mapping[str, float]]
SIZE = 320, 480
LEVELS = tuple((-(-SIZE[0] // s), -(-SIZE[1] // s)) for s in STRIDES)


def answers(*seen: Seen) -> Answers:
    """One cell for each box, given by its edges in pixels, with a probability of each class."""
    middle, stride = cells_of(LEVELS)
    cells = np.full((len(middle), len(CLASSES) + 4 * BINS), -9.0, np.float32)
    free = np.ones(len(middle), np.bool_)
    for box, classes in seen:
        far = np.concatenate([middle - box[:2], box[2:] - middle], axis=1) / stride[:, None]
        cell = np.flatnonzero(free & ((far >= 0) & (far <= BINS - 1)).all(1))[0]
        free[cell] = False
        shares = 1 - np.abs(far[cell, :, None] - np.arange(BINS))  # of which the mean is this distance
        cells[cell, len(CLASSES) :] = np.log(shares.clip(min=1e-9)).ravel()
        for name, probability in classes.items():
            cells[cell, CLASSES.index(name)] = np.log(probability / (1 - probability))
    chance = np.random.default_rng(1)
    return Answers(cells, tuple(chance.random((96, *size), np.float32) for size in LEVELS))


def found(*seen: Seen, least: float = 0.05) -> Detections:
    return decode(answers(*seen), SIZE, least)


def names(seen: Detections) -> list[str]:
    return [OBJECTS[row] for row in seen.label.argmax(1)]


def test_the_surest_of_one_family_stays():
    seen = found(
        ((100, 100, 200, 200), {"car": 0.6}),
        ((104, 100, 204, 200), {"truck": 0.8, "car": 0.5}),
        ((100, 104, 200, 204), {"person": 0.7}),
        ((300, 100, 400, 200), {"car": 0.3}),
    )
    assert names(seen) == ["truck", "person", "car"]
    assert seen.score.tolist() == pytest.approx([0.8, 0.7, 0.3], abs=1e-4)
    assert seen.box[0].tolist() == pytest.approx([104 / 480, 100 / 320, 100 / 480, 100 / 320], abs=1e-4)
    assert float(seen.label[0, OBJECTS.index("car")]) == pytest.approx(0.5, abs=1e-4)
    assert seen.feature.shape == (3, 192)


def test_what_is_unsure_or_has_no_name_is_left_out():
    few = found(((10, 10, 90, 90), {"dog": 0.3}), ((200, 50, 250, 99), {"cat": 0.1, "clock": 0.9}), least=0.2)
    assert names(few) == ["animal"]
    assert names(found(((10, 10, 90, 90), {"umbrella": 0.3}))) == ["object"]


def test_boxes_end_at_the_frame():
    [x, y, w, h] = found(((-40, 220, 60, 380), {"car": 0.9})).box[0].tolist()
    assert (x, y, x + w, y + h) == pytest.approx((0, 220 / 320, 60 / 480, 1), abs=1e-4)
    assert len(found(((12, 12, 12, 12), {"car": 0.9}))) == 0, "nothing of it is in the picture"


@given(st.integers(0, 12), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_no_two_that_stay_are_rivals_and_who_goes_has_one(count, seed):
    rivals = np.random.default_rng(seed).random((count, count)) < 0.3
    rivals |= rivals.T
    stay = suppress(rivals).tolist()
    assert stay == sorted(set(stay))
    for i in range(count):
        before = [j for j in stay if j < i and rivals[j, i]]
        assert bool(before) is (i not in stay)


def test_a_canvas_has_about_the_frames_shape():
    assert canvas(1080, 1920) == (352, 640)
    assert canvas(576, 768) == (416, 544)
    assert canvas(480, 480) == (480, 480)


def test_stills_far_apart_are_seen_finer():
    assert pixels_at(SETTINGS.fine_gap_s) == pixels_at(86_400) == SETTINGS.fine_pixels > SETTINGS.pixels
    assert pixels_at(SETTINGS.fine_gap_s - 0.1) == pixels_at(float("nan")) == SETTINGS.pixels
    high, wide = canvas(1080, 1920, SETTINGS.fine_pixels)
    assert high * wide == pytest.approx(SETTINGS.fine_pixels, rel=0.12)


@given(st.integers(16, 4000), st.integers(16, 4000))
def test_a_canvas_has_sides_that_the_detector_takes(height, width):
    high, wide = canvas(height, width)
    assert high % 32 == wide % 32 == 0
    assert min(high, wide) >= 32
    if 0.25 <= height / width <= 4:
        assert high * wide == pytest.approx(SETTINGS.pixels, rel=0.12)
        assert high / wide == pytest.approx(height / width, rel=0.2)


LARGE_ONES = """
import numpy as np
from models import load_captioner

def resident_mb():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000

see = load_captioner().detect
small, large = (np.zeros((height, width, 3), np.uint8) for height, width in ((352, 640), (608, 1056)))
see([small])
before = resident_mb()
see([large, large, small])
print(resident_mb() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_large_pictures_leave_no_memory_behind():
    grown = subprocess.run([sys.executable, "-c", LARGE_ONES], capture_output=True, check=True).stdout
    assert float(grown) < 30


def test_an_unloaded_detector_loads_again_and_answers_as_before():
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)
    detector = captioner.detector
    assert isinstance(detector, OnnxDetector)
    image = np.random.default_rng(1).integers(0, 256, (96, 128, 3), np.uint8)
    before = detector.answers(image)
    captioner.unload_if_idle()
    assert detector._session is not None, "it was used since it was loaded"
    captioner.unload_if_idle()
    assert detector._session is None
    after = detector.answers(image)
    assert np.array_equal(after.cells, before.cells)
    assert detector._session is not None
