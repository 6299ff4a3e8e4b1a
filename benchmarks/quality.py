"""How right the narrations are on the benchmark in ../shared/bench, step by step and beside its baselines.

    python benchmarks/quality.py [--keep DIR] [--checkpoint FILE] [--seeds FILE ...]
        [--ablation NAME=FILE,FILE ...] [--loco CAMERA=FILE,FILE ...] [--fold DIR=FILE,FILE ...]

The packaged model describes the pairs through the public command `narrated describe --pairs`; further seeds
and the rows with a step switched off take the same way in this process. Everything is judged by the
benchmark's own scorer; the counts of several seeds are added up, and the intervals draw whole cameras. A row
is measured on all visible pairs and on the cameras that the checkpoint neither trained on nor chose anything
by, which `models/weights/grounded.compose.json` names. With --loco, the pairs of each camera are told by
checkpoints that were trained without it (`narrated-train train --leave-out CAMERA`), those of all others by
the seeds. With --fold, every camera's pairs are told by checkpoints whose composed pairs (DIR) hold nothing
of it; the folds together must leave each camera out once.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from predictors import (
    BENCH,
    DATA,
    LABELS,
    NONE,
    NOT_ASKED,
    STEPS,
    Predictions,
    baseline,
    by_command,
    in_process,
    pictures,
)

from models import SHIPPED
from models.checkpoint import read_checkpoint

COMPOSED = SHIPPED["grounded"].with_name("grounded.compose.json")
BASELINES = ("constant", "guess", "detector")
LOCO = "grounded, leave-one-camera-out"
FOLDS = "grounded's recipe, every camera left out"
UNASKED = "... the encoder's own classes not asked"
HEADINGS = {
    "precision": "precision",
    "recall": "recall",
    "type acc": "type",
    "polarity acc": "polarity",
    "object family": "family",
    "position acc": "place",
    "exact count": "exact count",
    "of several": "of several",
    "false alarms": "false alarms",
    "missed": "missed",
}


@dataclass(frozen=True)
class Row:
    """A predictor: what it says, once for each seed."""

    name: str
    seeds: Sequence[Predictions]


@dataclass(frozen=True)
class Line:
    """How right a row is on some pairs.

    Attributes:
        figures: the scorer's, "exact count" of all matched labels, and of those "of several" objects.
        interval: of FULL_F1, 95 %, drawing cameras.
        seeds: FULL_F1 of each seed.
    """

    figures: Mapping[str, float]
    interval: tuple[float, float]
    seeds: tuple[float, ...]


def main() -> None:
    """Print the tables."""
    chosen = options().parse_args()
    if not (LABELS.is_file() and (DATA / "clips").is_dir()):
        print("skipped: no narration benchmark beside the checkout (../shared/bench, ../shared/data/clips)")
        return
    pairs = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    cameras = {pair["camera"] for pair in pairs}
    left_out = dict(chosen.loco)
    chosen.fold = told_by_fold(chosen.fold, cameras)
    for camera, files in left_out.items():
        check_left_out(camera, files, cameras)
    scorer = loaded_scorer()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        rows = measured(pairs, chosen, folder)
        table("All visible pairs", pairs, rows, scorer)
        trained, chosen_by = seen_cameras(cameras)
        unseen = [p for p in pairs if p["camera"] not in trained | chosen_by]
        if trained and unseen:
            kept = [row for row in rows if row.name != LOCO]
            table("Cameras that neither training nor validation saw", unseen, kept, scorer)
        if left_out:
            own = [p for p in pairs if p["camera"] in left_out]
            kept = [row for row in rows if row.name in BASELINES or row.name.startswith("grounded")]
            table("Cameras of training, which leave-one-camera-out leaves out", own, kept, scorer)


def options() -> argparse.ArgumentParser:
    """What the command line may say."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--checkpoint", type=Path, help="a grounded checkpoint in place of the packaged one")
    parser.add_argument("--seeds", type=Path, nargs="+", default=[], help="the same training, other seeds")
    parser.add_argument(
        "--ablation", type=_named_files, action="append", default=[], help="NAME=FILE,...: a further row"
    )
    parser.add_argument(
        "--loco", type=_named_files, action="append", default=[], help="CAMERA=FILE,...: trained without it"
    )
    parser.add_argument(
        "--fold", type=_named_files, action="append", default=[], help="DIR=FILE,...: trained on DIR"
    )
    parser.add_argument("--keep", type=Path, help="folder for the pictures, predictions and scores")
    parser.add_argument("--without-steps", action="store_true", help="leave out the rows with a step off")
    return parser


def measured(pairs: Sequence[Mapping[str, Any]], chosen: argparse.Namespace, folder: Path) -> list[Row]:
    """Every row of the tables."""
    paths = pictures([pair["id"] for pair in pairs], folder)
    every = list(paths.values())
    seeds: list[Path | None] = [chosen.checkpoint, *chosen.seeds]
    rows = [Row(name, [baseline(name, folder)]) for name in BASELINES]
    rows.append(Row("plain DDLA", [by_command(every, folder, "--captioner", "ddla")]))
    own = ("--captioner-file", str(chosen.checkpoint)) if chosen.checkpoint else ()
    told = [by_command(every, folder, *own), *(in_process(every, seed) for seed in chosen.seeds)]
    rows.append(Row("grounded", told[:1]))
    if len(told) > 1:
        rows.append(Row(f"grounded, {len(told)} seeds", told))
    folds = chosen.fold
    apart_rows = ((LOCO, dict(chosen.loco), NONE), (FOLDS, folds, NONE), (UNASKED, folds, NOT_ASKED))
    for name, files, step in apart_rows:
        of_camera = {c: [paths[p["id"]] for p in pairs if p["camera"] == c] for c in files}
        apart = {c: [in_process(of_camera[c], file, step) for file in each] for c, each in files.items()}
        if files:
            rows.append(Row(name, left_out_seeds(told, list(apart.values()))))
    steps = () if chosen.without_steps else STEPS
    rows += [Row(f"- {step.name}", [in_process(every, seed, step) for seed in seeds]) for step in steps]
    rows += [Row(f"- {name}", [in_process(every, file) for file in each]) for name, each in chosen.ablation]
    (folder / "predictions.json").write_text(json.dumps({row.name: row.seeds for row in rows}))
    return rows


def left_out_seeds(told: Sequence[Predictions], apart: Sequence[Sequence[Predictions]]) -> list[Predictions]:
    """The k-th seed's predictions, each left-out camera's replaced by its k-th checkpoint's."""
    count = max(len(each) for each in apart)
    joined = []
    for k in range(count):
        one = dict(told[k % len(told)])
        for each in apart:
            one.update(each[k % len(each)])
        joined.append(one)
    return joined


def check_left_out(camera: str, files: Sequence[Path], cameras: Collection[str]) -> None:
    """Refuse a camera that the benchmark does not have, and a checkpoint that saw it."""
    if camera not in cameras:
        sys.exit(f"--loco {camera}: the benchmark's cameras are {', '.join(sorted(cameras))}")
    for file in files:
        without = read_checkpoint(file).record.get("left_out", [])
        if not any(same_camera(camera, name) for name in without):
            sys.exit(f"--loco {camera}: {file} was trained without {without or 'leaving out any camera'}")


def told_by_fold(folds: Sequence[tuple[str, list[Path]]], cameras: Collection[str]) -> dict[str, list[Path]]:
    """For each camera the checkpoints of the first fold that neither trained nor validated on it."""
    told: dict[str, list[Path]] = {}
    for folder, files in folds:
        composed = Path(folder) / "compose.json"
        if not composed.is_file():
            sys.exit(f"--fold {folder}: holds no compose.json, which names the cameras that it was made of")
        seen = set[str]().union(*seen_cameras(cameras, composed))
        told.update(dict.fromkeys(set(cameras) - seen - set(told), files))
    if folds and set(told) != set(cameras):
        sys.exit(f"--fold: no fold leaves out {', '.join(sorted(set(cameras) - set(told)))}")
    return dict(sorted(told.items()))


def seen_cameras(cameras: Collection[str], composed: Path = COMPOSED) -> tuple[set[str], set[str]]:
    """The benchmark's cameras that lent footage to training, and those that lent it to validation."""
    if not composed.is_file():
        return set(), set()
    report = json.loads(composed.read_text(encoding="utf-8"))["report"]

    def among(names: Sequence[str]) -> set[str]:
        return {camera for camera in cameras if any(same_camera(camera, name) for name in names)}

    return among(report["train_cameras"]), among(report["val_cameras"])


def same_camera(camera: str, name: str) -> bool:
    """Whether the benchmark's camera is the one of that name; names of footage may say more."""
    return name == camera or name.startswith(f"{camera}-")


def scored(scorer: ModuleType, pairs: Sequence[Mapping[str, Any]], row: Row) -> Line:
    """A row's figures on some pairs."""
    counters, units, alone = [], [], []
    for told in row.seeds:
        own = [counted(scorer, pair, told.get(pair["id"], [])) for pair in pairs]
        alone.append(scorer.figures(scorer.total(own))["FULL_F1"])
        counters += own
        units += [pair["camera"] for pair in pairs]
    total = scorer.total(counters)
    figures = {
        **scorer.figures(total),
        "exact count": scorer.div(total["number_right"], total["numbers"]),
        "of several": scorer.div(total["group_right"], total["groups"]),
    }
    low, high = scorer.bootstrap(counters, units)["FULL_F1"]
    return Line(figures, (low, high), tuple(alone))


def counted(
    scorer: ModuleType, pair: Mapping[str, Any], sentences: Sequence[Mapping[str, Any]]
) -> Counter[str]:
    """The scorer's counts of a pair, and the numbers told, which it does not count.

    Of each label that sentences are matched with: whether these tell as many objects as it has, by the
    scorer's own reading and matching. What a plural sentence tells of further labels is theirs; an object
    that is told as gone here and come there is one; "several" is no number.
    """
    counts = Counter(scorer.score_pair(pair, sentences))
    said = [{"claim": scorer.parse(s["text"]), "box": s.get("box")} for s in sentences]
    said = [s for s in said if not s["claim"]["none"]]
    told: dict[int, Counter[str]] = {}
    for sentence, (label, covered) in zip(said, scorer.assign(said, pair["changes"]), strict=True):
        if label is None:
            continue
        claim, own = sentence["claim"], told.setdefault(label, Counter())
        number = claim["count"] - sum(pair["changes"][k].get("count", 1) for k in covered)
        sides = {"appeared": ("after",), "more": ("after",), "disappeared": ("before",), "fewer": ("before",)}
        for side in sides.get(claim["type"], ("before", "after")):
            own[side] += number
        own["open"] += claim["open"]
    for label, own in told.items():
        change = pair["changes"][label]
        right = not own["open"] and max(own["before"], own["after"]) in _numbers(change)
        counts.update(numbers=1, number_right=right)
        if change.get("count", 1) > 1:
            counts.update(groups=1, group_right=right)
    return counts


def _numbers(change: Mapping[str, Any]) -> set[int]:
    """How many objects a label has: a rider and his bicycle may be told as one or as two."""
    count = change.get("count", 1)
    return {count, change.get("parts") or count}


def loaded_scorer() -> ModuleType:
    """score.py of the benchmark."""
    spec = importlib.util.spec_from_file_location("score", BENCH / "score.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{BENCH / 'score.py'} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(
    title: str,
    pairs: Sequence[Mapping[str, Any]],
    rows: Sequence[Row],
    scorer: ModuleType,
    show: Callable[[str], None] = print,
) -> None:
    """Markdown, a line a row."""
    cameras = sorted({p["camera"] for p in pairs})
    groups = sum(c.get("count", 1) > 1 for p in pairs for c in p["changes"])
    negatives = sum(not any(c["salient"] for c in p["changes"]) for p in pairs)
    show(
        f"\n**{title}**: {len(pairs)} pairs, {negatives} of them without a salient change, {groups} labels "
        f"of several objects; {len(cameras)} cameras ({', '.join(cameras)})\n"
    )
    show("| predictor | FULL_F1 [95 % by camera] | seeds | " + " | ".join(HEADINGS.values()) + " |")
    show("|" + "---|" * (len(HEADINGS) + 3))
    for row in rows:
        show(line_of(row.name, scored(scorer, pairs, row)))


def line_of(name: str, line: Line) -> str:
    """A row of the table."""
    low, high = line.interval
    alone = sorted(line.seeds)
    seeds = f"{_plain(alone[0])} to {_plain(alone[-1])}" if len(alone) > 1 else ""
    cells = [_plain(line.figures[k]) for k in HEADINGS]
    headline = f"{_plain(line.figures['FULL_F1'])} [{_plain(low)}, {_plain(high)}]"
    return f"| {name} | {headline} | {seeds} | {' | '.join(cells)} |"


def _plain(value: float) -> str:
    """Three decimals, without the leading zero."""
    return "-" if value != value else f"{value:.3f}".removeprefix("0")  # noqa: PLR0124 - NaN


def _named_files(text: str) -> tuple[str, list[Path]]:
    name, equals, files = text.partition("=")
    if not (name and equals and files):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=FILE or NAME=FILE,FILE")
    return name, [Path(file) for file in files.split(",")]


if __name__ == "__main__":
    main()
