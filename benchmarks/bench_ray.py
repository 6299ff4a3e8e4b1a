"""An archive shared among the nodes of a Ray cluster on this machine, beside one process.

    python benchmarks/bench_ray.py FILE [--files 8] [--seconds 60] [--nodes 1 2 4]

The file is replayed under as many names. A node takes one task at a time; the time includes the start of the
program, and the first task of each node loads the libraries and the captioner. In the last row one of the
nodes is killed once the first camera has come, and never replaced. Every record must be the same as that of
one process. CPU is that of all processes of the cluster and of the program, from the first task on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil


@dataclass(frozen=True)
class Run:
    """A replay.

    Attributes:
        took_s: by the clock.
        cpu_s: of the processor.
        record: what was written.
    """

    took_s: float
    cpu_s: float
    record: bytes


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
    print("| | times one process | s | CPU s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "archive"
        archive.mkdir()
        for number in range(chosen.files):
            (archive / f"camera_{number}{chosen.file.suffix}").symlink_to(chosen.file.resolve())
        limits = [str(archive), "--to", f"{chosen.seconds}s"]
        most = max(chosen.nodes)
        cases = [(f"{n} nodes", n, False) for n in chosen.nodes]
        cases += [(f"{most} nodes, one is killed", most, True)] if most > 1 else []
        alone = _replayed(limits, Path(scratch) / "alone")
        _tell("one process", alone, alone)
        for name, nodes, killing in cases:
            run = _on_nodes(nodes, limits, Path(scratch) / name, killing=killing)
            if run.record != alone.record:
                sys.exit(f"{name} write another record than one process")
            _tell(name, alone, run)
    print(f"\n{chosen.files} files of {chosen.seconds} s, {os.cpu_count()} processors in all; records equal.")


def _tell(name: str, alone: Run, run: Run) -> None:
    print(f"| {name} | {alone.took_s / run.took_s:.2f} | {run.took_s:.0f} | {run.cpu_s:.0f} |", flush=True)


def _on_nodes(count: int, options: Sequence[str], out: Path, *, killing: bool) -> Run:
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}  # as polite as one process
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(count)]

        def kill() -> None:
            cluster.remove_node(nodes[0], allow_graceful=False)

        return _replayed([*options, "--ray", cluster.address], out, kill if killing else None)
    finally:
        cluster.shutdown()


def _replayed(options: Sequence[str], out: Path, kill: Callable[[], Any] | None = None) -> Run:
    spent = _Spent()
    begun = time.perf_counter()
    program = Path(sys.executable).with_name("narrated")
    with subprocess.Popen(
        [program, "replay", *options, "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None:
            spent.look()
            time.sleep(0.2)
            if kill and (out / "journal").exists() and any((out / "journal").iterdir()):
                kill()
                kill = None
        took = time.perf_counter() - begun
        if process.returncode:
            sys.exit(process.stderr.read().decode() if process.stderr else "failed")
    if kill:
        sys.exit("it ended before anybody could be killed: give more --files")
    return Run(took, spent.seconds, (out / "narrations.jsonl").read_bytes())


class _Spent:
    """The processor's time of all that this process has started, as long as it was seen living."""

    def __init__(self) -> None:
        self._before = self._now()
        self._latest = dict(self._before)

    def look(self) -> None:
        self._latest |= self._now()

    @property
    def seconds(self) -> float:
        return sum(spent - self._before.get(pid, 0.0) for pid, spent in self._latest.items())

    @staticmethod
    def _now() -> dict[int, float]:
        found = {}
        for process in psutil.Process().children(recursive=True):
            try:
                found[process.pid] = sum(process.cpu_times()[:2])
            except psutil.Error:
                continue
        return found


if __name__ == "__main__":
    main()
