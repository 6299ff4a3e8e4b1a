"""What each choice of the data engine's recipe is worth: composed, trained and measured without it.

    python benchmarks/recipe.py --teacher yolox_nano_416_coco.onnx [--pairs 1200] [--seeds 1 2] [--work DIR]

Every row composes its own pairs with one choice of `train/recipe.py` switched off, trains the grounded
captioner on them and tells the visible benchmark's pairs, each at its own threshold; the table is of the
cameras that neither training nor validation saw, by the benchmark's own scorer. What lies in DIR already is
not made again. A row takes about four minutes on a core.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from predictors import DATA, LABELS, SEEN, by_command, parts
from scoring import Row, loaded_scorer, scored
from tables import figures

CONFIG = Path(__file__).parents[1] / "configs" / "train" / "grounded.yaml"
VARIANTS: dict[str, Mapping[str, Any]] = {
    "the recipe": {},
    "nothing real (real, median, occasion)": {"mix": {"real": 0.0, "median": 0.0, "occasion": 0.0}},
    "nothing pasted": {"mix": {"pasted": 0.0}},
    "nothing erased": {"mix": {"erased": 0.0}},
    "no pairs without change": {"mix": {"nuisance": 0.0}},
    "no hard nuisances": {"hard_nuisances": 0.0},
    "no nuisance in pairs with changes": {"disturbed": 0.0},
    "no groups": {"plans": {"group": 0.0}},
    "nothing moved or replaced": {"plans": {"moved": 0.0, "replaced": 0.0}},
    "not many, none small": {"plans": {"many": 0.0}, "small_share": 0.0},
    "no balance": {"rarity": 0.0, "rare_scenes": 0.0, "rare_tries": 1, "person_weight": 1.0},
    "own labels no likelier": {"own_labels": 1.0},
    "no unknown lumps": {"unknown_share": 0.0},
    "colours as they are": {"tinted": 0.0},
    "groups of one kind": {"mixed_group": 0.0},
}
VALIDATION = ("intel_one-by-one-person-detection",)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=1200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--work", type=Path, help="folder for pairs and checkpoints")
    chosen = parser.parse_args()
    unseen, scorer = parts()["unseen"], loaded_scorer()
    with tempfile.TemporaryDirectory() as scratch:
        work = chosen.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        lines = {}
        for number, (name, recipe) in enumerate(VARIANTS.items()):
            files = trained(work / str(number), recipe, chosen)
            told = [by_command(unseen, work, "--captioner-file", str(file)) for file in files]
            lines[name] = scored(scorer, unseen, Row(name, told))
            print("\n".join(figures(lines)[-1 if number else 0 :]), flush=True)


def trained(folder: Path, recipe: Mapping[str, Any], chosen: argparse.Namespace) -> list[Path]:
    """The checkpoints of a row, one for each seed."""
    program = str(Path(sys.executable).with_name("narrated-train"))
    if not folder.exists():
        written = folder.with_suffix(".yaml")
        written.write_text(yaml.safe_dump(dict(recipe)))
        options = {
            "--clips": DATA / "clips",
            "--teacher": chosen.teacher,
            "--out": folder,
            "--pairs": chosen.pairs,
            "--val-pairs": chosen.pairs // 4,
            "--avoid": LABELS["first"],
            "--recipe": written,
        }
        flags = [str(part) for option in options.items() for part in option]
        tested = [path.stem for path in (DATA / "clips").iterdir() if path.stem not in SEEN]
        flags += [part for name in tested for part in ("--exclude", f"{name}*")]
        flags += [part for camera in VALIDATION for part in ("--val-camera", camera)]
        subprocess.run([program, "compose", *flags], check=True, stdout=subprocess.DEVNULL)
    files = [folder.with_name(f"{folder.name}-s{seed}.safetensors") for seed in chosen.seeds]
    for seed, file in zip(chosen.seeds, files, strict=True):
        if not file.exists():
            run = ("--data", str(folder), "--out", str(file), "--config", str(CONFIG), "--seed", str(seed))
            subprocess.run([program, "train", *run], check=True, stdout=subprocess.DEVNULL)
    return files


if __name__ == "__main__":
    main()
