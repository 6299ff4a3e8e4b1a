"""How long `narrated verify` takes: a million records of eight cameras, as bench_query.py writes them.

    python benchmarks/bench_verify.py [--records 1000000] [--folder DIR]

The command runs on one processor and on all; given are the time of the clock, which depends on what else the
machine does, and that of all processors.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_query


def measure(path: Path, processors: int) -> tuple[float, float]:
    """Seconds of the clock, and of all processors, from the command's start to its end."""
    command = [sys.executable, "-m", "daemon.cli", "verify", str(path), "--no-evidence"]
    allowed = sorted(os.sched_getaffinity(0))[:processors]
    began, used = time.perf_counter(), sum(os.times()[2:4])
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, allowed)
    )
    return time.perf_counter() - began, sum(os.times()[2:4]) - used


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where; needs 1.2 GB for a million; else a temporary one")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="bench-verify-") as made:
        folder = Path(made)
        bench_query.write(folder, chosen.records)
        size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
        print(f"{chosen.records:,} records, {size / 1e9:.2f} GB, load {os.getloadavg()[0]:.1f}")
        print("| processors | from start to end | processor | records a second |\n|---|---|---|---|")
        for processors in sorted({1, len(os.sched_getaffinity(0))}):
            took, used = measure(folder, processors)
            print(
                f"| {processors} | {took:.1f} s | {used:.1f} s | {chosen.records / took:,.0f} |", flush=True
            )


if __name__ == "__main__":
    main()
