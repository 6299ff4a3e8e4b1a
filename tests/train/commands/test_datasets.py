from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from train.samples import load_samples

Run = Callable[..., tuple[int, str, str]]


def test_generate(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "set"
    code, shown, told = run(
        *(
            "generate",
            "--out",
            out,
            "--pairs",
            20,
            "--seed",
            4,
            "--size",
            64,
            "--cameras",
            5,
            "--annotators",
            2,
        ),
        *("--distractors", 0.5, "--balanced", "--json"),
    )
    assert (code, told) == (0, "")
    assert json.loads(shown)["pairs"] == {"train": 16, "val": 2, "test": 2}
    assert all(len(s.annotations) == 2 and len(s.changes) <= 1 for s in load_samples(out, "train"))
    code, shown, told = run("generate", "--out", out, "--pairs", 20)
    assert (code, shown) == (1, "")
    assert "exists already" in told
    assert len(told.splitlines()) == 1
    code, shown, told = run("generate", "--out", tmp_path / "other", "--pairs", 10, "--size", 64)
    assert (code, shown) == (0, "")
    assert "train 8, val 1, test 1" in told
