"""What a device narrates: pairs a second from frames to sentences, and the change stage on it beside the CPU.

    python benchmarks/bench_device.py [--device cuda] [--batch 64] [--batches 4]

Pairs are stills of vtest, a second apart (made ones where there is no footage); difference and DBSCAN run on
the same pairs, once on the device and once on the CPU. Everything is waited for: times are by the clock.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import islice

import av
import torch
from bench_pair import VTEST, frame_pair, made
from rich.console import Console
from rich.table import Table

from daemon.config.device import chosen_device
from models import load_captioner
from pipeline.changes import Change, ChangeOptions, find_changes
from pipeline.narration.narration import narrate
from pipeline.pairs import FramePair


def pairs(count: int) -> list[FramePair]:
    """So many pairs, over and over the same frames where footage is short."""
    if not VTEST.exists():
        return [frame_pair(*made()) for _ in range(count)]
    with av.open(VTEST) as container:
        frames = [f.to_ndarray(format="rgb24") for f in islice(container.decode(video=0), 0, 640, 10)]
    return [frame_pair(frames[k % 63], frames[k % 63 + 1]) for k in range(count)]


def seconds(call: Callable[[], object], batches: int) -> float:
    """Time of a call, a mean after one that warms up."""
    call()
    start = time.perf_counter()
    for _ in range(batches):
        call()
    return (time.perf_counter() - start) / batches


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--batches", type=int, default=4)
    asked = parser.parse_args()
    device = chosen_device(asked.device)
    captioner = load_captioner(device=device)
    options = ChangeOptions.of(captioner.record.get("changes", {}))
    batch = pairs(asked.batch)
    where = None if device.type == "cpu" else str(device)
    table = Table(title=f"batches of {asked.batch}, {torch.get_num_threads()} threads")
    for column in ("stage", "on", "ms a pair", "pairs a second"):
        table.add_column(column, justify="left" if column in ("stage", "on") else "right")

    def changes(place: str | None) -> list[Change]:
        return find_changes(batch, options, captioner.salience, place)

    rows = [("difference, DBSCAN", place or "cpu", partial(changes, place)) for place in {None: 0, where: 0}]
    rows.append(("narrated, end to end", str(device), lambda: narrate(changes(where), captioner)))
    for stage, on, call in rows:
        each = seconds(call, asked.batches) / len(batch)
        table.add_row(stage, on, f"{1000 * each:.2f}", f"{1 / each:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
