"""Kernels are compiled when they are called; screening a scene calls none."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from pipeline.distance import squared_blocks
from pipeline.kernels import Kernel

SCREENING = """
import sys
import numpy as np
from pipeline.changes import ChangeOptions
from pipeline.distance import l2_luma, l2_rgb
from pipeline.pairs import candidate_pairs
plane, picture = np.zeros((27, 48), np.uint8), np.zeros((27, 48, 3), np.uint8)
l2_luma(plane, plane)
assert "numba" not in sys.modules
l2_rgb(picture, picture)
assert "numba" in sys.modules
"""


@Kernel
def _twice(x: float) -> float:
    return 2 * x


@Kernel
def _four_times(x: float) -> float:
    return _twice(_twice(x))


def test_a_kernel_calls_others() -> None:
    assert _four_times(1.5) == 6.0
    assert _twice(1.5) == 3.0


def test_it_keeps_its_name_and_what_it_says_of_itself() -> None:
    assert isinstance(squared_blocks, Kernel) or hasattr(squared_blocks, "py_func")
    assert squared_blocks.__name__ == "squared_blocks"
    assert "Sums of squared differences" in (squared_blocks.__doc__ or "")


def test_sums_of_squares_are_the_same_with_and_without_one() -> None:
    a, b = np.random.default_rng(1).integers(0, 256, (2, 37, 53), np.uint8)
    sums = squared_blocks(a, b, 16, 16)
    squares = (a.astype(np.int64) - b) ** 2
    assert sums[1, 2] == squares[16:32, 32:48].sum()
    assert sums[2, 3] == squares[32:, 48:].sum()


def test_screening_loads_no_compiler() -> None:
    subprocess.run([sys.executable, "-c", SCREENING], check=True)
