"""The shipped captioner runs where torch is not installed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

BLOCKED = """
import sys
tried = set()
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "onnx", "sklearn"):
            tried.add(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from daemon.cli import main
codes = [main(command.split()) for command in sys.argv[1:]]
assert any(codes) or not tried, tried
sys.exit(min(codes))
"""

CONFIG = Path(__file__).parents[3] / "configs" / "train" / "grounded.yaml"

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(tmp_path) -> Command:
    def run(script: str, *words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, *map(str, words)]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )

    return run


@pytest.fixture
def stills(clips, tmp_path) -> tuple[Path, Path]:
    """Two of vtest, twelve seconds apart."""
    capture = cv2.VideoCapture(str(clips / "opencv_vtest.avi"))
    paths = tmp_path / "before.png", tmp_path / "after.png"
    for path, number in zip(paths, (0, 120), strict=True):
        capture.set(cv2.CAP_PROP_POS_FRAMES, number)
        cv2.imwrite(str(path), capture.read()[1])
    return paths


@pytest.mark.slow
@pytest.mark.footage
def test_stills_are_described_and_a_clip_is_replayed(command, stills, clips):
    describe = "describe {} {} --json".format(*stills)
    done = command(BLOCKED, describe, f"replay {clips}/opencv_vtest.avi --to 4s --json --out out")
    assert done.returncode == 0, done.stderr
    described, *replayed = map(json.loads, done.stdout.splitlines())
    assert len(described["sentences"]) > 2
    assert any(line["sentences"] for line in replayed)


def test_what_needs_torch_names_the_extra(command, tmp_path):
    for name in ("a.png", "b.png"):
        cv2.imwrite(str(tmp_path / name), np.zeros((96, 128, 3), np.uint8))
    done = command(
        BLOCKED, *(f"describe a.png b.png {each}" for each in ("--captioner ddla", "--device cuda"))
    )
    assert done.returncode == 1
    for line, extra in zip(done.stderr.splitlines(), ("papers", "gpu"), strict=True):
        assert f"needs torch: pip install 'narrated[{extra}]'" in line


def test_training_names_its_extra(command):
    script = BLOCKED.replace("daemon.cli", "train.cli").replace(
        "[main(command.split()) for command in sys.argv[1:]]", "[main()]"
    )
    done = command(script, "train", "--config", CONFIG, "--data", ".", "--out", "y.safetensors")
    assert (done.returncode, "pip install 'narrated[train]'" in done.stderr) == (1, True)
