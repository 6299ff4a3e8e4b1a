"""How screening scales with threads: 1, 2 and 4 cameras, each a thread that decodes 1080p and proposes pairs.

    python benchmarks/bench_threads.py

The numbers behind docs/adr/0004-threads-not-processes.md: decoding and kernels release the interpreter lock.
"""

from __future__ import annotations

import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench_replay import RATE, coded

from pipeline.pairs import candidate_pairs
from pipeline.sources import open_source
from pipeline.thresholds import PairThresholds

SECONDS = 30


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as scratch:
        clip = coded(Path(scratch) / "yard.mp4", SECONDS)
        _pairs(clip)
        print("| speed-up | cameras | frames/s | cores busy |\n|---|---|---|---|")
        alone = 0.0
        for cameras in (1, 2, 4):
            speed, cores = _measured(clip, cameras)
            alone = alone or speed
            print(f"| {speed / alone:.2f} | {cameras} | {speed:.0f} | {cores:.2f} |")


def _measured(clip: Path, cameras: int) -> tuple[float, float]:
    """Frames a second over all cameras, and how many cores were busy."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    with ThreadPoolExecutor(cameras) as threads:
        list(threads.map(_pairs, [clip] * cameras))
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cameras * SECONDS * RATE / wall, cpu / wall


def _pairs(clip: Path) -> int:
    with open_source(str(clip)) as source:
        return sum(1 for _ in candidate_pairs(source, PairThresholds(16, 50)))


if __name__ == "__main__":
    main()
