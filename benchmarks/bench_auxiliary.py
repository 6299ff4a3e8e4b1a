r"""Does the auxiliary task read its caption, and teach the captioner? Of the runs that `compare` kept.

    narrated-train generate --out FOLDER --pairs 1500 --seed 1 --crowded --distractors 0.2
    narrated-train compare --suite clevr-change --data FOLDER --out RESULTS --seeds 3 --pairs N --epochs M \
        --row duda --row duda-joint --row duda-captions
    python benchmarks/bench_auxiliary.py FOLDER RESULTS --pairs N --epochs M

Whether it helps is a claim in the page that `compare` writes. Here, on pairs of test.json and on as many
training pairs: how often the retrieval network puts B above A with its own caption and with another's, and
whether the own one does so more often (a t test over seeds; the power is that of the gap an audit had seen);
of siblings, which differ in the end of their captions only, how often the own after frame is found; and on
the trained networks the size of both losses' gradients in the captioner, the auxiliary one by the soft words.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from models import load_captioner
from models.captioner import Captioner
from models.papers.tirg import load_tirg
from train.learning.batches import Split, epoch_batches, load_split
from train.learning.config import build_encoder, build_objective
from train.learning.objectives import Step
from train.learning.objectives.joint import SUFFIX, JointTraining
from train.learning.retrieval import split_recall
from train.papers.claims import Found, difference
from train.papers.comparison import CompareOptions, first_pairs, row_config
from train.papers.results import Result, read_result
from train.papers.suites import SUITES, Claim

ROWS = ("duda", "duda-joint", "duda-captions")
GAP = 0.23
"""An audit's network preferred B in .63 with the own caption, in .40 with another's, on unseen pairs."""


def gradients(captioner: Captioner, objective: JointTraining, split: Split) -> dict[str, float]:
    """Mean norms of both losses' gradients in the captioner, of batches of the split."""
    norms: dict[str, list[float]] = {"primary": [], "auxiliary": []}
    for pairs, tokens in epoch_batches(split, captioner.vocabulary, 16, seed=0, epoch=0, max_words=24):
        if len(tokens) < 16:
            continue
        for which, gamma in (("primary", 0.0), ("auxiliary", 1.0)):
            objective.gamma = gamma
            captioner.zero_grad()
            objective.loss(captioner, pairs, tokens, Step(99, 1, 9)).backward()
            squares = [float(p.grad.square().sum()) for p in captioner.parameters() if p.grad is not None]
            norms[which].append(math.sqrt(sum(squares)))
    return {which: float(np.mean(values)) for which, values in norms.items()}


def kept(row: str, results: Path) -> Iterator[tuple[Path, Result]]:
    """The finished runs of a row, by seed: their folders and what came of them."""
    for folder in sorted(results.glob(f"runs/clevr-change-{row}-[0-9]*")):
        found = read_result(folder, None)
        if found is not None:
            yield folder, found


def measured(row: str, folder: Path, splits: dict[str, Split], options: CompareOptions) -> dict[str, float]:
    """What a kept run's retrieval network reads, and what both losses teach its captioner."""
    system = next(each for each in SUITES["clevr-change"]().rows if each.key == row)
    captioner = load_captioner(folder / "model.safetensors")
    objective = build_objective(row_config(system, options, 0).objective, captioner, splits["train"])
    assert isinstance(objective, JointTraining)  # noqa: S101 - of these rows
    objective.network = load_tirg(folder / f"model{SUFFIX}")
    test, learnt = (split_recall(objective.network, splits[name]) for name in ("test", "learnt"))
    read = {
        "own": 1 - test.before,
        "others": 1 - test.before_otherwise,
        "sibling": math.nan if test.sibling is None else test.sibling,
        "own, learnt": 1 - learnt.before,
        "others, learnt": 1 - learnt.before_otherwise,
    }
    return read | gradients(captioner.train(), objective.train(), splits["test"])


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--pairs", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    options = CompareOptions(
        arguments.data, arguments.results, epochs=arguments.epochs, pairs=arguments.pairs
    )
    config = row_config(SUITES["clevr-change"]().rows[0], options, 0)
    encoder, changes, cache = build_encoder(config), config.changes, arguments.data / ".features"
    splits = {
        name: load_split(arguments.data, name, encoder, changes, cache=cache, whole=True, masks=False)
        for name in ("train", "test")
    }
    splits["learnt"] = first_pairs(splits["train"], len(splits["test"].samples))
    table = Table("row", "seeds", "CIDEr")
    figures = ("own", "others", "sibling", "own, learnt", "others, learnt", "primary", "auxiliary")
    for figure in figures:
        table.add_column(figure)
    told: list[str] = []
    for row in ROWS:
        runs = list(kept(row, arguments.results))
        found = [measured(row, folder, splits, options) for folder, _ in runs] if row != ROWS[0] else []
        cider = [result.evaluation["single"]["cider"] for _, result in runs]
        cells = [_mean([each[figure] for each in found]) for figure in figures]
        table.add_row(row, str(len(runs)), _mean(cider), *cells)
        if found:
            told.append(f"{row} reads its caption: {_reads(found)}")
    Console(width=160).print(table, *told, sep="\n", soft_wrap=True)


def _reads(found: list[dict[str, float]]) -> str:
    """Whether B is preferred more often with the own caption, over seeds, in the words of `compare`."""
    own, others = (float(np.mean([each[which] for each in found])) for which in ("own", "others"))
    gaps = difference(np.array([each["own"] - each["others"] for each in found]))
    told = Found(Claim("reads its caption", "", ""), own, others, gaps, GAP, None)
    low, high = gaps.interval()
    return f"{told.verdict}: {gaps.mean:+.3f} [{low:+.3f}, {high:+.3f}], power {told.power:.2f}"


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=min(len(values) - 1, 1)):.3f}" if values else "-"


if __name__ == "__main__":
    main()
