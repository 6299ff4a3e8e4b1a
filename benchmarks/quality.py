"""How right the narrations are on the benchmark in ../shared/bench, beside its baselines.

    python benchmarks/quality.py [--checkpoint FILE] [--strict] [--only pairs|tracks] [--alone] [--keep DIR]

`narrated describe --pairs` describes the visible pairs of cameras that training never saw, and `score.py`
judges them; `narrated replay` replays the clips that have published tracks, and `tracks.py` judges these. Who
came and left is counted beside them, as `narrated query` counts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

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
    each = replays.told(folder / "replays", *own, clips=replays.CLIPS)
    crowded = replays.told(folder / "replays", *own, clips=replays.PEOPLE)
    truths = each | {"**all**": replays.summed([*each.values()])} | crowded
    print("\n| clip | true | false | not judged | entrances told | departures told ", end="")
    print("| came | left | ECE | AUC |")
    print("|---" * 10 + "|")
    for clip, truth in truths.items():
        of = truth.entrances[1], truth.departures[1]
        events = [f"{told} of {of}" for told, of in (truth.entrances, truth.departures)]
        events += [f"{counted} for {real}" for counted, real in zip(truth.counted, of, strict=True)]
        sure = truth.calibration
        worth = (scoring.short(sure.ece), scoring.short(sure.auc)) if sure else ("-", "-")
        cells = (clip, truth.true, truth.false, truth.unknown, *events, *worth)
        print(f"| {' | '.join(map(str, cells))} |")
    print("\nfalse because:", json.dumps(truths["**all**"].reasons))
    for n, what in enumerate(("came", "left")):
        pairs = [(t.counted[n], (t.entrances, t.departures)[n][1]) for t in (each | crowded).values()]
        errors = [abs(counted - real) / real for counted, real in pairs if real]
        print(f"who {what} is counted with a median error of {median(errors):.0%}, {len(errors)} clips")


if __name__ == "__main__":
    main()
