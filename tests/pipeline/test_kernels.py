"""Kernels are compiled ahead, or when they are called; screening a scene calls none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import pytest

from pipeline import kernels
from pipeline.distance import squared_blocks
from pipeline.kernels import Kernel

SCREENING = """
import sys
from pathlib import Path
import numpy as np
from pipeline import kernels
kernels._FOLDER = Path(sys.argv[1])
from pipeline.changes import ChangeOptions
from pipeline.distance import l2_luma, l2_rgb
from pipeline.pairs import candidate_pairs
plane, picture = np.zeros((27, 48), np.uint8), np.zeros((27, 48, 3), np.uint8)
l2_luma(plane, plane)
assert "numba" not in sys.modules
l2_rgb(picture, picture)
assert "numba" in sys.modules
"""

AHEAD = """
import sys
from pathlib import Path
import numpy as np
from pipeline import kernels
kernels._FOLDER = Path(sys.argv[1])
from pipeline.alignment import _least
from pipeline.changes import change, difference, image_changes, ChangeOptions
from pipeline.clusters import raster, regions
from pipeline.distance import l2_rgb, squared_blocks

rng = np.random.default_rng(0)
before = rng.integers(90, 110, (60, 80, 3), np.uint8)
after = before.copy()
after[15:35, 20:35] = 230
changes = image_changes(before, after, ChangeOptions())
l2_rgb(before, after)
assert "numba" not in sys.modules

flat = [each.reshape(60, -1) for each in (before, after)]
pixels = [each.reshape(-1, 3) for each in (before, after)]
words = raster._words((after != before).any(2))
labels = np.full((60, 80), -1, np.int32)
labels[15:35, 20:35] = 0
calls = [
    (squared_blocks, (*flat, 16, 48)),
    (raster._label, (words.view(np.uint8), words, raster.half_widths(3.0, 80), 9, labels.copy())),
    (regions._bounds, (labels, 1)),
    (change._moments, (before, after, labels, 1)),
    (difference._light_table, tuple(pixels)),
    (difference._active, (before, after, 30, 2.0)),
    (_least, (flat[0], np.ascontiguousarray(after[1:-1, 1:-1]).reshape(58, -1), np.array([(3, 1), (0, 0)]))),
]
modules = [sys.modules[f"pipeline.{name}"] for name in kernels._MODULES]
known = [each for module in modules for each in vars(module).values() if getattr(each, "types", ())]
assert {kernel for kernel, _ in calls} == set(known)
for kernel, args in calls:
    one, two = kernel(*args), args[-1].copy() if kernel is raster._label else None
    assert "numba" not in sys.modules or kernel is not calls[0][0]
    other = kernel.dispatcher()(*args)
    if kernel is raster._label:
        one, other = two, args[-1]
    assert np.array_equal(one, other), kernel.__name__
    assert type(one) is type(other) and getattr(one, "dtype", 0) == getattr(other, "dtype", 0)
assert squared_blocks(flat[0][:, ::2], flat[1][:, ::2], 16, 16)[1, 1] == squared_blocks(
    *(np.ascontiguousarray(each[:, ::2]) for each in flat), 16, 16
)[1, 1]
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


def test_screening_loads_no_compiler(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SCREENING, tmp_path], check=True)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="a C++ compiler is needed")
def test_kernels_compiled_ahead_need_no_compiler_and_give_the_same(tmp_path: Path) -> None:
    folder = (
        f"from pathlib import Path; from pipeline import kernels; kernels._FOLDER = Path({str(tmp_path)!r})"
    )
    subprocess.run([sys.executable, "-c", f"{folder}; kernels.compile_ahead()"], check=True)
    subprocess.run([sys.executable, "-c", AHEAD, tmp_path], check=True)


def test_what_was_compiled_of_other_sources_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"kernels_0123456789ab{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    kernels._compiled_ahead.cache_clear()
    monkeypatch.setattr(kernels, "_FOLDER", tmp_path)
    assert not kernels.are_compiled_ahead()
    (tmp_path / f"{kernels._name()}{EXTENSION_SUFFIXES[0]}").write_bytes(b"no shared object")
    kernels._compiled_ahead.cache_clear()
    assert not kernels.are_compiled_ahead()
    kernels._compiled_ahead.cache_clear()
