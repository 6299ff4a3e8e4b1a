import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_footage import Painted, clip

import train.footage.labels
import train.grounded.adaptation
from models import SHIPPED, load_captioner
from models.checkpoint import read_checkpoint
from models.families import CLASSES
from models.grounded.detector import Detector
from models.grounded.grounded import Grounded
from train.checkpoints import TrainError
from train.footage.labels import LabelledFrame
from train.footage.teachers import TeacherFile, Teachers
from train.grounded.adaptation import Adapted, AdaptOptions, Score, adapt, split_by_time
from train.grounded.change_classifier import gap_between
from train.grounded.detector_weights import export_onnx

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def painted(monkeypatch, tmp_path) -> TeacherFile:
    """The file of a teacher of drawn footage."""
    path = tmp_path / "net.onnx"
    path.write_bytes(b"weights")
    monkeypatch.setattr(train.footage.labels, "teachers", lambda _files: Teachers({"net": Painted()}))
    return TeacherFile(path)


@pytest.fixture(scope="module")
def ignorant(tmp_path_factory) -> Path:
    """A grounded captioner that has learnt nothing yet."""
    torch.manual_seed(1)
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)
    captioner.take_detector(export_onnx(Detector(len(CLASSES))))
    captioner.record = {"command": "the first", "changes": {"eps": 3.0}}
    path = tmp_path_factory.mktemp("ignorant") / "ignorant.safetensors"
    captioner.save(path)
    return path


@pytest.fixture
def options(tmp_path, painted, ignorant) -> AdaptOptions:
    clip(tmp_path / "clips" / "gate.mp4", seconds=21)
    out = tmp_path / "mine.safetensors"
    return AdaptOptions(tmp_path / "clips", (painted,), out, ignorant, steps=1, batch=1, rate=1e-6)


@pytest.mark.slow
def test_what_is_better_is_written_and_says_how(run, options, monkeypatch):
    """First measured as it is, which so small a step makes no better; then with a gain that is pretended."""
    monkeypatch.setattr(train.grounded.adaptation, "_MEASURED", 3)
    monkeypatch.setattr(train.grounded.adaptation, "AdaptOptions", partial(AdaptOptions, batch=1))
    words = ("--clips", options.clips, "--teacher", options.teachers[0].path, "--out", options.out)
    asked = ("adapt", *words, "--checkpoint", options.checkpoint, "--steps", 1, "--rate", 1e-6)
    code, shown, said = run(*asked)
    assert code == 0, said
    heading, *measured, gained = shown.splitlines()
    assert heading.startswith("On the last quarter of the footage")
    for line, name in zip(measured, ("before", "adapted"), strict=True):
        pattern = rf"  {name}: objects found as the teachers do, AP50 \d\.\d{{3}}; .* of \d+ observations .*"
        assert re.fullmatch(pattern, line)
    assert gained == "  gained: AP50 +0.000, classified right +0.0%"
    assert "nothing is written" in said.splitlines()[-1]
    assert not options.out.exists()

    def adapted(said: list[str]) -> Adapted:
        scores = [Score(0.4, 0.8, 60), Score(0.5, 0.81, 60)]
        monkeypatch.setattr(train.grounded.adaptation, "measure", lambda *_: scores.pop(0))
        return adapt(options, command="the command", note=said.append)

    made = adapted(said := list[str]())
    assert said == ["detector: there already, made from the same"]
    assert (made.before.ap50, made.after.ap50) == (0.4, 0.5)
    (base, was), (new, now) = (read_checkpoint(p) for p in (options.checkpoint, options.out) if p)
    assert made.sha256 == new.sha256
    changed = {name for name, value in now.items() if not np.array_equal(value, was[name])}
    assert changed == {"graph.detector"}, "association and decisions stay"
    record = new.record
    assert (record["command"], record["changes"]) == ("the command", {"eps": 3.0})
    assert record["adapted"]["from"] == {"sha256": base.sha256, "command": "the first"}
    (camera,) = record["adapted"]["cameras"]
    assert (camera["name"], camera["licence"]) == ("gate", "not stated")
    assert [len(sha) for sha in camera["files"].values()] == [64]
    assert [t["file"] for t in record["adapted"]["teachers"]] == ["net.onnx"]
    assert record["held out"]["after"]["ap50"] == 0.5
    first = options.out.read_bytes()
    adapted(said)
    assert options.out.read_bytes() == first
    monkeypatch.setattr(train.grounded.adaptation, "measure", lambda *_: Score(0.4, 0.8, 60))
    assert json.loads(run(*asked, "--json")[1])["sha256"] is None


def test_better_is_better_eyes_and_no_worse_judgement():
    before = Score(0.5, 0.8, 60)
    assert Score(0.51, 0.799, 60).better_than(before)
    assert not Score(0.5, 0.9, 60).better_than(before)
    assert not Score(0.7, 0.78, 60).better_than(before)


def frame(file: str, seconds: float | None = None, camera: str = "gate") -> LabelledFrame:
    return LabelledFrame(camera, file, seconds, "", 4, 3, ())


def test_the_last_part_in_time_is_held_out():
    one = [frame("a.mp4", n / 2) for n in range(81)]
    learn, held = split_by_time(one, 0.25)
    assert [f.seconds for f in held] == [30 + n / 2 for n in range(21)]
    assert max(f.seconds or 0 for f in learn) == 27.5, "two seconds between them"
    stills = [frame(f"{n}.jpg", None, "lot") for n in range(8)]
    learn, held = split_by_time([*one, *stills], 0.25)
    assert [f.file for f in held if f.camera == "lot"] == ["6.jpg", "7.jpg"]
    assert [f.file for f in learn if f.camera == "lot"] == [f"{n}.jpg" for n in range(6)]


def test_footage_in_which_nothing_moves(options, tmp_path):
    clip(tmp_path / "still" / "gate.mp4", still=True)
    with pytest.raises(TrainError, match=r"too little in .* only 0 times, and 20 are the least"):
        adapt(replace(options, clips=tmp_path / "still"))


def test_what_cannot_be_adapted(run, tmp_path):
    clip(tmp_path / "clips" / "gate.mp4", seconds=4)
    nowhere, out = tmp_path / "nowhere.onnx", tmp_path / "mine.safetensors"
    known = tmp_path / "known.safetensors"
    known.write_bytes(SHIPPED["grounded"].read_bytes())
    options = ("adapt", "--clips", tmp_path / "clips", "--teacher", nowhere)
    for more, says in (
        (("--out", out, "--checkpoint", known), f"no detector at {nowhere}"),
        (("--out", tmp_path), "is a folder"),
        (("--out", out, "--checkpoint", SHIPPED["ddla"]), "give a checkpoint of a grounded one"),
        (("--out", out, "--checkpoint", nowhere), "no checkpoint at"),
    ):
        code, shown, said = run(*options, *more)
        assert (code, shown) == (1, ""), said
        assert len(said.splitlines()) == 1
        assert says in said
    assert run("adapt", "--clips", tmp_path, "--out", out)[0] == 2
    assert not out.exists()


@pytest.mark.parametrize(
    ("one", "other", "gap_s"),
    [
        (frame("a.mp4", 3.5), frame("a.mp4", 1.0), 2.5),
        (frame("20151102_081938.jpg"), frame("20151102_084938.jpg"), 1800.0),
        (frame("625_201709301058.mp4", 2.0), frame("625_201709301158.mp4", 4.0), 3600.0),
        (frame("a.mp4", 3.5), frame("b.mp4", 1.0), None),
        (frame("a.jpg"), frame("a.jpg"), None),
    ],
)
def test_a_gap_is_told_by_the_clip_or_by_names(one, other, gap_s):
    assert gap_between(one, other) == gap_s
    assert gap_between(other, one) == gap_s
