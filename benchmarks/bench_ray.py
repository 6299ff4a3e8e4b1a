"""An archive shared among the nodes of a Ray cluster on this machine, beside one process.

    python benchmarks/bench_ray.py FILE [--files 8] [--seconds 60] [--nodes 1 2 4]

The file is replayed under as many names. A node takes one task at a time; the time includes the start of the
program, and the first task of each node loads the libraries and the captioner. Every record must be the same.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "archive"
        archive.mkdir()
        for number in range(chosen.files):
            (archive / f"camera_{number}{chosen.file.suffix}").symlink_to(chosen.file.resolve())
        limits = ["--to", f"{chosen.seconds}s"]
        alone, record = _replayed(archive, Path(scratch) / "alone", limits)
        rows = [("one process", 1.0, alone)]
        for nodes in chosen.nodes:
            took, same = _on_nodes(nodes, archive, Path(scratch) / str(nodes), limits)
            if same != record:
                sys.exit(f"{nodes} nodes write another record than one process")
            rows.append((f"{nodes} nodes", alone / took, took))
    print("| | times one process | s |\n|---|---|---|")
    for name, ratio, took in rows:
        print(f"| {name} | {ratio:.2f} | {took:.0f} |")
    print(f"\n{chosen.files} files of {chosen.seconds} s, {os.cpu_count()} processors in all; records equal.")


def _on_nodes(nodes: int, archive: Path, out: Path, limits: list[str]) -> tuple[float, bytes]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1)
        return _replayed(archive, out, [*limits, "--ray", cluster.address])
    finally:
        cluster.shutdown()


def _replayed(archive: Path, out: Path, options: list[str]) -> tuple[float, bytes]:
    begun = time.perf_counter()
    program = Path(sys.executable).with_name("narrated")
    subprocess.run(
        [program, "replay", archive, "--out", out, *options], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - begun, (out / "narrations.jsonl").read_bytes()


if __name__ == "__main__":
    main()
