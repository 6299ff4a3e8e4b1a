"""`make bench-quality`: what it hands to the command, and what it skips."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from daemon.tools.description import PairPaths, read_pairs


def test_a_line_gives_the_gap_where_it_is_known(
    predictors: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(command: list[str], *, check: bool) -> None:
        Path(command[command.index("--out") + 1]).write_text('{"id": "x", "sentences": []}\n')

    monkeypatch.setattr(predictors.subprocess, "run", describe)
    images = dict.fromkeys("xy", (tmp_path / "a.png", tmp_path / "b.png"))
    pairs = [{"id": "x", "gap_s": 5.5}, {"id": "y", "gap_s": None}]
    assert predictors.described(pairs, images, tmp_path, None) == {"x": []}
    first, second = (json.loads(line) for line in (tmp_path / "describe.jsonl").read_text().splitlines())
    assert (first["gap_s"], "gap_s" in second) == (5.5, False)
    read, _ = read_pairs(tmp_path / "describe.jsonl")
    assert isinstance(read, PairPaths)
    assert (read.id, read.before, read.after) == ("x", *images["x"])


def test_only_cameras_that_training_never_saw_count(predictors: ModuleType, tmp_path: Path) -> None:
    first, further = tmp_path / "pairs.jsonl", tmp_path / "further.jsonl"
    first.write_text('{"id": "1", "camera": "tfl_625"}\n{"id": "2", "camera": "yard"}\n')
    further.write_text('{"id": "3", "camera": "gate"}\n')
    assert [pair["id"] for pair in predictors.unseen_pairs((first, further))] == ["2", "3"]


def test_what_was_told_already_is_not_made_again_unless_a_pair_is_missing(
    predictors: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(predictors, "_script", lambda name, *rest: asked.append(name))
    (tmp_path / "guess.jsonl").write_text('{"id": "1", "sentences": []}\n{"id": "2", "sentences": []}\n')
    assert predictors.baseline("guess", [{"id": "1"}], tmp_path) == {"1": []}
    assert asked == []
    predictors.baseline("guess", [{"id": "1"}, {"id": "3"}], tmp_path)
    assert asked == ["baselines.py"]


def test_without_the_benchmark_it_says_so_and_ends_well(
    quality: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["quality.py"])
    monkeypatch.setattr(quality.predictors, "absent", lambda labels: ["bench/score.py"])
    monkeypatch.setattr(quality.replays, "absent", lambda: ["bench/tracks.py"])
    quality.main()
    assert capsys.readouterr().out.splitlines() == [
        "skipped: no narration benchmark beside the checkout (../shared: bench/score.py)",
        "skipped: no published tracks beside the checkout (../shared: bench/tracks.py)",
    ]
