"""Looking: at which size, in tiles as well, and each thing once."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.grounded.inference import canvas, pixels_at
from models.grounded.settings import SETTINGS

WINDOW = np.array([0.5, 0.25, 0.25, 0.5], np.float32)


def test_a_canvas_has_about_the_frames_shape() -> None:
    assert canvas(1080, 1920) == (352, 640)
    assert canvas(576, 768) == (416, 544)
    assert canvas(480, 480) == (480, 480)


def test_stills_far_apart_are_seen_finer() -> None:
    assert pixels_at(SETTINGS.fine_gap_s) == pixels_at(86_400) == SETTINGS.fine_pixels > SETTINGS.pixels
    assert pixels_at(SETTINGS.fine_gap_s - 0.1) == pixels_at(float("nan")) == SETTINGS.pixels
    high, wide = canvas(1080, 1920, SETTINGS.fine_pixels)
    assert high * wide == pytest.approx(SETTINGS.fine_pixels, rel=0.12)


@given(st.integers(16, 4000), st.integers(16, 4000))
def test_a_canvas_has_sides_that_the_detector_takes(height: int, width: int) -> None:
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
def test_large_pictures_leave_no_memory_behind() -> None:
    grown = subprocess.run([sys.executable, "-c", LARGE_ONES], capture_output=True, check=True).stdout
    assert float(grown) < 30
