"""How right the narrations are on the benchmark in ../shared/bench, beside its baselines.

    python benchmarks/quality.py [--checkpoint FILE] [--strict] [--only pairs|tracks] [--alone] [--keep DIR]
    python benchmarks/quality.py --only validation [--checkpoint FILE] [--strict] [--keep DIR]

`narrated describe --pairs` describes the visible pairs of cameras that training never saw, and `score.py`
judges them; `narrated replay` replays the clips that have published tracks, and `tracks.py` judges these. Who
came and left is counted beside them, as `narrated query` counts.

With `--only validation` the pairs are those on which constants are chosen, of cameras in ../shared/data.
`validation.jsonl` has 103 pairs of frames of 25 training cameras (eleven of them, with 71 pairs, held out of
the training), with gaps from half a second to days. What changed was labelled by eye: both frames side by
side, the candidates of six detectors and of our own numbered in them. These are the boxes; the looker said
which are one object, which came, which went and which are nothing; the rest is to be ignored. One looker, the
benchmark's own format; small and far things are marginal. `validation_further.jsonl` has 49 pairs of 33
training cameras, 22 of them others, labelled likewise by another looker. `validation_drawn.jsonl` has 143
pairs 0.6 to 14 s apart, drawn from the clips of `validation_tracks.jsonl` and labelled by their tracks. None
of these is a test: constants come from them, and the shipped decisions were fitted to all.
`validation_more.jsonl` has 101 pairs of 44 cameras, all but one of these, 0.9 to 22 s apart, drawn by chance
and labelled by eye. To them nothing was fitted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

import cv2
import replays
import scoring

VISITS = {"came": "entrances", "left": "departures"}
BASELINES = ("constant", "guess", "detector")
VALIDATION = tuple(
    Path(__file__).with_name(f"validation{name}.jsonl") for name in ("", "_further", "_drawn", "_more")
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, help="a checkpoint in place of the packaged one")
    parser.add_argument("--strict", action="store_true", help="the strict labels and reading of objects")
    parser.add_argument("--only", choices=("pairs", "tracks", "validation"))
    parser.add_argument("--alone", action="store_true", help="leave out the baselines")
    parser.add_argument("--keep", type=Path, help="folder for the pictures, predictions and replays")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if chosen.only in ("pairs", None):
            print_pairs(chosen, folder)
        if chosen.only in ("tracks", None):
            print_tracks(chosen, folder)
        if chosen.only == "validation":
            print_validation(chosen, folder)


def print_pairs(chosen: argparse.Namespace, folder: Path) -> None:
    labels = scoring.STRICT if chosen.strict else scoring.LABELS
    if missing := scoring.absent(labels):
        print(f"skipped: no narration benchmark beside the checkout (../shared: {', '.join(missing)})")
        return
    pairs = scoring.unseen_pairs(labels)
    rows = {} if chosen.alone else {name: scoring.baseline(name, pairs, folder) for name in BASELINES}
    images = scoring.pictures(pairs, folder)
    rows["narrated"] = scoring.described(pairs, images, folder, chosen.checkpoint)
    (folder / "predictions.json").write_text(json.dumps(rows), encoding="utf-8")
    print(f"{len(pairs)} pairs of {len({pair['camera'] for pair in pairs})} cameras\n")
    print(scoring.report(pairs, rows, strict=chosen.strict), flush=True)


def print_validation(chosen: argparse.Namespace, folder: Path) -> None:
    """Describe and judge the pairs on which constants are chosen."""
    frames = scoring.loaded("extract").read_frames
    for labels in VALIDATION:
        pairs, images = scoring.read_lines(labels), {}
        for pair in pairs:
            images[pair["id"]] = tuple(folder / f"{pair['id']}_{side}.png" for side in ("before", "after"))
            for side, path in zip(("before", "after"), images[pair["id"]], strict=True):
                if not path.exists():
                    clip, number = (
                        scoring.training_clip(pair["camera"], pair[side]["clip"]),
                        pair[side]["frame"],
                    )
                    image = frames(clip, [number])[number]
                    cv2.imwrite(str(path), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        said = scoring.described(pairs, images, folder, chosen.checkpoint)
        print(f"{labels.name}: {len(pairs)} pairs\n")
        print(scoring.report(pairs, {"narrated": said}, strict=chosen.strict), "\n")


def print_tracks(chosen: argparse.Namespace, folder: Path) -> None:
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
        of, sure = truth.counts, scoring.calibration(truth.judged)
        visits = (f"{of[what]} for {of[kind]}" for what, kind in VISITS.items())
        worth = (scoring.short(sure.ece), scoring.short(sure.auc)) if sure else ("-", "-")
        cells = (clip, *(of[each] for each in ("true", "false", "unknown")), *truth.events(), *visits, *worth)
        print(f"| {' | '.join(map(str, cells))} |")
    print("\nfalse because:", json.dumps(dict(truths["**all**"].reasons.most_common())))
    for what, kind in VISITS.items():
        counts = [truth.counts for truth in (each | crowded).values()]
        errors = [abs(of[what] - of[kind]) / of[kind] for of in counts if of[kind]]
        print(f"who {what} is counted with a median error of {median(errors):.0%}, {len(errors)} clips")


if __name__ == "__main__":
    main()
