"""`make bench-quality`: its rows, its tables, and what it skips."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from daemon.tools.description import PairPaths, read_pairs


def line(scoring: ModuleType, f1: float = 0.5, auc: float = 0.75) -> Any:
    kinds = {"appeared": 3, "disappeared": 0, "moved": 1, "otherwise": 0, "not told": 2}
    return scoring.Line(
        dict.fromkeys(("precision", "recall", "FULL_F1"), f1),
        (0.25, 0.75),
        (0.4, 0.6),
        {"yard": 1.0, "door": 0.0},
        (scoring.Group("lot, <2 s", 3, 0.1), scoring.Group("lot, >= 5 min", 20, 0.2)),
        {"appeared": kinds},
        scoring.Calibration(7, 0.5, 0.6, 0.1, auc),
    )


@pytest.fixture
def whole(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    headings = {name: name for name in ("precision", "recall")}
    monkeypatch.setattr(tables, "HEADINGS", headings)
    return tables


def test_the_table_names_mean_worst_group_confusion_and_confidence(
    whole: ModuleType, scoring: ModuleType
) -> None:
    text = whole.pairs("Here", [], {"narrated": line(scoring)})
    assert "| narrated | .500 [.250, .750] | .400 to .600 | .500 | lot, >= 5 min: .200 of 20 | .500 |" in text
    assert "| narrated | appeared | 3 | 0 | 1 | 0 | 2 |" in text
    assert "| narrated | 7 | .500 | .600 | .100 | .750 |" in text


def test_plain_values_are_json_without_nan(
    tables: ModuleType, scoring: ModuleType, replays: ModuleType
) -> None:
    rows = tables.plain({"narrated": line(scoring, f1=float("nan"), auc=float("nan"))})
    values = json.loads(json.dumps(rows, allow_nan=False))["narrated"]
    assert values["figures"]["FULL_F1"] is None
    assert values["calibration"]["auc"] is None
    assert (values["camera_mean"], values["worst"]["labels"]) == (0.5, 20)
    truth = replays.Truth(1, 1, 0, 0, (1, 2), (0, 0), {}, ((0.9, True),))
    told = json.loads(json.dumps(tables.plain({"narrated": {"all": truth}}), allow_nan=False))
    assert told["narrated"]["all"]["precision"] == 0.5
    assert told["narrated"]["all"]["entrances"] == [1, 2]


def test_replays_are_shown_by_clip_and_summed(tables: ModuleType, replays: ModuleType) -> None:
    truth = replays.Truth(3, 1, 2, 0, (1, 2), (0, 3), {"moved: another one": 1}, ())
    text = tables.tracks({"narrated": {"yard.avi": truth, tables.SUM: truth}})
    assert "| narrated | yard.avi | 3 | 1 | 2 | 0 | .750 | 1 of 2 | 0 of 3 | - | - |" in text
    assert "| narrated | **all** |" in text
    assert "narrated, false because: moved: another one 1" in text


def test_checkpoints_seeds_and_ablations_are_rows(quality: ModuleType) -> None:
    chosen = quality.options().parse_args(
        ["--checkpoint", "a", "--seeds", "b", "c", "--ablation", "nothing linked=d,e"]
    )
    assert quality.checkpoints(chosen) == {
        "narrated": [Path("a")],
        "narrated, 3 seeds": [Path("a"), Path("b"), Path("c")],
        "nothing linked": [Path("d"), Path("e")],
    }
    assert quality.checkpoints(quality.options().parse_args([])) == {"narrated": [None]}
    with pytest.raises(SystemExit):
        quality.options().parse_args(["--ablation", "nothing"])


def test_a_line_tells_the_gap_where_it_is_known(predictors: ModuleType, tmp_path: Path) -> None:
    before, after = tmp_path / "a.png", tmp_path / "b.png"
    pair = {"id": "x", "gap_s": 5.5}
    told = predictors.asked(pair, before, after, gap=True)
    assert told == {"id": "x", "before": str(before), "after": str(after), "gap_s": 5.5}
    assert "gap_s" not in predictors.asked(pair, before, after, gap=False)
    assert "gap_s" not in predictors.asked({"id": "x", "gap_s": None}, before, after, gap=True)
    (tmp_path / "pairs.jsonl").write_text(json.dumps(told) + "\n")
    (read,) = read_pairs(tmp_path / "pairs.jsonl")
    assert isinstance(read, PairPaths)
    assert (read.id, read.before, read.after) == ("x", before, after)


def test_cameras_are_seen_or_unseen_and_the_further_ones_stand_alone_too(
    predictors: ModuleType, tmp_path: Path
) -> None:
    first, further = tmp_path / "pairs.jsonl", tmp_path / "further.jsonl"
    first.write_text('{"id": "1", "camera": "tfl_625"}\n{"id": "2", "camera": "yard"}\n')
    further.write_text('{"id": "3", "camera": "gate"}\n')
    parts = predictors.parts({"first": first, "further": further})
    assert {name: [pair["id"] for pair in pairs] for name, pairs in parts.items()} == {
        "unseen": ["2", "3"],
        "seen": ["1"],
        "further": ["3"],
    }


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
    quality: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["quality.py", "--json", str(tmp_path / "figures.json")])
    monkeypatch.setattr(quality.predictors, "absent", lambda: ["bench/score.py"])
    monkeypatch.setattr(quality.replays, "absent", lambda: ["bench/tracks.py"])
    quality.main()
    assert capsys.readouterr().out.splitlines() == [
        "skipped: no narration benchmark beside the checkout (../shared: bench/score.py)",
        "skipped: no published tracks beside the checkout (../shared: bench/tracks.py)",
    ]
    assert json.loads((tmp_path / "figures.json").read_text()) == {}
