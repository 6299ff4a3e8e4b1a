import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from drawn_footage import Painted, clip
from small_osnet import published_osnet

import train.footage.labels
import train.grounded.appearance
import train.grounded.chain
from models import load_captioner
from models.checkpoint import read_label
from models.grounded.grounded import Grounded
from train.checkpoints import TrainError
from train.footage.labels import LabelOptions, label_frames, read_frames
from train.footage.teachers import TeacherFile, Teachers
from train.grounded.appearance import Tracklet
from train.grounded.chain import validation_cameras
from train.grounded.pictures import Pictures
from train.grounded.stages import StageOutput, Stages

CONFIG = Path(__file__).parents[3] / "configs" / "train" / "grounded.yaml"
TINY = {
    "detector_steps": 1,
    "detector_batch": 1,
    "memory_mb": 1,
    "feature_steps": 3,
    "classifier_pairs": 8,
    "classifier_steps": 5,
    "embedding_steps": 2,
    "members": 2,
}
STAGES = ("detector", "embedding", "classifier", "appearance")


@pytest.fixture(scope="module")
def frames(tmp_path_factory) -> Path:
    """Labelled frames of three drawn cameras; read only."""
    folder = tmp_path_factory.mktemp("chain")
    for number, name in enumerate(("gate", "lot", "yard")):
        clip(folder / "clips" / name / "a.mp4", seconds=2, seed=number)
    stated = [{"name": "gate", "licence": "CC BY 4.0", "repo": "a/b"}]
    (folder / "clips" / "MANIFEST.json").write_text(json.dumps(stated))
    (folder / "net.onnx").write_bytes(b"weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train.footage.labels, "teachers", lambda _files: Teachers({"net": Painted()}))
        options = LabelOptions(folder / "clips", folder / "frames", (TeacherFile(folder / "net.onnx"),))
        label_frames(options)
    return folder / "frames"


@pytest.fixture
def config(tmp_path) -> Path:
    """The shipped configuration, but nothing is learnt for long."""
    content = yaml.safe_load(CONFIG.read_text())
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump({**content, "learning": TINY}))
    return path


@pytest.fixture
def reid(tmp_path, monkeypatch) -> Path:
    """A small network in place of the published one, and two people whom no untrained detector finds."""

    def tracklets(*_: object) -> list[Tracklet]:
        chance = torch.Generator().manual_seed(2)
        vectors = torch.nn.functional.normalize(torch.randn(2, 4, 256, generator=chance), dim=-1)
        return [
            Tracklet(f"{camera}/a.mp4", "1", "person", 0.0, 3.0, own)
            for camera, own in zip(("gate", "yard"), vectors, strict=True)
        ]

    monkeypatch.setattr(train.grounded.chain, "starting_osnet", lambda _path: published_osnet())
    monkeypatch.setattr(train.grounded.appearance, "collect_tracklets", tracklets)
    path = tmp_path / "reid.onnx"
    path.write_bytes(b"published")
    return path


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("one_thread")
def test_trains_a_captioner_that_says_what_it_learnt_from(run, frames, config, reid, tmp_path):
    out = tmp_path / "mine.safetensors"
    words = ("train", "--data", frames, "--out", out, "--config", config, "--seed", 3, "--reid", reid)
    code, _, told = run(*words, "--val-camera", "lot")
    assert code == 0, told
    captioner = load_captioner(out)
    assert isinstance(captioner, Grounded)
    record = read_label(out).record
    assert record["validation_cameras"] == ["lot"]
    assert [(c["name"], c["used"], c["licence"]) for c in record["cameras"]] == [
        ("gate", "to learn from", "CC BY 4.0"),
        ("lot", "to validate", "not stated"),
        ("yard", "to learn from", "not stated"),
    ]
    assert record["cameras"][0]["source"] == {"repo": "a/b"}
    assert all(len(sha) == 64 for camera in record["cameras"] for sha in camera["files"].values())
    assert [t["file"] for t in record["teachers"]] == ["net.onnx"]
    assert (record["seed"], record["start"]) == (3, None)
    assert record["steps"]["feature_steps"] == 3
    assert record["command"].endswith("--seed 3 --reid reid.onnx --val-camera lot")
    packaged = load_captioner()
    assert [camera["name"] for camera in record["embedding"]["cameras"]] == ["gate", "yard"]
    assert record["embedding"]["start"]["file"] == "reid.onnx"
    assert captioner.graphs["embedding"] != packaged.graphs["embedding"]
    assert all(record[name] == packaged.record[name] for name in ("decisions", "tracking"))
    assert record["changes"]["delta"] == 38
    assert str(tmp_path.parent) not in json.dumps(dict(record)), "nobody's paths"
    log = (out.with_suffix(".run") / "log.txt").read_text()
    assert all(f"{stage}: done in" in log for stage in STAGES)

    first = out.read_bytes()
    for name in STAGES[2:]:  # as if the power had failed: one is missing, one is cut short
        path = out.with_suffix(".run") / f"{name}.pt"
        path.write_bytes(path.read_bytes()[:1000]) if name == "classifier" else path.unlink()
    out.unlink()
    code, _, told = run(*words, "--val-camera", "lot")
    assert code == 0, told
    kept = [line.split(": ")[1] for line in told.splitlines() if "there already" in line]
    assert kept == [*STAGES[:2]]
    assert out.read_bytes() == first, "made again from the same, it is the same"


def test_a_stage_is_made_again_where_what_it_is_made_from_is_another(
    run, frames, config, reid, tmp_path, monkeypatch
):
    packaged = load_captioner()
    assert isinstance(packaged, Grounded)
    embedding, classifier = packaged.weights.embedding, packaged.weights.classifier.arrays()
    tensors = {name: torch.from_numpy(array) for name, array in classifier.items()}
    results = {
        "detector": {"graph": packaged.graphs["detector"], "ap50": {}},
        "embedding": {"weights": {n: torch.from_numpy(getattr(embedding, n)) for n in ("weight", "bias")}},
        "classifier": {"weights": tensors, "validated": 0, "right": 0},
        "appearance": {"graph": packaged.graphs["embedding"], "cameras": []},
    }
    usual, content = dict[str, str](), config.read_text()

    def again(*more: object) -> list[str]:
        """The stages whose inputs are not the usual ones."""
        made = dict[str, str]()

        def known(_: Stages, name: str, inputs: dict[str, object], _make: object) -> StageOutput:
            made[name] = json.dumps(inputs, sort_keys=True)
            return StageOutput(results[name], made[name])

        monkeypatch.setattr(Stages, "run", known)
        words = ("train", "--data", frames, "--out", tmp_path / "x.safetensors", "--config", config)
        code, _, told = run(*words, "--reid", reid, *more)
        assert code == 0, told
        usual.update({name: inputs for name, inputs in made.items() if name not in usual})
        return [name for name in made if made[name] != usual[name]]

    assert again() == []
    assert again("--seed", 4) == again("--val-camera", "lot") == [*STAGES]
    for step, stages in (
        *(("detector", STAGES), ("feature", ("embedding", "appearance"))),
        *(("classifier", ("classifier",)), ("embedding", ("appearance",))),
    ):
        config.write_text(content.replace(f"{step}_steps: ", f"{step}_steps: 1"))
        assert again() == [*stages]
    config.write_text(content)
    reid.write_bytes(b"another")
    assert again() == ["embedding", "appearance"]


def test_pictures_are_held_in_so_many_megabytes(frames):
    pictures, rng = Pictures(frames, read_frames(frames), memory_mb=1), np.random.default_rng(1)
    for _ in range(30):
        assert pictures.draw(rng, (96, 128)).image.shape == (96, 128, 3)
    assert 500_000 < sum(image.nbytes for image in pictures._held.values()) <= 1_000_000


def test_a_stage_is_made_once(tmp_path):
    said: list[str] = []
    made: list[Path] = []

    def make(scratch: Path) -> dict[str, object]:
        made.append(scratch)
        (scratch / "state.pt").write_bytes(b"half")
        if len(made) == 1:
            raise KeyboardInterrupt
        assert (scratch / "state.pt").exists()
        (scratch / "log.jsonl").write_text("{}\n")
        return {"weights": torch.ones(2), "words": ["a"]}

    stages = Stages(tmp_path / "run", said.append)
    with pytest.raises(KeyboardInterrupt):
        stages.run("eyes", {"steps": 3}, make)
    first = stages.run("eyes", {"steps": 3}, make)
    assert made[0] == made[1], "it goes on where it was"
    again = Stages(tmp_path / "run", said.append).run("eyes", {"steps": 3}, make)
    assert len(made) == 2
    assert (again.key, again.result["words"]) == (first.key, ["a"])
    assert torch.equal(again.result["weights"], torch.ones(2))
    other = stages.run("eyes", {"steps": 4}, make)
    assert other.key != first.key
    assert made[2] != made[1], "of other inputs nothing is gone on with"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["eyes.jsonl", "eyes.pt", "log.txt"]
    assert said[-1].startswith("eyes: done in")


def test_validation_cameras():
    names = [f"camera{n}" for n in range(50)]
    held = validation_cameras(names)
    assert 4 <= len(held) <= 16
    assert set(held) <= set(validation_cameras([*names, "another"])), "a further camera moves no other"
    assert len(validation_cameras(["gate", "yard"])) == 1
    assert validation_cameras(names, ["camera7"]) == ("camera7",)
    with pytest.raises(TrainError, match="there is no camera attic; there are gate, yard"):
        validation_cameras(["gate", "yard"], ["attic"])
    with pytest.raises(TrainError, match="validation needs a camera"):
        validation_cameras(["gate"])


def test_what_cannot_be_trained(run, frames, config, tmp_path):
    out = tmp_path / "mine.safetensors"
    words = ("train", "--out", out, "--config", config)
    code, _, told = run(*words, "--data", frames, "--val-camera", "attic")
    assert (code, "there is no camera attic" in told) == (1, True)
    code, _, told = run(*words, "--data", frames, "--start", tmp_path / "none.onnx")
    assert (code, "none.onnx cannot be read" in told) == (1, True)
    assert run(*words, "--data", frames, "--epochs", 3)[0] == 2
    assert run(*words, "--data", tmp_path, "--start", tmp_path / "none.onnx")[0] == 2
    code, _, told = run("train", "--data", frames, "--out", tmp_path, "--config", config)
    assert (code, "is a folder" in told) == (1, True)
    config.write_text(config.read_text().replace("classifier_steps", "classifier_step"))
    code, _, told = run(*words, "--data", frames)
    assert (code, "learning.classifier_step: unknown key" in told) == (78, True)
    config.write_text(config.read_text().replace("classifier_step: ", "classifier_steps: -"))
    code, _, told = run(*words, "--data", frames)
    assert (code, "learning options must be positive" in told) == (78, True)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "frames.jsonl").write_bytes((frames / "frames.jsonl").read_bytes())
    code, _, told = run("train", "--data", bare, "--out", out, "--config", CONFIG)
    assert (code, "does not say what the frames of gate were made of" in told) == (1, True)
    assert not out.exists()


def test_footage_that_has_gone_is_missed_first(run, frames, config, tmp_path):
    moved = tmp_path / "moved"
    (moved / "labels").mkdir(parents=True)
    (moved / "frames.jsonl").write_bytes((frames / "frames.jsonl").read_bytes())
    (moved / "images").symlink_to(frames / "images")
    for path in (frames / "labels").glob("*.json"):
        source = json.loads(path.read_text())
        (moved / "labels" / path.name).write_text(json.dumps({**source, "footage": str(tmp_path / "gone")}))
    words = ("train", "--data", moved, "--config", config, "--val-camera", "gate")
    code, _, told = run(*words, "--out", tmp_path / "mine.safetensors")
    assert code == 1
    assert "is no longer in" in told
    assert "label again from where it is" in told
    assert not (tmp_path / "mine.run").exists()
