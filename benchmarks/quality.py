"""How right the narrations are on the benchmark in ../shared/bench, beside its baselines.

    python benchmarks/quality.py [--checkpoint FILE] [--strict] [--only pairs|tracks] [--alone] [--keep DIR]

`narrated describe --pairs` describes the visible pairs of cameras that training never saw, and `score.py`
judges them; `narrated replay` replays the clips that have published tracks, and `tracks.py` judges these.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import predictors
import replays
import scoring

BASELINES = ("constant", "guess", "detector")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, help="a checkpoint in place of the packaged one")
    parser.add_argument("--strict", action="store_true", help="the strict labels and reading of objects")
    parser.add_argument("--only", choices=("pairs", "tracks"))
    parser.add_argument("--alone", action="store_true", help="leave out the baselines")
    parser.add_argument("--keep", type=Path, help="folder for the pictures, predictions and replays")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if chosen.only != "tracks":
            print_pairs(chosen, folder)
        if chosen.only != "pairs":
            print_tracks(chosen, folder)


def print_pairs(chosen: argparse.Namespace, folder: Path) -> None:
    """Describe and judge the pairs."""
    labels = predictors.STRICT if chosen.strict else predictors.LABELS
    if missing := predictors.absent(labels):
        print(f"skipped: no narration benchmark beside the checkout (../shared: {', '.join(missing)})")
        return
    pairs = predictors.unseen_pairs(labels)
    rows = {} if chosen.alone else {name: predictors.baseline(name, pairs, folder) for name in BASELINES}
    images = predictors.pictures(pairs, folder)
    rows["narrated"] = predictors.described(pairs, images, folder, chosen.checkpoint)
    (folder / "predictions.json").write_text(json.dumps(rows), encoding="utf-8")
    print(f"{len(pairs)} pairs of {len({pair['camera'] for pair in pairs})} cameras\n")
    print(scoring.report(pairs, rows, strict=chosen.strict), flush=True)


def print_tracks(chosen: argparse.Namespace, folder: Path) -> None:
    """Replay and judge the clips with published tracks."""
    if missing := replays.absent():
        print(f"skipped: no published tracks beside the checkout (../shared: {', '.join(missing)})")
        return
    own = ("--captioner-file", str(chosen.checkpoint)) if chosen.checkpoint else ()
    truths = dict(replays.told(folder / "replays", *own))
    truths["**all**"] = replays.summed(list(truths.values()))
    print("\n| clip | true | false | not judged | entrances told | departures told | ECE | AUC |")
    print("|---" * 8 + "|")
    for clip, truth in truths.items():
        events = (f"{told} of {of}" for told, of in (truth.entrances, truth.departures))
        sure = truth.calibration
        worth = (scoring.short(sure.ece), scoring.short(sure.auc)) if sure else ("-", "-")
        cells = (clip, truth.true, truth.false, truth.unknown, *events, *worth)
        print(f"| {' | '.join(map(str, cells))} |")
    print("\nfalse because:", json.dumps(truths["**all**"].reasons))


if __name__ == "__main__":
    main()
