import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from models.checkpoint import read_label
from train.cli import COMMANDS

CONFIGS = Path(__file__).parents[3] / "configs" / "train"
TOY = """
version: 1
encoder: toy
min_count: 1
arguments: {features: 32, words: 16, hidden: 48, attention: 16}
changes: {eps: 3.0}
training: {epochs: 1, batch: 4, learning_rate: 0.005, seed: 7}
"""


@pytest.fixture
def toy(tmp_path, toy_encoder) -> Path:
    """A configuration of a tiny captioner with the toy encoder."""
    path = tmp_path / "toy.yaml"
    path.write_text(TOY)
    return path


def failed(result: tuple[int, str, str], code: int, *says: str) -> None:
    """It exits with the code and one line on standard error, which holds these words."""
    assert result[0] == code
    assert result[1] == ""
    lines = result[2].splitlines()
    assert len(lines) == 1, lines
    assert all(words in lines[0] for words in says), lines


def test_train_then_score(run, toy, sample_folder, tmp_path):
    out = tmp_path / "toy.safetensors"
    command = ("train", "--data", sample_folder, "--out", out, "--config", toy)
    code, shown, told = run(*command)
    assert code == 0, told
    assert "toy, single" in shown
    assert "trained for 1 epochs" in told
    assert "\x1b" not in told
    record = read_label(out).record
    assert record["training"]["seed"] == 7
    assert record["command"].startswith(
        f"narrated-train train --data {sample_folder.name} --out toy.safetensors"
    )
    assert str(tmp_path) not in json.dumps(dict(record))
    assert set(record) >= {"versions", "train_sha256", "val_sha256", "curves", "scores", "changes", "metric"}
    rows = {"constant", "best constant of train", "random training caption"}
    assert set(record["scores"]["val"]["trivial"]) == rows

    code, _, told = run(*command, "--resume")
    assert code == 0, told
    failed(run(*command, "--resume", "--seed", 8), 1, "state of another run")

    code, shown, told = run("score", sample_folder, out, "--json")
    assert code == 0, told
    measured = json.loads(shown)
    assert (measured["split"], measured["single"]["pairs"]) == ("test", 3)
    assert measured["checkpoint"] == read_label(out).sha256
    code, shown, _ = run("score", sample_folder, out)
    assert code == 0
    for row in ("toy, test, single", "toy, test, multi", "best constant of train", "different sentences"):
        assert row in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if not line.startswith("constant"))


def test_joint_training_then_retrieval(run, toy, sample_folder, tmp_path):
    network = "{size: 24, words: 12, cells: 8}"
    toy.write_text(TOY + f"objective: {{name: joint, arguments: {{candidates: 4, network: {network}}}}}\n")
    out = tmp_path / "joint.safetensors"
    code, _, told = run("train", "--data", sample_folder, "--out", out, "--config", toy)
    assert code == 0, told
    code, shown, told = run("score", sample_folder, tmp_path / "joint.tirg.safetensors")
    assert code == 0, told
    assert json.loads(shown)["pairs"] == 3
    failed(run("score", sample_folder, tmp_path / "none.tirg.safetensors"), 1, "no checkpoint at")


def test_bad_samples_are_one_clear_line_and_nothing_half_written(run, toy, make_samples, tmp_path):
    data, out = make_samples(train=3, val=2), tmp_path / "out"
    out.mkdir()
    (data / "train001_2.png").unlink()
    missing = run("train", "--data", data, "--out", out / "x.safetensors", "--config", toy)
    failed(missing, 1, "train001_2.png", "images are missing")
    assert list(out.iterdir()) == []
    failed(run("train", "--data", data, "--out", out, "--config", toy), 1, "is a folder", "--out")
    nowhere = run("train", "--data", tmp_path / "nowhere", "--out", out / "x", "--config", toy)
    failed(nowhere, 1, "nowhere", "is not a folder")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "version: 1"),
        ("version: 1\ntraining: {epoch: 3}", "training.epoch: unknown key"),
        ("version: 1\ntraining: {batch: 0}", "must be positive"),
        ("version: 1\ncaptioner: grounded", "labelled frames"),
        ("version: 1\ncaptioner: gpt", "'gpt' is unknown; there is grounded, ddla"),
        ("version: 1\nencoder: vgg", "'vgg' is unknown; there is"),
        ("version: 1\narguments: {depth: 3}", "arguments.depth: unknown key; ddla takes features"),
        ("version: 1\narguments: {prior: flat}\nencoder: toy", "arguments.prior: Input should be"),
        ("version: 1\nencoder_weights: none.pt", "encoder efficientnet_lite0 cannot be loaded"),
        (None, "toy.yaml cannot be read"),
        ("version: 1\nmin_count: !!bool x", ":2: broken YAML: not a valid bool"),
    ],
)
def test_a_bad_configuration_is_exit_78(*, run, sample_folder, toy, tmp_path, text, says):
    toy.unlink() if text is None else toy.write_text(text)
    words = ("train", "--data", sample_folder, "--out", tmp_path / "x", "--config", toy)
    failed(run(*words), 78, says)
    assert not (tmp_path / "x").exists()


def test_bare_pairs_of_stills(run, tmp_path):
    stills = tmp_path / "cam"
    stills.mkdir()
    for number in range(12):
        scene = np.full((120, 160, 3), 90, np.uint8)
        scene[40:80, 10 * number : 10 * number + 30] = 230
        cv2.imwrite(str(stills / f"{number:03d}.png"), scene)
    words = ("generate", "--footage", stills, "--pairs", 3)
    code, _shown, told = run(*words, "--out", tmp_path / "pairs", "--seed", 4)
    assert code == 0, told
    lines = [json.loads(line) for line in (tmp_path / "pairs" / "pairs.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    assert all((tmp_path / "pairs" / line["before"]).is_file() for line in lines)
    failed(run(*words, "--out", tmp_path / "pairs"), 1, "exists already")
    code, _, told = run(*words, "--footage", tmp_path / "gone.mp4", "--out", tmp_path / "more")
    assert code == 3
    assert "gone.mp4" in told
    assert run(*words, "--frames", tmp_path, "--out", tmp_path / "x")[0] == 2
    assert run("generate", "--out", tmp_path / "x", "--pairs", 9)[0] == 2


def test_label_says_what_is_missing(run, tmp_path):
    teacher, out = tmp_path / "none.onnx", tmp_path / "o"
    words = ("label", "--clips", tmp_path / "none", "--out", out)
    assert run(*words)[0] == 2, "no teacher"
    failed(run(*words, "--teacher", teacher), 1, "no clips or stills")
    failed(run(*words, "--teacher", "a.xml:horse"), 1, "class 'horse' is unknown")
    assert list(tmp_path.iterdir()) == []


def test_usage_and_help(run):
    script = (
        "import atexit, sys; from train.cli import main;"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", script, "--help"]
    helped = subprocess.run(command, capture_output=True, text=True, check=False)
    assert helped.returncode == 0, helped.stderr
    assert "bad configuration" in helped.stdout
    listed = helped.stdout.partition("Commands:")[2]
    shown = [listed.find(f" {name} ") for name in COMMANDS]
    assert -1 not in shown
    assert shown == sorted(shown), "in their order"
    assert "torch" not in helped.stderr
    assert run("train")[0] == run("compare")[0] == run("fly")[0] == 2
    assert "Did you mean 'score'?" in run("scoer")[2]


def test_the_grounded_captioner_is_trained_without_the_papers_extra():
    blocked = ("efficientnet_lite_pytorch", "joblib", "pandas", "pycocoevalcap", "scipy")
    script = f"""
import sys
sys.modules.update(dict.fromkeys({blocked}))
import train.grounded.chain
from pathlib import Path
from train.papers.config import load_config
print(load_config(Path({str(CONFIGS / "grounded.yaml")!r})).captioner)
"""
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert loaded.stdout == "grounded\n", loaded.stderr
