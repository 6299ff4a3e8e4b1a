"""Kernels are compiled ahead, or when they are called; screening a scene calls none."""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from pipeline import kernels

ROOT = Path(__file__).parents[2]

SCREENING = """
import sys
from pathlib import Path
import numpy as np
from pipeline import kernels
kernels.FOLDER = Path(sys.argv[1])
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
kernels.FOLDER = Path(sys.argv[1])
from pipeline.changes import image_changes, ChangeOptions
from pipeline.changes.clusters import _words, half_widths
from pipeline.distance import l2_rgb
from pipeline.kernels import difference, raster
from pipeline.kernels.difference import squared_blocks

rng = np.random.default_rng(0)
before = rng.integers(90, 110, (60, 80, 3), np.uint8)
after = before.copy()
after[15:35, 20:35] = 230
changes = image_changes(before, after, ChangeOptions())
l2_rgb(before, after)
assert "numba" not in sys.modules

flat = [each.reshape(60, -1) for each in (before, after)]
pixels = [each.reshape(-1, 3) for each in (before, after)]
words = _words((after != before).any(2))
labels = np.full((60, 80), -1, np.int32)
labels[15:35, 20:35] = 0
calls = [
    (squared_blocks, (*flat, 16, 48)),
    (raster.label_pixels, (words.view(np.uint8), words, half_widths(3.0, 80), 9, labels.copy())),
    (difference.grey_moments, (before, after, labels, 1)),
    (difference.light_table, tuple(pixels)),
    (difference.active_pixels, (before, after, 30, 2.0)),
    (
        difference.least_offset,
        (flat[0], np.ascontiguousarray(after[1:-1, 1:-1]).reshape(58, -1), np.array([(3, 1), (0, 0)])),
    ),
]
defined = [*vars(difference).values(), *vars(raster).values()]
known = [each for each in defined if getattr(each, "types", ())]
assert {kernel for kernel, _ in calls} == set(known)
for kernel, args in calls:
    one, two = kernel(*args), args[-1].copy() if kernel is raster.label_pixels else None
    assert "numba" not in sys.modules or kernel is not calls[0][0]
    other = kernel.dispatcher()(*args)
    if kernel is raster.label_pixels:
        one, other = two, args[-1]
    assert np.array_equal(one, other), kernel.__name__
    assert type(one) is type(other) and getattr(one, "dtype", 0) == getattr(other, "dtype", 0)
assert squared_blocks(flat[0][:, ::2], flat[1][:, ::2], 16, 16)[1, 1] == squared_blocks(
    *(np.ascontiguousarray(each[:, ::2]) for each in flat), 16, 16
)[1, 1]
"""


WITHOUT_NUMBA = """
import sys
from pathlib import Path
import numpy as np
from pipeline import kernels
kernels.FOLDER = Path(sys.argv[1])
sys.modules["numba"] = None
from daemon import cli
picture = str(kernels.FOLDER / "picture.png")
import cv2
cv2.imwrite(picture, np.zeros((60, 80, 3), np.uint8))
code = cli.main(["describe", picture, picture])
sys.exit(code and cli.main(["doctor"]))
"""


def build_wheel(tree: Path, folder: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, check=True, cwd=tree, env={**os.environ, **environment})
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture
def uncompiled(tmp_path) -> Path:
    """This tree as it was unpacked."""
    tree = tmp_path / "tree"
    shutil.copytree(
        ROOT / "pipeline", tree / "pipeline", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    files = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")
    for name in ("daemon", "models", "train", "configs", "systemd", "packaging", *files):
        (tree / name).symlink_to(ROOT / name)
    return tree


def test_screening_loads_no_compiler(tmp_path):
    subprocess.run([sys.executable, "-c", SCREENING, tmp_path], check=True)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="a C++ compiler is needed")
def test_a_wheel_holds_kernels_that_need_no_compiler_and_give_the_same(tmp_path):
    """Those of this tree, or they are compiled: wherever their sources or what compiles them were changed."""
    wheel = build_wheel(ROOT, tmp_path)
    assert "-none-any" not in wheel.name
    with zipfile.ZipFile(wheel) as files:
        (kernel,) = [name for name in files.namelist() if name.endswith(".so")]
        files.extract(kernel, tmp_path)
    subprocess.run([sys.executable, "-c", AHEAD, (tmp_path / kernel).parent], check=True)


def test_a_wheel_without_a_compiler_asks_for_the_extra(tmp_path, uncompiled):
    wheel = build_wheel(uncompiled, tmp_path, CC="/bin/false", CXX="/bin/false")
    assert "-none-any" in wheel.name
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "the kernels were not compiled at installation" in done.stderr
    assert "numba is not installed: pip install 'narrated[jit]'" in done.stderr


def test_what_was_compiled_of_other_sources_is_not_taken(tmp_path, monkeypatch):
    (tmp_path / f"kernels_0123456789ab{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    kernels._compiled_ahead.cache_clear()
    monkeypatch.setattr(kernels, "FOLDER", tmp_path)
    assert not kernels.are_compiled_ahead()
    (tmp_path / f"{kernels._name()}{EXTENSION_SUFFIXES[0]}").write_bytes(b"no shared object")
    kernels._compiled_ahead.cache_clear()
    assert not kernels.are_compiled_ahead()
    kernels._compiled_ahead.cache_clear()
