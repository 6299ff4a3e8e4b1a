"""How right the narrations are on the benchmark in ../shared/bench, beside its baselines.

    python benchmarks/quality.py [--checkpoint FILE] [--keep DIR]

Writes the pairs as pictures, describes them with `narrated describe --pairs`, scores them and the baselines
with the benchmark's own scorer, and prints one table: all visible pairs, and those of cameras that the
model has never seen.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared"
BENCH, DATA = SHARED / "bench", SHARED / "data"
UNSEEN = ("opencv_vtest", "tfl_elephant-castle", "tfl_a40", "intelprev_person-bicycle-car")
"""Cameras of the benchmark that the packaged checkpoint was not trained on. All but vtest served as
validation: they chose the epoch and the thresholds."""

BASELINES = ("constant", "guess", "detector")
FIGURES = (
    "FULL_F1", "precision", "recall", "F1", "type acc", "polarity acc", "object family", "position acc",
    "false alarms", "missed",
)  # fmt: skip


def main() -> None:
    """Print the table; write the raw results where --json says."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--checkpoint", type=Path, help="another checkpoint than the packaged one")
    arguments.add_argument("--keep", type=Path, help="folder for the pictures, predictions and scores")
    arguments.add_argument("--unseen", nargs="*", default=UNSEEN, help="cameras that training never saw")
    chosen = arguments.parse_args()
    if not BENCH.is_dir():
        sys.exit("no narration benchmark beside the checkout (../shared/bench): nothing to measure")
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        labels = BENCH / "visible" / "pairs.jsonl"
        predictions = {name: _baseline(name, labels, folder) for name in BASELINES}
        predictions["narrated"] = _narrated(labels, folder, chosen.checkpoint)
        unseen = _of_cameras(labels, chosen.unseen, folder)
        for title, pairs in (("all visible pairs", labels), ("cameras never seen in training", unseen)):
            _table(title, pairs, predictions, folder)


def _baseline(name: str, labels: Path, folder: Path) -> Path:
    out = folder / f"{name}.jsonl"
    weights = DATA / "weights" / "yolox_nano_416_coco.onnx"
    if not out.exists():
        _run(
            BENCH / "baselines.py",
            name,
            labels,
            "--out",
            out,
            "--clips",
            DATA / "clips",
            "--weights",
            weights,
        )
    return out


def _narrated(labels: Path, folder: Path, checkpoint: Path | None) -> Path:
    """Predictions of this project's model, made through its public command."""
    pictures = folder / "png"
    if not pictures.exists():
        _run(BENCH / "extract.py", labels, "--clips", DATA / "clips", "--out", pictures)
    pairs = folder / "describe.jsonl"
    ids = [json.loads(line)["id"] for line in labels.read_text().splitlines()]
    pairs.write_text(
        "".join(
            json.dumps({"id": i, "before": f"png/{i}_before.png", "after": f"png/{i}_after.png"}) + "\n"
            for i in ids
        )
    )
    out = folder / "narrated.jsonl"
    command = [Path(sys.executable).with_name("narrated"), "describe", "--pairs", pairs, "--out", out]
    subprocess.run([*command, *(["--captioner-file", checkpoint] if checkpoint else [])], check=True)
    return out


def _of_cameras(labels: Path, cameras: Sequence[str], folder: Path) -> Path:
    """The labels of these cameras only."""
    out = folder / "unseen.jsonl"
    kept = [line for line in labels.read_text().splitlines() if json.loads(line)["camera"] in cameras]
    out.write_text("".join(line + "\n" for line in kept))
    return out


def _table(title: str, labels: Path, predictions: dict[str, Path], folder: Path) -> None:
    pairs = [json.loads(line) for line in labels.read_text().splitlines()]
    if not pairs:
        return
    cameras = sorted({p["camera"] for p in pairs})
    print(f"\n**{title}**: {len(pairs)} pairs of {len(cameras)} cameras ({', '.join(cameras)})\n")
    print("| predictor | " + " | ".join(FIGURES) + " |\n|" + "---|" * (len(FIGURES) + 1))
    for name, file in predictions.items():
        scores = _score(labels, file, folder, {p["id"] for p in pairs})
        low, high = scores["ci95"]["FULL_F1"]
        cells = [f"{scores['all'][k]:.3f}" for k in FIGURES]
        cells[0] += f" [{low:.2f}, {high:.2f}]"
        print(f"| {name} | " + " | ".join(cells) + " |")


def _score(labels: Path, predictions: Path, folder: Path, ids: set[str]) -> dict[str, Any]:
    kept = folder / "kept.jsonl"
    lines = predictions.read_text().splitlines()
    kept.write_text("".join(line + "\n" for line in lines if json.loads(line)["id"] in ids))
    result = folder / f"{labels.stem}-{predictions.stem}-scores.json"
    _run(BENCH / "score.py", labels, kept, "--json", result, "--by", "camera", quiet=True)
    scores: dict[str, Any] = json.loads(result.read_text())
    return scores


def _run(*command: object, quiet: bool = False) -> None:
    output = subprocess.DEVNULL if quiet else None
    subprocess.run([sys.executable, *map(str, command)], check=True, stdout=output, stderr=output)


if __name__ == "__main__":
    main()
