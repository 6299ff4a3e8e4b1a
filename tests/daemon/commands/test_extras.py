"""What a package is missing for is named with pip's command; the shipped captioner runs without torch."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import cv2
import numpy as np
import pytest

from pipeline.command_line import EXTRAS, missing_extra

ROOT = Path(__file__).parents[3]
BLOCKED = """
import sys
blocked, *commands = sys.argv[1:]
tried = set()
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in blocked.split():
            tried.add(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from daemon import cli
from train.cli import main as train
sys.argv = commands[0].split()
codes = [train()] if commands[0].startswith("train") else [cli.main(each.split()) for each in commands]
assert any(codes) or not tried, tried
sys.exit(min(codes))
"""
OF_TORCH = "torch onnx sklearn"

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def without(tmp_path) -> Command:
    """Runs commands in a folder with some files, in a process that lacks modules."""
    (tmp_path / "n.yaml").write_text(
        "version: 1\nstate: s\nredis: {url: 'redis://127.0.0.1:1'}\ncameras: {a: {url: 'rtsp://h/1'}}\n"
        "forward: {apprise: {phone: {url: 'json://127.0.0.1:1'}}}\n"
    )
    (tmp_path / "x.mp4").touch()
    for name in ("a.png", "b.png"):
        cv2.imwrite(str(tmp_path / name), np.zeros((96, 128, 3), np.uint8))

    def run(modules: str, *commands: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", BLOCKED, modules, *commands]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            words, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )

    return run


def test_every_module_is_of_its_extra():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(declared) - {"dev"}
    installed = packages_distributions()
    for extra, own in EXTRAS.items():
        names = {re.split(r"[>\[]", item)[0].lower() for item in declared[extra]}
        for module in set(own) & set(installed):
            assert {each.lower() for each in installed[module]} & names, module
    assert missing_extra(ModuleNotFoundError(name="nowhere.at_all")) == ""


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("forward -c n.yaml", "apprise", "forward"),
        ("serve --journal .", "starlette", "serve"),
        ("replay x.mp4 --ray local --out o", "ray", "ray"),
        ("describe a.png b.png --captioner ddla", OF_TORCH, "papers"),
        ("describe a.png b.png --device cuda", OF_TORCH, "gpu"),
        (f"train train --config {ROOT}/configs/train/grounded.yaml --data . --out y", OF_TORCH, "train"),
    ],
)
def test_commands_name_what_is_missing(without, command, module, extra):
    done = without(module, command)
    assert (done.returncode, f"pip install 'narrated[{extra}]'" in done.stderr) == (1, True), done.stderr


@pytest.mark.slow
@pytest.mark.footage
def test_stills_are_described_and_a_clip_is_replayed_without_torch(without, clips, tmp_path):
    capture = cv2.VideoCapture(str(clips / "opencv_vtest.avi"))
    for name, number in (("a.png", 0), ("b.png", 120)):  # twelve seconds apart
        capture.set(cv2.CAP_PROP_POS_FRAMES, number)
        cv2.imwrite(str(tmp_path / name), capture.read()[1])
    replay = f"replay {clips}/opencv_vtest.avi --to 4s --json --out out"
    done = without(OF_TORCH, "describe a.png b.png --json", replay)
    assert done.returncode == 0, done.stderr
    described, *replayed = map(json.loads, done.stdout.splitlines())
    assert len(described["sentences"]) > 2
    assert any(line["sentences"] for line in replayed)
