"""A long file in stretches: what of a replay can be shared, and whether the record is that of one machine.

    python benchmarks/bench_stretches.py FILE SECONDS [FILE SECONDS ...]

Each file is replayed alone; then its stretches of so many seconds are looked at, one after the other, and the
file is told with what was seen there. Seconds are the processor's.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console

from daemon.config.plan import camera_plan
from daemon.config.settings import CameraDefaults
from daemon.replay.inputs import ReplayInput, find_footage
from daemon.replay.progress import ReplayProgress
from daemon.replay.replay import ReplayOptions, replay
from daemon.replay.stretches import Sights, lend_eyes, sights_of, stretches_of, thresholds_of
from daemon.threads.narrator import warm_up
from models import load_captioner
from models.captioner import Captioner


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    captioner = load_captioner()
    warm_up(captioner)
    print("| file | records | alone | stretches | telling | pictures seen | looked at again |")
    print("|---|---|---|---|---|---|---|")
    for name, seconds in zip(sys.argv[1::2], map(float, sys.argv[2::2]), strict=True):
        _measure(name, seconds, captioner)


def _measure(name: str, seconds: float, captioner: Captioner) -> None:
    (footage,) = find_footage([name])
    with tempfile.TemporaryDirectory() as scratch:
        options = ReplayOptions(camera_plan("bench", "", CameraDefaults()), out=Path(scratch) / "alone")
        lend_eyes(captioner, {})
        alone_s, record = _told(footage, captioner, options)
        spent, sights, thresholds = list[float](), Sights(), thresholds_of(footage, options)
        for stretch in stretches_of(footage, options, seconds):
            began = time.process_time()
            sights |= sights_of(footage, options, captioner, thresholds, stretch)
            spent.append(time.process_time() - began)
        eyes = lend_eyes(captioner, sights)
        telling_s, same = _told(footage, captioner, replace(options, out=Path(scratch) / "told"))
    if eyes is None or same != record:
        sys.exit(f"{name}: the record is another one")
    each = ", ".join(f"{s:.1f}" for s in spent)
    lines = record.count(b"\n")
    print(
        f"| {Path(name).name} | {lines} | {alone_s:.1f} s | {each} s | {telling_s:.1f} s | "
        f"{len(sights)} | {eyes.looked_here} |",
        flush=True,
    )


def _told(footage: ReplayInput, captioner: Captioner, options: ReplayOptions) -> tuple[float, bytes]:
    began = time.process_time()
    replay([footage], captioner, options, lambda *_: None, ReplayProgress(Console(quiet=True)))
    assert options.out is not None  # noqa: S101 - given above
    return time.process_time() - began, (options.out / "narrations.jsonl").read_bytes()


if __name__ == "__main__":
    main()
