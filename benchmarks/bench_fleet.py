"""Is the sum in docs/scale.md right? Two daemons of two cameras each, one Redis and a collector.

    python benchmarks/bench_fleet.py [--seconds 60] [--settle 90] [--sample 2/s] [--clip FILE]

What a daemon needs with and without a camera comes from a daemon of one camera and a daemon of two, what a
collector and the Redis need for a record from `bench_publish.py`: these predict the fleet, which is then
measured. Its copies must be the originals' bytes.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import yaml
from bench_cameras import CLIP, coded, cpu_s, running, served
from embedded_redis import EmbeddedServer

COLLECTED_MS = 0.14
"""Processor time of a collector for a record: docs/scale.md says 7,000 a second."""

NARRATED = [sys.executable, "-m", "daemon.cli"]


class Load(NamedTuple):
    """Shares of a core, and records a minute."""

    daemons: float
    collector: float
    records: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=90)
    parser.add_argument("--sample", default="2/s")
    parser.add_argument("--clip", type=Path, default=CLIP)
    chosen = parser.parse_args()
    if not chosen.clip.exists():
        print(f"skipped: {chosen.clip.name} is not beside the checkout; give --clip FILE")
        return
    with tempfile.TemporaryDirectory() as scratch:
        film = coded(chosen.clip, Path(scratch) / "film.mp4", calm=False)
        with served(film, 4) as urls:
            idle = measure([], Path(scratch) / "none", chosen)
            one = measure([urls[:1]], Path(scratch) / "one", chosen)
            two = measure([urls[:2]], Path(scratch) / "two", chosen)
            fleet = measure([urls[:2], urls[2:]], Path(scratch) / "fleet", chosen)
    camera, records = two.daemons - one.daemons, 4 * (one.records + two.records) / 3
    base, load = one.daemons - camera, os.getloadavg()[0]
    print(f"a daemon: {base:.1%} of a core and {camera:.1%} a camera; load {load:.1f}")
    print("| of two daemons of two cameras and a collector | predicted | measured |\n|---|---|---|")
    print(f"| the daemons, % of a core | {200 * two.daemons:.1f} | {100 * fleet.daemons:.1f} |")
    collector = idle.collector + records / 60 * COLLECTED_MS / 1000
    print(f"| the collector, % of a core | {100 * collector:.2f} | {100 * fleet.collector:.2f} |")
    print(f"| records a minute | {records:.0f} | {fleet.records:.0f} |")


def measure(daemons: Sequence[Sequence[str]], folder: Path, chosen: argparse.Namespace) -> Load:
    """A Redis, a collector and so many daemons, each with its cameras.

    Exits where a copy is not, in the end, what the original is.
    """
    folder.mkdir()
    with EmbeddedServer() as server, ExitStack() as ended:
        collect = [*NARRATED, "collect", "--redis", server.url, "-o", str(folder / "copy")]
        collector = ended.enter_context(running(collect))
        processes = []
        for number, urls in enumerate(daemons):
            settings = {
                "version": 1,
                "state": str(folder / f"state{number}"),
                "redis": {"url": server.url},
                "defaults": {"pairs": {"sample": chosen.sample}},
                "cameras": {f"camera_{number}_{k}": {"url": url} for k, url in enumerate(urls)},
            }
            (folder / f"{number}.yaml").write_text(yaml.safe_dump(settings))
            run = [*NARRATED, "run", "-c", str(folder / f"{number}.yaml")]
            processes.append(ended.enter_context(running(run)))
        time.sleep(chosen.settle)
        everything = [collector, *processes]
        before, lines = [cpu_s(each.pid) for each in everything], count_lines(folder / "copy")
        began = time.monotonic()
        time.sleep(chosen.seconds)
        took_s = time.monotonic() - began
        first, *others = [
            (cpu_s(each.pid) - used) / took_s for each, used in zip(everything, before, strict=True)
        ]
        records = (count_lines(folder / "copy") - lines) / took_s * 60
        for each in processes:
            each.terminate()
            each.wait()
        wait_for_copies(folder)
    return Load(sum(others), first, records)


def count_lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("journal/*.jsonl"))


def wait_for_copies(folder: Path) -> None:
    """Exits unless the copies are the originals within ten seconds."""
    originals = list(folder.glob("state*/journal/*.jsonl"))
    for _ in range(100):
        copies = [folder / "copy" / "journal" / path.name for path in originals]
        if all(
            b.exists() and filecmp.cmp(a, b, shallow=False) for a, b in zip(originals, copies, strict=True)
        ):
            return
        time.sleep(0.1)
    sys.exit("the collector's copies are not the daemons' journals")


if __name__ == "__main__":
    main()
