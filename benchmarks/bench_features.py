"""A training epoch with the feature cache and without it, in processor time; prints a table.

    narrated-train generate --out FOLDER --pairs 120
    python benchmarks/bench_features.py FOLDER [--suite SUITE] [--row ddla] [--size small] [--pairs 48]

Without the cache every annotation of a batch has its images read, aligned, compared and encoded anew, as it
would be in every epoch; with it they come from disk. The cached epoch includes opening and checking the
cache, which a run does once for all its epochs. One pass before warms up.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from models import CAPTIONERS
from models.captioner import Captioner
from models.language.vocabulary import Vocabulary
from train.learning.batches import Split, epoch_batches, load_split
from train.learning.config import TrainConfig, build_captioner, build_encoder
from train.learning.features import sample_features
from train.papers.comparison import CompareOptions, first_pairs, row_config
from train.papers.suites import SIZES, SUITES


def epoch(captioner: Captioner, split: Split, config: TrainConfig) -> None:
    """One pass, as the training loop makes it, but for validation."""
    options = config.training
    optimizer = torch.optim.Adam([p for p in captioner.parameters() if p.requires_grad], lr=1e-3)
    captioner.train()
    words, most = captioner.vocabulary, options.max_words
    for pairs, tokens in epoch_batches(split, words, options.batch, seed=0, epoch=1, max_words=most):
        optimizer.zero_grad()
        captioner.loss(pairs, tokens).backward()
        optimizer.step()


def measured(data: Path, config: TrainConfig, pairs: int | None) -> tuple[float, float, int]:
    """Seconds of a pass with and without the cache, and its annotations."""
    encoder, changes = build_encoder(config), config.changes
    whole = CAPTIONERS[config.captioner]().whole
    with tempfile.TemporaryDirectory() as folder:

        def load() -> Split:
            cache = Path(folder) / "features"
            return first_pairs(load_split(data, "train", encoder, changes, cache=cache, whole=whole), pairs)

        split = load()
        vocabulary = Vocabulary.build([s for told in split.sentences for s in told], config.min_count)
        captioner = build_captioner(config, vocabulary, encoder)
        epoch(captioner, split, config)
        start = time.process_time()
        epoch(captioner, load(), config)
        cached = time.process_time() - start
        seen = [split.samples[position] for position, _ in split.annotations]
        start = time.process_time()
        sample_features(seen, encoder, changes, Path(folder) / "anew")
        epoch(captioner, split, config)
        return cached, time.process_time() - start, len(split.annotations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--suite", choices=list(SUITES), default="spot-the-diff")
    parser.add_argument("--row", action="append", help="by default every row that is trained")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--pairs", type=int, help="by default all training pairs of the folder")
    given = parser.parse_args()
    suite = SUITES[given.suite]()
    options = CompareOptions(given.data, Path(), size=given.size)
    table = Table("row", "annotations", "with cache, s", "without, s", "times faster")
    for row in suite.rows:
        if (given.row and row.key not in given.row) or row.full["captioner"].startswith("nn"):
            continue
        cached, anew, annotations = measured(given.data, row_config(row, options, 0), given.pairs)
        figures = (f"{cached:.2f}", f"{anew:.2f}", f"{anew / cached:.1f}")
        table.add_row(row.label, str(annotations), *figures)
    Console().print(table)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
