from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from drawn_footage import begun

from models.encoders.encoder import Encoder
from models.label import read_label
from train.cli import COMMANDS

CONFIGS = Path(__file__).parents[3] / "configs" / "train"
TOY = """
version: 1
encoder: toy
min_count: 1
arguments: {features: 32, words: 16, hidden: 48, attention: 16}
changes: {eps: 3.0}
training: {epochs: 5, batch: 4, learning_rate: 0.005, seed: 7}
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def toy(tmp_path: Path, toy_encoder: Encoder) -> Path:
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


def test_train_then_evaluate(run: Run, toy: Path, sample_folder: Path, tmp_path: Path) -> None:
    out, cache = tmp_path / "toy.safetensors", tmp_path / "cache"
    command = ("train", "--data", sample_folder, "--out", out, "--config", toy, "--cache", cache)
    code, shown, told = run(*command, "--epochs", 3, "--json")
    assert code == 0, told
    result = json.loads(shown)
    assert [p["epoch"] for p in result["curves"]] == [1, 2, 3]
    assert "epoch 3: loss" in told
    assert "\x1b" not in told
    record = read_label(out).record
    assert record["training"]["seed"] == 7
    assert record["command"].startswith(
        f"narrated-train train --data {sample_folder.name} --out toy.safetensors"
    )
    assert str(tmp_path) not in json.dumps(dict(record))
    assert set(record) >= {"versions", "train_sha256", "val_sha256", "curves", "scores", "changes", "metric"}
    assert record["scores"]["val"] == result["val"]
    rows = {"constant", "best constant of train", "random training caption"}
    assert set(record["scores"]["val"]["trivial"]) == rows

    code, shown, told = run(*command, "--epochs", 4, "--resume", "--json")
    assert code == 0, told
    assert json.loads(shown)["curves"][:3] == result["curves"]
    trained = json.loads(shown)["val"]

    again = ("evaluate", "--data", sample_folder, "--checkpoint", out, "--cache", cache)
    code, shown, told = run(*again, "--json")
    assert code == 0, told
    evaluated = json.loads(shown)
    assert {k: evaluated[k] for k in trained} == trained
    assert evaluated["checkpoint"] == read_label(out).sha256
    code, shown, _ = run(*again, "--split", "test")
    assert code == 0
    for row in (
        "toy, single",
        "toy, multi",
        "best constant of train",
        "alignment precision",
        "no change: precision",
    ):
        assert row in shown


def test_a_run_without_resume_replaces_the_earlier_state(
    run: Run, toy: Path, sample_folder: Path, tmp_path: Path
) -> None:
    command = (
        "train",
        "--data",
        sample_folder,
        "--out",
        tmp_path / "x",
        "--config",
        toy,
        "--cache",
        tmp_path / "c",
    )
    assert run(*command, "--epochs", 1)[0] == 0
    code, _, told = run(*command, "--epochs", 1, "--seed", 8)
    assert code == 0
    assert "--resume would go on with it" in told
    assert read_label(tmp_path / "x").record["training"]["seed"] == 8
    failed(run(*command, "--epochs", 1, "--resume"), 1, "state of another run")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        ("no folder", ["nowhere", "does not exist"]),
        ("no training split", ["train.json", "does not exist"]),
        ("no validation split", ["val.json", "does not exist"]),
        ("broken json", ["train.json", "cannot be read as JSON"]),
        ("no image", ["train001_2.png", "does not exist"]),
        ("broken image", ["train001_2.png", "not a readable image"]),
        ("no sentences", ["train.json", "at least one caption"]),
        ("no differences", ["none of 3 pairs has a cluster"]),
        ("out is a folder", ["is a folder", "--out"]),
    ],
)
def test_bad_samples_are_one_clear_line_and_nothing_half_written(
    *, run: Run, toy: Path, make_samples: Callable[..., Path], tmp_path: Path, harm: str, says: list[str]
) -> None:
    data, out = make_samples(train=3, val=2), tmp_path / "out" / "x.safetensors"
    out.parent.mkdir()
    if harm == "no folder":
        data = tmp_path / "nowhere"
    elif harm == "no training split":
        (data / "train.json").unlink()
    elif harm == "no validation split":
        (data / "val.json").unlink()
    elif harm == "broken json":
        (data / "train.json").write_text('[{"img_id": "train000", "sent')
    elif harm == "no image":
        (data / "train001_2.png").unlink()
    elif harm == "broken image":
        (data / "train001_2.png").write_bytes(b"no picture")
    elif harm == "no sentences":
        (data / "train.json").write_text('[{"img_id": "train000", "sentences": ["", "2"]}]')
    elif harm == "no differences":
        for number in range(3):
            shutil.copy(data / f"train00{number}.png", data / f"train00{number}_2.png")
    else:
        out.mkdir()
    result = run("train", "--data", data, "--out", out, "--config", toy, "--cache", tmp_path / "c")
    told = [line for line in result[2].splitlines() if "training annotations are skipped" not in line]
    failed((result[0], result[1], "\n".join(told)), 1, *says)
    assert list(out.parent.iterdir()) == ([out] if harm == "out is a folder" else [])


def test_evaluate_needs_a_checkpoint(run: Run, sample_folder: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none.safetensors"
    failed(run("evaluate", "--data", sample_folder, "--checkpoint", missing), 1, "no checkpoint at")
    missing.write_bytes(b"garbage")
    failed(run("evaluate", "--data", sample_folder, "--checkpoint", missing), 1, "damaged")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "version: 1"),
        ("version: 2", "version"),
        ("version: 1\ntraining: {epoch: 3}", "training.epoch: unknown key"),
        ("version: 1\ntraining: {epochs: many}", "training.epochs"),
        ("version: 1\ntraining: {batch: 0}", "must be positive"),
        ("version: 1\nchanges: {epsilon: 3}", "changes.epsilon: unknown key"),
        ("version: 1\ncaptoner: ddla", "captoner: unknown key"),
        ("version: 1\ncaptioner: gpt", "'gpt' is unknown; there is grounded, ddla"),
        ("version: 1\nencoder: vgg", "'vgg' is unknown; there is"),
        ("version: 1\narguments: {depth: 3}", "arguments.depth: unknown key; ddla takes features"),
        (
            "version: 1\narguments: {prior: flat}\nencoder: toy",
            "arguments.prior: Input should be 'learned' or 'uniform'",
        ),
        ("version: 1\nencoder_weights: none.pt", "encoder efficientnet_lite0 cannot be loaded"),
        ("version: [", ":1: broken YAML"),
        ("version: 1\nmin_count: !!bool x", ":2: broken YAML: not a valid bool"),
    ],
)
def test_a_bad_configuration_is_exit_78(
    *, run: Run, sample_folder: Path, toy: Path, tmp_path: Path, text: str, says: str
) -> None:
    toy.write_text(text)
    words = ("train", "--data", sample_folder, "--out", tmp_path / "x", "--config", toy)
    failed(run(*words, "--cache", tmp_path / "c"), 78, says)
    assert not (tmp_path / "x").exists()


def test_a_missing_configuration_is_exit_78(run: Run, sample_folder: Path, tmp_path: Path) -> None:
    words = ("train", "--data", sample_folder, "--out", tmp_path / "x", "--config", tmp_path / "none.yaml")
    failed(run(*words), 78, "none.yaml cannot be read")


def test_extract_from_stills(run: Run, tmp_path: Path) -> None:
    stills = tmp_path / "cam"
    stills.mkdir()
    for number in range(12):
        scene = np.full((120, 160, 3), 90, np.uint8)
        scene[40:80, 10 * number : 10 * number + 30] = 230
        cv2.imwrite(str(stills / f"{number:03d}.png"), scene)
    words = ("extract", stills, "--pairs", 3, "--lower", 10, "--upper", 90)
    code, _shown, told = run(*words, "--out", tmp_path / "pairs", "--seed", 4)
    assert code == 0, told
    lines = [json.loads(line) for line in (tmp_path / "pairs" / "pairs.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    assert all((tmp_path / "pairs" / line["before"]).is_file() for line in lines)
    failed(run(*words, "--out", tmp_path / "pairs"), 1, "exists already")
    code, _, told = run(
        "extract", stills, tmp_path / "gone.mp4", "--pairs", 3, "--out", tmp_path / "more", *words[4:]
    )
    assert code == 3
    assert "gone.mp4" in told
    code, _, told = run("extract", stills, "--out", tmp_path / "x", "--lower", 10)
    assert code == 2
    assert "--upper" in told


def test_compose_says_what_is_missing(run: Run, tmp_path: Path) -> None:
    teacher, out = tmp_path / "none.onnx", tmp_path / "o"
    words = ("compose", "--clips", tmp_path / "none", "--teacher", teacher, "--out", out)
    failed(run(*words), 1, "no clips")
    assert run(*words, "--variety", "poetic")[0] == 2
    assert run(*words, "--pairs", 0)[0] == 2
    assert run("compose", *words[1:3], *words[5:])[0] == 2, "no teacher"
    assert run("compose", *words[1:3], *words[5:], "--labels", tmp_path)[0] == 2, "pairs need a teacher"
    failed(run(*words, "--frames-only"), 1, "no clips or stills")
    failed(run(*words[:4], "a.xml:horse", *words[5:]), 1, "class 'horse' is unknown")
    assert list(tmp_path.iterdir()) == []
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("disturb: 0.3")
    failed(run(*words, "--recipe", recipe), 78, "recipe.yaml", "disturb")


@pytest.mark.footage
@pytest.mark.slow
def test_compose_from_footage(run: Run, clips: Path, tmp_path: Path) -> None:
    teacher = clips.parent / "weights" / "yolox_nano_416_coco.onnx"
    if not teacher.is_file():
        pytest.skip("no teacher beside the checkout (../shared/data/weights)")
    (tmp_path / "clips").mkdir()
    for name in ("tfl_a40-old-oak-rd.mp4", "intelprev_person-bicycle-car-detection.mp4"):
        begun(clips / name, tmp_path / "clips" / name)
    out = tmp_path / "samples"
    words = ("compose", "--clips", tmp_path / "clips", "--teacher", teacher, "--out", out, "--pairs", 2)
    code, _, told = run(*words, "--val-pairs", 1, "--val-camera", "tfl_a40-old-oak-rd")
    assert code == 0, told
    assert "validation cameras tfl_a40-old-oak-rd" in told
    assert len(json.loads((out / "train.json").read_text())) == 2


def test_stats(run: Run, tmp_path: Path) -> None:
    code, shown, _ = run("stats", Path(write_annotations(tmp_path)), "--json")
    assert code == 0
    rows = json.loads(shown)
    assert list(rows) == ["train", "val", "all"]
    assert rows["train"]["annotations"] == 2
    assert run("stats", tmp_path)[1].count("paper, Table 1") == 1
    failed(run("stats", tmp_path / "none"), 1, "is not a folder")
    (tmp_path / "val.json").write_text('[{"img_id": 3}]')
    failed(run("stats", tmp_path), 1, "val.json", "entry 0")


def write_annotations(folder: Path) -> Path:
    told = [{"img_id": "1", "sentences": ["a car", "2"]}, {"img_id": "1", "sentences": ["gone"]}]
    (folder / "train.json").write_text(json.dumps(told))
    (folder / "val.json").write_text(json.dumps(told[:1]))
    return folder


@pytest.mark.parametrize("name", ["ddla.yaml", "ddla-uniform.yaml"])
def test_the_shipped_configurations_are_valid(name: str) -> None:
    from pipeline.changes import ChangeOptions
    from train.learning.config import load_config
    from train.learning.loop import TrainOptions

    config = load_config(CONFIGS / name, epochs=7)
    assert config.training == TrainOptions(epochs=7, learning_rate=4e-4, decay=0.9)
    assert config.changes == ChangeOptions()
    assert config.captioner == "ddla"
    learned, uniform = (load_config(CONFIGS / f"{each}.yaml").arguments for each in ("ddla", "ddla-uniform"))
    assert learned | {"prior": "uniform"} == uniform, "they differ in the prior alone"


def test_the_shipped_configuration_of_the_default_is_valid() -> None:
    from models import load_captioner
    from pipeline.changes import ChangeOptions
    from train.learning.config import build_captioner, build_encoder, load_config

    config = load_config(CONFIGS / "grounded.yaml", seed=3)
    assert (config.captioner, config.training.seed) == ("grounded", 3)
    fine = {"size": (288, 384), "max_shift": 8, "delta": 38.0, "noise_factor": 1.0, "min_samples": 10}
    expected = ChangeOptions(**fine, eps=3, min_area=0.001, max_clusters=16, light_correlation=0.9)
    assert config.changes == expected
    shipped = load_captioner()
    captioner = build_captioner(config, shipped.vocabulary, build_encoder(config))
    assert captioner.sees_views
    assert {**captioner.arguments(), "members": config.learning.members} == shipped.arguments()
    assert captioner.encoder.name == shipped.encoder.name == "none"


GROUNDED = """
version: 1
captioner: grounded
arguments: {hidden: 8}
encoder: none
min_count: 1
changes: {eps: 3}
training: {epochs: 1, batch: 8, learning_rate: 0.002}
"""


def test_train_a_grounded_captioner_then_evaluate(
    run: Run, make_samples: Callable[..., Path], tmp_path: Path
) -> None:
    """Of people's annotations, and few: who has learnt nothing sees hundreds of things in each pair."""
    sample_folder = make_samples(train=4, val=2)
    config, out, cache = tmp_path / "grounded.yaml", tmp_path / "small.safetensors", tmp_path / "cache"
    config.write_text(GROUNDED)
    command = ("train", "--data", sample_folder, "--out", out, "--config", config, "--cache", cache)
    code, shown, told = run(*command, "--json")
    assert code == 0, told
    curves = json.loads(shown)["curves"]
    assert len(curves) == 1
    assert all(math.isfinite(value) for value in curves[0].values())
    record = read_label(out).record
    assert record["captioner"] == "grounded"
    assert record["left_out"] == []
    code, _, told = run("evaluate", "--data", sample_folder, "--checkpoint", out, "--cache", cache, "--json")
    assert code == 0, told


def test_cameras_can_be_left_out_of_training(
    run: Run, toy: Path, make_samples: Callable[..., Path], tmp_path: Path
) -> None:
    """As scene and as a pasted object's source; validation stays whole."""
    folder = make_samples()
    for split in ("train", "val"):
        path = folder / f"{split}.json"
        entries = json.loads(path.read_text())
        for number, entry in enumerate(entries):
            entry["camera"], entry["kind"] = ("yard", "gate", "road")[number % 3], "pasted"
            entry["sources"] = [entry["camera"], *(["gate"] if number % 6 == 0 else [])]
        path.write_text(json.dumps(entries))
    out = tmp_path / "some.safetensors"
    command = ("train", "--data", folder, "--out", out, "--config", toy, "--cache", tmp_path / "cache")
    code, _, told = run(*command, "--epochs", 1, "--leave-out", "gate")
    assert code == 0, told
    record = read_label(out).record
    assert record["left_out"] == ["gate"]
    assert record["train_annotations"] == 36 - 12 - 6
    assert record["val_pairs"] == 9


def test_usage_and_help(run: Run) -> None:
    script = (
        "import atexit, sys; from train.cli import main;"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", script, "--help"]
    helped = subprocess.run(command, capture_output=True, text=True, check=False)
    assert helped.returncode == 0, helped.stderr
    assert "78 bad" in helped.stdout
    listed = helped.stdout.partition(" Commands ")[2]
    shown = [listed.find(f" {name} ") for name in COMMANDS]
    assert -1 not in shown
    assert shown == sorted(shown), "in their order"
    assert "torch" not in helped.stderr
    assert run("train")[0] == run("fly")[0] == 2
    assert "Did you mean 'score'?" in run("scoer")[2]


def test_gallery(run: Run, toy: Path, sample_folder: Path, tmp_path: Path) -> None:
    checkpoint, out = tmp_path / "toy.safetensors", tmp_path / "page.html"
    trained = ("--out", checkpoint, "--config", toy, "--cache", tmp_path / "cache", "--epochs", 2)
    assert run("train", "--data", sample_folder, *trained)[0] == 0
    command = ("gallery", "--checkpoint", checkpoint, "--out", out, "--number", 3)
    code, shown, told = run(*command, "--data", sample_folder, "--json")
    assert code == 0, told
    assert json.loads(shown)["changes"] == 9
    assert told.startswith(f"narrated-train: {out}: ")
    assert out.read_text().count("<article") <= 3
    assert run(*command)[0] == 2
    failed(run(*command, "--data", sample_folder, "--camera", "attic"), 1, "attic")
