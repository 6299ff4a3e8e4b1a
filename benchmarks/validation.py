"""How right the narrations are on the pairs on which constants are chosen.

    python benchmarks/validation.py [--checkpoint FILE] [--keep DIR]

`validation.jsonl` has 103 pairs of frames of 25 training cameras in ../shared/data (eleven of them, with 71
pairs, held out of the training), with gaps from half a second to days. What changed was labelled by eye: both
frames side by side, the candidates of six detectors and of our own numbered in them. These are the boxes; the
looker said which are one object, which came, which went and which are nothing; the rest is to be ignored. One
looker, the benchmark's own format; small and far things are marginal. It is no test: constants come from it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import cv2
import predictors
import scoring
from predictors import Pair

LABELS = Path(__file__).with_name("validation.jsonl")
FOOTAGE = predictors.DATA / "cameras" / "train"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", type=Path, help="a checkpoint in place of the packaged one")
    parser.add_argument("--keep", type=Path, help="folder for the pictures and predictions")
    chosen = parser.parse_args()
    if not FOOTAGE.exists():
        sys.exit(f"no training footage in {FOOTAGE}")
    pairs = predictors.read_lines(LABELS)
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        said = predictors.described(pairs, pictures(pairs, folder), folder, chosen.checkpoint)
    print(f"{len(pairs)} pairs\n")
    print(scoring.report(pairs, {"narrated": said}))


def pictures(pairs: list[Pair], folder: Path) -> dict[str, tuple[Path, Path]]:
    """By id the two frames of each pair, written unless they are there."""
    frames = scoring.loaded("extract").read_frames
    found = {}
    for pair in pairs:
        paths = folder / f"{pair['id']}_before.png", folder / f"{pair['id']}_after.png"
        for side, path in zip(("before", "after"), paths, strict=True):
            if not path.exists():
                frame = pair[side]["frame"]
                image = frames(FOOTAGE / pair["camera"] / pair[side]["clip"], [frame])[frame]
                cv2.imwrite(str(path), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        found[pair["id"]] = paths
    return found


if __name__ == "__main__":
    main()
