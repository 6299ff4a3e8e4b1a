"""How right the narrations are on the benchmark in ../shared/bench, beside its baselines.

    python benchmarks/quality.py [--checkpoint FILE] [--seeds FILE ...] [--ablation NAME=FILE,FILE ...]
        [--only unseen|seen|further|tracks ...] [--alone] [--no-gaps] [--keep DIR] [--json FILE]

The packaged model, or another checkpoint, describes the visible pairs through the public command `narrated
describe --pairs`, and replays the five clips that have published tracks through `narrated replay`. The
benchmark's own scorer judges the pairs: on cameras that training never saw, on those that it may have seen,
and on the fifteen further cameras alone. Its own `tracks.py` judges the replays. The counts of several seeds
are added up, and the intervals draw whole cameras. `scoring.py` says what each figure is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import predictors
import replays
import tables
from predictors import Pair
from scoring import Row, loaded_scorer, scored

BASELINES = ("constant", "guess", "detector")
TRACKS = "tracks"
TITLES = {
    "unseen": "Cameras neither trained nor chosen on",
    "seen": "Cameras that training may see",
    "further": "The further cameras alone (all of them unseen)",
}


def main() -> None:
    """Print the tables."""
    chosen = options().parse_args()
    only = chosen.only or [*TITLES, TRACKS]
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        results = pair_results([name for name in TITLES if name in only], chosen, folder)
        results |= track_results(chosen, folder) if TRACKS in only else {}
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def options() -> argparse.ArgumentParser:
    """What the command line may say."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--checkpoint", type=Path, help="a checkpoint in place of the packaged one")
    parser.add_argument("--seeds", type=Path, nargs="+", default=[], help="the same training, other seeds")
    parser.add_argument(
        "--ablation", type=_named_files, action="append", default=[], help="NAME=FILE,...: a further row"
    )
    parser.add_argument("--only", nargs="+", choices=(*TITLES, TRACKS), help="these parts, not all")
    parser.add_argument("--alone", action="store_true", help="leave out the baselines")
    parser.add_argument("--no-gaps", action="store_true", help="do not tell the time between the pictures")
    parser.add_argument("--keep", type=Path, help="folder for the pictures, predictions and replays")
    parser.add_argument("--json", type=Path, help="file for every figure, machine-readable")
    return parser


def checkpoints(chosen: argparse.Namespace) -> dict[str, list[Path | None]]:
    """By a row's name its checkpoints, one for each seed; None is the packaged one."""
    every = [chosen.checkpoint, *chosen.seeds]
    rows = {"narrated": every[:1]}
    if len(every) > 1:
        rows[f"narrated, {len(every)} seeds"] = every
    return rows | dict(chosen.ablation)


def pair_results(names: list[str], chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Tell and print these parts of the pairs; the figures by part and row."""
    missing = predictors.absent()
    if names and missing:
        print(f"skipped: no narration benchmark beside the checkout (../shared: {', '.join(missing)})")
    if missing or not names:
        return {}
    parts = {name: pairs for name, pairs in predictors.parts().items() if name in names}
    unique = {pair["id"]: pair for pairs in parts.values() for pair in pairs}
    rows = told(list(unique.values()), chosen, folder)
    scorer = loaded_scorer()
    results = {}
    for name, pairs in parts.items():
        lines = {row.name: scored(scorer, pairs, row) for row in rows}
        print(tables.pairs(TITLES[name], pairs, lines), flush=True)
        results[name] = {"pairs": len(pairs), "rows": tables.plain(lines)}
    return results


def told(pairs: list[Pair], chosen: argparse.Namespace, folder: Path) -> list[Row]:
    """What every row says of the pairs; a checkpoint is asked once."""
    rows = [] if chosen.alone else [Row(n, [predictors.baseline(n, pairs, folder)]) for n in BASELINES]
    by_file: dict[Path | None, predictors.Predictions] = {}
    for name, files in checkpoints(chosen).items():
        for file in files:
            if file not in by_file:
                by_file[file] = predictors.by_command(pairs, folder, *_own(file), gaps=not chosen.no_gaps)
        rows.append(Row(name, [by_file[file] for file in files]))
    (folder / "predictions.json").write_text(json.dumps({row.name: row.seeds for row in rows}))
    return rows


def track_results(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Replay the clips with tracks and print how true that is; by row, by clip and summed."""
    missing = replays.absent()
    if missing:
        print(f"skipped: no published tracks beside the checkout (../shared: {', '.join(missing)})")
        return {}
    by_file: dict[Path | None, Mapping[str, replays.Truth]] = {}
    rows: dict[str, dict[str, replays.Truth]] = {}
    for name, files in checkpoints(chosen).items():
        for file in files:
            if file not in by_file:
                by_file[file] = replays.told(folder / f"replay{len(by_file)}", *_own(file))
        seeds = [by_file[file] for file in files]
        rows[name] = {clip: replays.summed([seed[clip] for seed in seeds]) for clip in seeds[0]}
        rows[name][tables.SUM] = replays.summed(list(rows[name].values()))
    print(tables.tracks(rows), flush=True)
    return {TRACKS: tables.plain(rows)}


def _own(checkpoint: Path | None) -> tuple[str, ...]:
    return () if checkpoint is None else ("--captioner-file", str(checkpoint))


def _named_files(text: str) -> tuple[str, list[Path]]:
    name, equals, files = text.partition("=")
    if not (name and equals and files):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=FILE or NAME=FILE,FILE")
    return name, [Path(file) for file in files.split(",")]


if __name__ == "__main__":
    main()
