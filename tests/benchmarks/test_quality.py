"""What `make bench-quality` counts by itself, beside the benchmark's scorer."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import models.grounded
from models import SHIPPED, load_captioner
from models.captioner import DescribeOptions
from pipeline.changes import ChangeOptions

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def quality() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(FOLDER))
        spec = importlib.util.spec_from_file_location("quality", FOLDER / "quality.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        patched.setitem(sys.modules, "quality", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def scorer(quality: ModuleType, bench: Path) -> ModuleType:
    return quality.loaded_scorer()


def pair(count: int = 2, camera: str = "yard") -> dict[str, Any]:
    change = {
        "type": "appeared",
        "object": "person",
        "count": count,
        "box_before": None,
        "box_after": [0.2, 0.2, 0.2, 0.4],
        "salient": True,
        "identity": "certain",
    }
    return {"id": f"{camera}{count}", "camera": camera, "conditions": {}, "changes": [change], "ignore": []}


def said(text: str) -> list[dict[str, Any]]:
    return [{"text": text, "box": [0.2, 0.2, 0.2, 0.4], "confidence": 0.9}]


@pytest.mark.footage
@pytest.mark.parametrize(
    ("texts", "right"),
    [
        (["Two people have appeared on the left."], 1),
        (["2 people have appeared on the left."], 1),
        (["A person has appeared.", "A person has appeared."], 1),
        (["Three people have appeared on the left."], 0),
        (["A person has appeared on the left."], 0),
        (["Several people have appeared on the left."], 0),
    ],
)
def test_all_sentences_about_a_label_together_tell_its_number(
    quality: ModuleType, scorer: ModuleType, texts: list[str], right: int
) -> None:
    counts = quality.counted(scorer, pair(), [s for text in texts for s in said(text)])
    assert (counts["numbers"], counts["number_right"]) == (1, right)
    assert (counts["groups"], counts["group_right"]) == (1, right)
    assert counts["matched"] == len(texts)


@pytest.mark.footage
def test_what_is_told_of_a_single_object_is_counted_but_no_group(
    quality: ModuleType, scorer: ModuleType
) -> None:
    alone = quality.counted(scorer, pair(1), said("A person has appeared."))
    assert (alone["numbers"], alone["number_right"], alone["groups"]) == (1, 1, 0)
    assert quality.counted(scorer, pair(1), said("Two people have appeared."))["number_right"] == 0
    assert quality.counted(scorer, pair(), said("Nothing has changed."))["numbers"] == 0


@pytest.mark.footage
def test_one_who_left_here_and_came_there_is_one(quality: ModuleType, scorer: ModuleType) -> None:
    moved = pair(1)
    moved["changes"][0] |= {"type": "moved", "identity": "unsure", "box_before": [0.2, 0.2, 0.2, 0.4]}
    twice = [*said("The person is gone."), *said("A person has appeared.")]
    counts = quality.counted(scorer, moved, twice)
    assert (counts["matched"], counts["numbers"], counts["number_right"]) == (2, 1, 1)


@pytest.mark.footage
def test_a_plural_that_covers_two_labels_counts_both(quality: ModuleType, scorer: ModuleType) -> None:
    two = pair(1)
    beside = {**two["changes"][0], "box_after": [0.35, 0.2, 0.2, 0.4]}
    two["changes"].append(beside)
    wide = [{"text": "Two people have appeared.", "box": [0.2, 0.2, 0.35, 0.4], "confidence": 0.9}]
    assert quality.counted(scorer, two, wide)["number_right"] == 1


@pytest.mark.footage
def test_seeds_are_added_up_and_shown_apart(quality: ModuleType, scorer: ModuleType) -> None:
    pairs = [pair(2, "yard"), pair(2, "door")]
    right = {p["id"]: said("Two people have appeared.") for p in pairs}
    line = quality.scored(scorer, pairs, quality.Row("half", [right, {}]))
    assert line.seeds == (1.0, 0.0)
    assert line.figures["full recall"] == 0.5
    assert line.figures["missed"] == 0.5
    assert line.figures["exact count"] == 1.0
    assert quality.line_of("half", line).startswith(
        "| half | .667 [.667, .667] | .000 to 1.000 | 1.000 | .500 |"
    )


def test_a_left_out_camera_is_told_by_the_checkpoint_without_it(quality: ModuleType) -> None:
    told = [{"a": ["seen"], "b": ["1"]}, {"a": ["seen"], "b": ["2"]}]
    apart = [[{"a": ["x"]}, {"a": ["y"]}, {"a": ["z"]}]]
    assert quality.left_out_seeds(told, apart) == [
        {"a": ["x"], "b": ["1"]},
        {"a": ["y"], "b": ["2"]},
        {"a": ["z"], "b": ["1"]},
    ]


def test_a_checkpoint_that_saw_the_camera_is_refused(quality: ModuleType) -> None:
    with pytest.raises(SystemExit, match="was trained without"):
        quality.check_left_out("yard", [SHIPPED["grounded"]], {"yard"})
    with pytest.raises(SystemExit, match="cameras are yard"):
        quality.check_left_out("door", [], {"yard"})


def test_cameras_of_training_are_found_under_their_longer_names(quality: ModuleType, tmp_path: Path) -> None:
    composed = tmp_path / "compose.json"
    report = {"train_cameras": ["yard", "tfl_a1-barnet-way"], "val_cameras": ["door-west"]}
    composed.write_text(json.dumps({"report": report}), encoding="utf-8")
    cameras = {"yard", "tfl_a1", "tfl_a10", "door"}
    assert quality.seen_cameras(cameras, composed) == ({"yard", "tfl_a1"}, {"door"})
    assert quality.seen_cameras(cameras, tmp_path / "none.json") == (set(), set())


def _fold(folder: Path, train: list[str], val: list[str]) -> str:
    folder.mkdir()
    report = {"report": {"train_cameras": train, "val_cameras": val}}
    (folder / "compose.json").write_text(json.dumps(report))
    return str(folder)


def test_each_camera_is_told_by_the_first_fold_without_it(quality: ModuleType, tmp_path: Path) -> None:
    one, other = Path("one.safetensors"), Path("other.safetensors")
    folds = [
        (_fold(tmp_path / "a", ["yard-north"], ["gate"]), [one]),
        (_fold(tmp_path / "b", ["road"], ["lot"]), [other]),
    ]
    told = quality.told_by_fold(folds, {"yard", "gate", "road", "square"})
    assert told == {"road": [one], "square": [one], "yard": [other], "gate": [other]}
    assert quality.told_by_fold([], {"yard"}) == {}


def test_folds_that_leave_a_camera_to_nobody_are_refused(quality: ModuleType, tmp_path: Path) -> None:
    seen = _fold(tmp_path / "a", ["yard"], ["gate"])
    with pytest.raises(SystemExit, match="no fold leaves out gate, yard"):
        quality.told_by_fold([(seen, [])], {"yard", "gate", "road"})
    with pytest.raises(SystemExit, match=r"holds no compose\.json"):
        quality.told_by_fold([(str(tmp_path), [])], {"yard"})


def test_every_step_that_is_switched_off_exists(quality: ModuleType) -> None:
    captioner = load_captioner(SHIPPED["grounded"])
    options = {field.name for field in fields(ChangeOptions)}
    for step in quality.STEPS:
        assert all(hasattr(captioner, name) for name in step.attributes), step.name
        assert all(callable(getattr(models.grounded, name)) for name in step.functions), step.name
        assert set(step.changes) <= options, step.name
        DescribeOptions(**step.options)


def test_without_the_benchmark_it_says_so_and_ends_well(
    quality: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["quality.py"])
    monkeypatch.setattr(quality, "LABELS", tmp_path / "none.jsonl")
    quality.main()
    assert capsys.readouterr().out.startswith("skipped: no narration benchmark")
