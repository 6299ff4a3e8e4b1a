"""Time of the encoder and of the decoder per frame pair on a CPU; prints a table.

    python benchmarks/bench_models.py [--threads 2] [--seconds 3]

The weights of the decoder are random and its sentences are made to be as long as a description is on
average (11 words, Jhamtani 2018, Table 1), so that the figures do not depend on training.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from models.captioner import DescribeOptions, PairBatch
from models.encoders.encoder import EfficientNetLite0
from models.language.vocabulary import EOS, Vocabulary
from models.papers.ddla import DDLA

CLUSTERS, WORDS, VOCABULARY = 6, 11, 1000
TOLD = DescribeOptions(min_salience=0.0, max_words=WORDS)


def pairs_of(count: int, seed: int = 0) -> PairBatch:
    """Noise with six rectangles of 12 to 48 pixels each."""
    random = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (2, count, 3, 224, 224), generator=random, dtype=torch.uint8)
    masks = torch.zeros(count, CLUSTERS, 224, 224, dtype=torch.bool)
    boxes = torch.zeros(count, CLUSTERS, 4)
    for b in range(count):
        for k in range(CLUSTERS):
            x, y = torch.randint(176, (2,), generator=random).tolist()
            w, h = torch.randint(12, 49, (2,), generator=random).tolist()
            masks[b, k, y : y + h, x : x + w] = True
            boxes[b, k] = torch.tensor([x, y, w, h]) / 224
    valid = torch.ones(count, CLUSTERS, dtype=torch.bool)
    return PairBatch(images[0], images[1], masks, boxes, masks.float().mean((2, 3)), valid)


def captioner() -> DDLA:
    torch.manual_seed(0)
    made = DDLA(Vocabulary([f"word{i}" for i in range(VOCABULARY)]), EfficientNetLite0()).eval()
    with torch.no_grad():
        made.next_word.bias[EOS] = -100.0  # no sentence ends before its time
    return made


def milliseconds(call: Callable[[], object], seconds: float) -> float:
    """Median time of a call, after two to warm up."""
    call()
    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - start))
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="per figure")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    ddla = captioner()
    table = Table(
        title=f"ms per pair, {CLUSTERS} clusters, {asked.threads} threads, torch {torch.__version__}"
    )
    for heading in ("pairs in a batch", "encoder", "decoder, greedy", "decoder, beam 3", "training step"):
        table.add_column(heading, justify="right")
    for count in (1, 8):
        pairs = pairs_of(count)
        with torch.inference_mode():
            maps = ddla.maps(pairs)
        known = PairBatch(
            None,
            None,
            pairs.masks,
            pairs.boxes,
            pairs.active,
            pairs.valid,
            (maps[0].clone(), maps[1].clone()),
        )
        figures = (
            milliseconds(lambda pairs=pairs: ddla.maps(pairs), asked.seconds),
            milliseconds(lambda known=known: ddla.describe(known, TOLD), asked.seconds),
            milliseconds(
                lambda known=known: ddla.describe(
                    known, DescribeOptions(min_salience=0.0, max_words=WORDS, beam_size=3)
                ),
                asked.seconds,
            ),
            milliseconds(lambda known=known, count=count: train_once(ddla, known, count), asked.seconds),
        )
        table.add_row(str(count), *(f"{figure / count:.1f}" for figure in figures))
    Console().print(table)


def train_once(ddla: DDLA, pairs: PairBatch, count: int) -> None:
    """Loss and gradients of two sentences a pair, all clusters decoded."""
    sentences = torch.randint(
        4, VOCABULARY, (count, 2, WORDS + 1), generator=torch.Generator().manual_seed(1)
    )
    sentences[:, :, -1] = EOS
    ddla.zero_grad()
    ddla.loss(pairs, sentences).backward()


if __name__ == "__main__":
    main()
