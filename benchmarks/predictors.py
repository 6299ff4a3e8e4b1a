"""Who predicts in `quality.py`: the benchmark's baselines and `narrated describe`; and on which pairs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared"
BENCH, DATA = SHARED / "bench", SHARED / "data"
LABELS = {"first": BENCH / "visible" / "pairs.jsonl", "further": BENCH / "visible" / "further.jsonl"}
FOOTAGE = (DATA / "clips", DATA / "cameras" / "test")
SEEN = frozenset(("tfl_625", "intel_bottle-detection", "intel_one-by-one-person-detection"))
"""The benchmark's cameras on the training side; all others are for testing only."""

Pair = Mapping[str, Any]
Predictions = dict[str, list[dict[str, Any]]]
"""By a pair's id its sentences, as `score.py` takes them."""


def parts(labels: Mapping[str, Path] = LABELS) -> dict[str, list[Pair]]:
    """The visible pairs of cameras "unseen" and "seen" in training, and those of the "further" file alone."""
    read = {name: _lines(path) for name, path in labels.items()}
    every: list[Pair] = [pair for pairs in read.values() for pair in pairs]
    return {
        "unseen": [pair for pair in every if pair["camera"] not in SEEN],
        "seen": [pair for pair in every if pair["camera"] in SEEN],
        "further": list(read["further"]),
    }


def absent() -> list[str]:
    """What of the benchmark is not there."""
    wanted = (*LABELS.values(), *FOOTAGE, BENCH / "score.py")
    return [str(path.relative_to(SHARED)) for path in wanted if not path.exists()]


def pictures(pairs: Sequence[Pair], folder: Path) -> dict[str, tuple[Path, Path]]:
    """By id the two pictures of each pair in `folder`, written unless they are there."""
    names = {
        p["id"]: [folder / "png" / f"{p['id']}_{side}.png" for side in ("before", "after")] for p in pairs
    }
    if not all(path.exists() for both in names.values() for path in both):
        _script("extract.py", _wanted(pairs, folder), "--clips", *FOOTAGE, "--out", folder / "png")
    return {name: (before, after) for name, (before, after) in names.items()}


def baseline(name: str, pairs: Sequence[Pair], folder: Path) -> Predictions:
    """What a baseline of the benchmark says; what `folder` has of these pairs is not made again."""
    out = folder / f"{name}.jsonl"
    ids = {pair["id"] for pair in pairs}
    if not out.exists() or not ids <= predictions(out).keys():
        weights = DATA / "weights" / "yolox_nano_416_coco.onnx"
        options = ("--out", out, "--clips", *FOOTAGE, "--weights", weights)
        _script("baselines.py", name, _wanted(pairs, folder), *options)
    return {name: said for name, said in predictions(out).items() if name in ids}


def by_command(pairs: Sequence[Pair], folder: Path, *options: str, gaps: bool = True) -> Predictions:
    """What the public command `narrated describe --pairs` says.

    Args:
        pairs: of the benchmark.
        folder: for pictures and predictions.
        options: further ones of the command.
        gaps: whether it is told the time between the two pictures.
    """
    wanted, out = folder / "describe.jsonl", folder / "narrated.jsonl"
    seen = pictures(pairs, folder)
    lines = [json.dumps(asked(pair, *seen[pair["id"]], gap=gaps)) for pair in pairs]
    wanted.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    narrated = Path(sys.executable).with_name("narrated")
    command = [narrated, "describe", "--pairs", wanted, "--out", out, *options]
    subprocess.run([str(part) for part in command], check=True)
    return predictions(out)


def asked(pair: Pair, before: Path, after: Path, *, gap: bool) -> dict[str, Any]:
    """A line of `narrated describe --pairs`; a gap that the benchmark does not know is not given."""
    line = {"id": pair["id"], "before": str(before.resolve()), "after": str(after.resolve())}
    return line | ({"gap_s": pair["gap_s"]} if gap and pair.get("gap_s") is not None else {})


def predictions(path: Path) -> Predictions:
    """Those of a file, by id."""
    return {line["id"]: line["sentences"] for line in _lines(path)}


def _wanted(pairs: Sequence[Pair], folder: Path) -> Path:
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    return path


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _script(name: str, *arguments: object) -> None:
    """A script of the benchmark."""
    subprocess.run([sys.executable, str(BENCH / name), *map(str, arguments)], check=True)
