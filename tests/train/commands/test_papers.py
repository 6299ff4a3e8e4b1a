"""From the command line: joint training, retrieval, pre-training, false captions, attention pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import pytest

from models.label import read_label
from train.learning.config import load_config

CONFIGS = Path(__file__).parents[3] / "configs" / "train"
TOY = "version: 1\nencoder: toy\nmin_count: 1\nchanges: {eps: 3.0}\n"
JOINT = f"""{TOY}
arguments: {{features: 24, words: 16, hidden: 32, attention: 16}}
objective:
  name: joint
  arguments: {{gamma: 0.3, hard_from: 2, network: {{size: 32, words: 16, cells: 8}}}}
training: {{epochs: 2, batch: 6, learning_rate: 0.005}}
"""
PCL = f"""{TOY}
captioner: idc-pcl
arguments: {{size: 32, inner: 48, heads: 2, layers: 1, dropout: 0.0}}
pretraining:
  objective: {{name: pretraining, arguments: {{tasks: {{mlm: 2, fda: 1}}}}}}
  training: {{epochs: 2, batch: 6, learning_rate: 0.004, warmup: 6, keep: last}}
training: {{epochs: 1, batch: 6, learning_rate: 0.002}}
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.usefixtures("toy_encoder")
def test_joint_training_then_retrieval(run: Run, sample_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "joint.yaml").write_text(JOINT)
    cache = ("--cache", tmp_path / "cache")
    command = ("train", "--data", sample_folder, "--config", tmp_path / "joint.yaml", *cache)
    code, _, told = run(*command, "--out", tmp_path / "joint.safetensors")
    assert code == 0, told
    assert read_label(tmp_path / "joint.safetensors").record["objective"]["gamma"] == 0.3
    network = ("--network", tmp_path / "joint.tirg.safetensors")
    code, shown, told = run("retrieve", *network, "--data", sample_folder, *cache, "--json")
    assert code == 0, told
    found = json.loads(shown)
    assert (found["pairs"], found["candidates"]) == (9, 10)
    assert 0 <= found["at_1"] <= found["at_5"] <= found["at_10"] == 1
    assert "recall@5" in run("retrieve", *network, "--data", sample_folder, *cache)[1]
    images = sorted(sample_folder.glob("val00?_2.png"))
    asked = ("--before", sample_folder / "val000.png", "--sentence", "the red car on the left has appeared")
    code, shown, told = run("retrieve", *network, *asked, *images, "--json")
    assert code == 0, told
    ranked = json.loads(shown)
    assert {row["image"] for row in ranked} == {str(path) for path in images}
    assert [row["score"] for row in ranked] == sorted((row["score"] for row in ranked), reverse=True)
    assert run("retrieve", *network, *asked, *images)[1].startswith("1. ")


@pytest.mark.usefixtures("toy_encoder")
def test_pretraining_then_attention(run: Run, sample_folder: Path, tmp_path: Path) -> None:
    config, out = tmp_path / "pcl.yaml", tmp_path / "pcl.safetensors"
    config.write_text(PCL)
    command = ("train", "--data", sample_folder, "--config", config, "--cache", tmp_path / "cache")
    code, _, told = run(*command, "--out", out, "--seed", 5)
    assert code == 0, told
    assert "pre-trained, 2 epochs" in told
    record = read_label(out).record
    assert record["pretraining"]["objective"] == {"name": "pretraining", "tasks": {"mlm": 2, "fda": 1}}
    assert record["pretraining"]["training"]["seed"] == 5
    assert read_label(tmp_path / "pcl-pretrained.safetensors").record["metric"] == "minus_val_mlm"
    code, _, told = run(*command, "--out", out, "--seed", 5, "--epochs", 2, "--resume")
    assert code == 0, told
    assert "pre-trained" not in told  # the later run goes on from fine-tuning
    assert "epoch 2: loss" in told

    before, after = sample_folder / "val000.png", sample_folder / "val000_2.png"
    frames = ("attend", "--checkpoint", out, "--before", before, "--after", after)
    picture = tmp_path / "words.png"
    code, _, told = run(*frames, "--out", picture, "--sentence", "the red car has appeared")
    assert code == 0, told
    shown = cv2.imread(str(picture))
    assert shown is not None
    assert shown.shape == (22 + 2 * 128, 6 * 128, 3)  # five words and the end
    assert run(*frames, "--out", picture)[0] == 0
    assert run(*frames, "--out", picture, "--sentence", "!")[0] == 1


def test_false_captions(run: Run, sample_folder: Path) -> None:
    code, shown, told = run("negatives", "--data", sample_folder, "--number", 3)
    assert code == 0, told
    rows = [json.loads(line) for line in shown.splitlines()]
    assert len(rows) == 3
    for row in rows:
        assert row["img_id"].startswith("train")
        assert len({n["text"] for n in row["negatives"]} - {row["caption"]}) == 6
    assert shown == run("negatives", "--data", sample_folder, "--number", 3)[1]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("retrieve", "--network", "absent.safetensors", "--data", "."), 1, "no retrieval network at"),
        (("retrieve", "--network", "x", "--before", "a.png"), 2, "give --before, --sentence"),
        (("negatives", "--data", "absent"), 1, "does not exist"),
    ],
)
def test_bad_input_is_named(run: Run, words: tuple[str, ...], code: int, says: str) -> None:
    result = run(*words)
    assert result[0] == code
    assert says in result[2]


def test_a_checkpoint_is_no_retrieval_network(run: Run) -> None:
    from models import DEFAULT_CHECKPOINT

    code, _, told = run("retrieve", "--network", DEFAULT_CHECKPOINT, "--data", ".")
    assert code == 1
    assert "is not a retrieval network" in told


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("objective: {name: luck}", "objective.name: 'luck' is unknown"),
        ("objective: {name: joint, arguments: {speed: 1}}", "objective.arguments.speed: unknown key"),
        ("objective: {name: joint, arguments: {gamma: 7}}", "must be 0..1"),
        ("pretraining: {objective: {name: pretraining}}", "captioner ddla has none"),
        ("pretraining: {objective: {name: joint}, training: {epochs: 0}}", "must be positive"),
    ],
)
@pytest.mark.usefixtures("toy_encoder")
def test_objectives_that_cannot_be_are_refused(
    run: Run, sample_folder: Path, tmp_path: Path, line: str, says: str
) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text(f"{TOY}{line}\n")
    out, cache = tmp_path / "x.safetensors", tmp_path / "cache"
    code, _, told = run("train", "--data", sample_folder, "--config", config, "--out", out, "--cache", cache)
    assert code == 78
    assert says in told


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_configurations_are_valid(path: Path) -> None:
    load_config(path)
