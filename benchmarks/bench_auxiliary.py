r"""Does the auxiliary task read its caption, and help the captioner? Paired over seeds; prints a table.

    narrated-train generate --out FOLDER --pairs 1500 --seed 1 --crowded --distractors 0.2
    python benchmarks/bench_auxiliary.py FOLDER --seeds 0 1 2 [--rows duda duda-joint duda-captions] \
        [--out FILE]

Each row of the suite clevr-change, small size, is trained with each seed; results are kept in FILE (JSON
lines), and a run that stands there is not repeated. On pairs of test.json it measures CIDEr of one sentence;
how often the retrieval network puts A above B with the own caption and with another pair's; of siblings,
which differ in the end of their captions only, how often the own after frame is found; and on the trained
networks the size of both losses' gradients in the captioner, the auxiliary one through the soft words. The
rows alone-pictures and alone-captions train the retrieval network by itself, A a candidate from the start.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy import stats

from models.captioner import Captioner
from models.language.vocabulary import Vocabulary
from train.learning.batches import Split, epoch_batches, load_split
from train.learning.config import build_captioner, build_encoder, build_objective
from train.learning.evaluation import single_sentences
from train.learning.loop import train
from train.learning.objectives import Step
from train.learning.objectives.joint import JointTraining
from train.learning.retrieval import split_recall
from train.metrics.scores import text_scores
from train.papers.comparison import CompareOptions, first_pairs, row_config
from train.papers.suites import SUITES, System, merged

POWER = 0.8
ALONE = "alone-"


def gradients(captioner: Captioner, objective: JointTraining, split: Split) -> dict[str, float]:
    """Mean norms of both losses' gradients in the captioner, of batches of the split."""
    norms: dict[str, list[float]] = {"primary": [], "auxiliary": []}
    own, words = objective.gamma, captioner.vocabulary
    for pairs, tokens in epoch_batches(split, words, 16, seed=0, epoch=0, max_words=24):
        if len(tokens) < 16:
            continue
        for which, gamma in (("primary", 0.0), ("auxiliary", 1.0)):
            objective.gamma = gamma
            captioner.zero_grad()
            objective.loss(captioner, pairs, tokens, Step(99, 1, 9)).backward()
            squares = [float(p.grad.square().sum()) for p in captioner.parameters() if p.grad is not None]
            norms[which].append(math.sqrt(sum(squares)))
    objective.gamma = own
    return {which: float(np.mean(values)) for which, values in norms.items()}


def measured(row: str, seed: int, splits: dict[str, Split], arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one row with one seed, and measure it."""
    system = _system(row)
    options = CompareOptions(arguments.data, Path("nowhere"), epochs=arguments.epochs)
    config = row_config(system, options, seed)
    training = first_pairs(splits["train"], arguments.pairs)
    torch.manual_seed(seed)
    words = Vocabulary.build([s for told in training.sentences for s in told], config.min_count)
    captioner = build_captioner(config, words, build_encoder(config))
    objective = build_objective(config.objective, captioner, training)
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        out, settings = Path(folder) / "model.safetensors", config.train_options()
        train(captioner, training, splits["val"], settings, out, objective=objective)
    result: dict[str, Any] = {"row": row, "seed": seed, "cpu_s": round(time.process_time() - start, 1)}
    if not row.startswith(ALONE):
        said = single_sentences(captioner, splits["test"])
        result["cider"] = text_scores(said, splits["test"].sentences).cider
    if isinstance(objective, JointTraining):
        found = split_recall(objective.network, splits["test"])
        result |= {"own": found.before, "others": found.before_otherwise, "sibling": found.sibling}
        if objective.coupled:
            result |= gradients(captioner.train(), objective.train(), splits["test"])
    return result


def _system(row: str) -> System:
    known = {each.key: each for each in SUITES["clevr-change"]().rows}
    if not row.startswith(ALONE):
        return known[row]
    joint = known["duda-joint"]
    changed = {"gamma": 1.0, "coupled": False, "hard_from": 1, "against": row.removeprefix(ALONE)}
    return replace(joint, key=row, small=merged(joint.small, {"objective": {"arguments": changed}}))


def verdict(differences: list[float]) -> str:
    """Whether a mean of paired differences is above 0, by a t-test, and how many seeds would tell."""
    n = len(differences)
    if n < 2:
        return "cannot be told with 1 seed"
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    low, high = stats.t.interval(0.95, n - 1, mean, max(spread, 1e-12) / math.sqrt(n))
    needs = next((m for m in range(2, 10_000) if _power(abs(mean) / max(spread, 1e-12), m) >= POWER), 10_000)
    words = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}], {n} seeds"
    if low > 0:
        return f"shown: {words}"
    if high < 0:
        return f"shown to be the other way round: {words}"
    if needs <= n:
        return f"not shown: {words}"
    return f"cannot be told with {n} seeds (needs about {needs}): {words}"


def _power(effect: float, n: int) -> float:
    """Of a two-sided t-test at 5 % with n pairs."""
    critical = stats.t.ppf(0.975, n - 1)
    return float(stats.nct.sf(critical, n - 1, effect * math.sqrt(n)))


def main() -> None:
    """Train what is not there yet, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", nargs="+", default=["duda", "duda-joint", "duda-captions"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--out", type=Path, default=Path("auxiliary.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    done: list[dict[str, Any]] = []
    if arguments.out.is_file():
        done = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    config = row_config(SUITES["clevr-change"]().rows[0], CompareOptions(arguments.data, Path("nowhere")), 0)
    encoder, changes = build_encoder(config), config.change_options()
    cache = arguments.data / ".features"
    splits = {
        name: load_split(arguments.data, name, encoder, changes, cache=cache, whole=True, masks=False)
        for name in ("train", "val", "test")
    }
    for seed in arguments.seeds:
        for row in arguments.rows:
            if any((each["row"], each["seed"]) == (row, seed) for each in done):
                continue
            done.append(measured(row, seed, splits, arguments))
            with arguments.out.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    show(done, arguments.rows)


def show(done: list[dict[str, Any]], rows: list[str]) -> None:
    """The table, and each row beside the first one."""
    table = Table("row", "seeds", "CIDEr", "A above B, own", "another's", "sibling", "primary", "auxiliary")
    for row in rows:
        own = [each for each in done if each["row"] == row]
        cells = [_mean(own, k) for k in ("cider", "own", "others", "sibling", "primary", "auxiliary")]
        table.add_row(row, str(len(own)), *cells)
    console = Console(width=140)
    console.print(table)
    scores = {(each["row"], each["seed"]): each["cider"] for each in done if "cider" in each}
    for row in rows[1:]:
        pairs = [
            cider - scores[rows[0], seed]
            for (own, seed), cider in scores.items()
            if own == row and (rows[0], seed) in scores
        ]
        if pairs:
            console.print(f"{row} above {rows[0]}, CIDEr: {verdict(pairs)}")


def _mean(results: list[dict[str, Any]], key: str) -> str:
    values = [each[key] for each in results if each.get(key) is not None]
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else str(values or "-")


if __name__ == "__main__":
    main()
