"""Where the benchmark lies, and what is said of its pairs: by its baselines and by `narrated describe`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared"
BENCH, DATA = SHARED / "bench", SHARED / "data"
LABELS = tuple(BENCH / "visible" / name for name in ("pairs.jsonl", "further.jsonl"))
STRICT = (BENCH / "visible" / "strict.jsonl",)
FOOTAGE = (DATA / "clips", DATA / "cameras" / "test")
SEEN = frozenset(("tfl_625", "intel_bottle-detection", "intel_one-by-one-person-detection"))
"""The benchmark's cameras on the training side; all others are for testing only."""

Pair = Mapping[str, Any]
Predictions = dict[str, list[dict[str, Any]]]
"""By a pair's id its sentences, as `score.py` takes them."""


def read_lines(path: Path) -> list[Any]:
    """The values of a file with one JSON value a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def write_lines(path: Path, values: Sequence[object]) -> Path:
    """Write one JSON value a line."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def unseen_pairs(labels: Sequence[Path] = LABELS) -> list[Pair]:
    """The visible pairs of cameras that nothing was trained on."""
    return [pair for path in labels for pair in read_lines(path) if pair["camera"] not in SEEN]


def absent(labels: Sequence[Path] = LABELS) -> list[str]:
    """What of the benchmark is not there."""
    wanted = (*labels, *FOOTAGE, BENCH / "score.py")
    return [str(path.relative_to(SHARED)) for path in wanted if not path.exists()]


def pictures(pairs: Sequence[Pair], folder: Path) -> dict[str, tuple[Path, Path]]:
    """By id the two pictures of each pair in `folder`, written unless they are there."""
    png = folder / "png"
    names = {p["id"]: (png / f"{p['id']}_before.png", png / f"{p['id']}_after.png") for p in pairs}
    if not all(path.exists() for both in names.values() for path in both):
        wanted = write_lines(folder / "pairs.jsonl", pairs)
        _script("extract.py", wanted, "--clips", *FOOTAGE, "--out", png)
    return names


def baseline(name: str, pairs: Sequence[Pair], folder: Path) -> Predictions:
    """What a baseline of the benchmark says; what `folder` has of these pairs is not made again."""
    out = folder / f"{name}.jsonl"
    ids = {pair["id"] for pair in pairs}
    if not out.exists() or not ids <= predictions(out).keys():
        weights = DATA / "weights" / "yolox_nano_416_coco.onnx"
        wanted = write_lines(folder / "pairs.jsonl", pairs)
        _script("baselines.py", name, wanted, "--out", out, "--clips", *FOOTAGE, "--weights", weights)
    return {name: said for name, said in predictions(out).items() if name in ids}


def described(
    pairs: Sequence[Pair], images: Mapping[str, tuple[Path, Path]], folder: Path, checkpoint: Path | None
) -> Predictions:
    """What `narrated describe --pairs` says; a gap that is not known is not given."""
    lines = []
    for pair in pairs:
        before, after = (str(path.resolve()) for path in images[pair["id"]])
        gap = {"gap_s": pair["gap_s"]} if pair.get("gap_s") is not None else {}
        lines.append({"id": pair["id"], "before": before, "after": after, **gap})
    wanted, out = write_lines(folder / "describe.jsonl", lines), folder / "narrated.jsonl"
    own = ["--captioner-file", checkpoint] if checkpoint else []
    command = [Path(sys.executable).with_name("narrated"), "describe", "--pairs", wanted, "--out", out, *own]
    subprocess.run([str(part) for part in command], check=True)
    return predictions(out)


def predictions(path: Path) -> Predictions:
    """Those of a file, by id."""
    return {line["id"]: line["sentences"] for line in read_lines(path)}


def _script(name: str, *arguments: object) -> None:
    """A script of the benchmark."""
    subprocess.run([sys.executable, str(BENCH / name), *map(str, arguments)], check=True)
