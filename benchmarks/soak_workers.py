"""A soak of workers: an edge, its workers and their server killed, frozen and flushed in turn.

    python benchmarks/soak_workers.py [--minutes 15] [--out soak_workers.json] [--clip FILE ...]

Four cameras on loopback RTSP (see soak.py) show four clips, again and again; two workers with the shipped
captioner look. Every 15 s comes the next of these: a worker is killed, and another takes its place; a worker
is frozen for 10 s; one runs a fifth of the time for 15 s; the server is killed, and back after 3 s from its
append-only file; frozen for 3 s; flushed; the edge is killed, or gets SIGTERM, and is started again. In the
end it gets SIGTERM and is started a last time, and

* every line of the journals must verify: no sequence number is absent or there twice, in each camera's order;
* the streams must hold exactly the journals' records, in order (what was flushed is published again, and what
  was journalled and not published as an edge ended is published by the next one);
* no id is told twice, and no frame of a camera is told of before an earlier one;
* of every pair that the last edge proposed it must be known where it went.

Exit code 1 where one of that fails.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import redis
import soak
from soak import CLIPS_S, Soak

from pipeline.journal import read_camera, verify

EVERY_S, FROZEN_S, AWAY_S = 15.0, 10.0, 3.0
STOPPED_S, RUNNING_S = 0.4, 0.1  # of a slow worker, in turn
VICTIMS = (
    "worker killed",
    "server killed",
    "worker frozen",
    "server flushed",
    "edge killed",
    "server frozen",
    "worker slowed",
    "edge ended",
)
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "clips"
CLIPS = (
    "intelprev_person-bicycle-car-detection.mp4",
    "intel_car-detection.mp4",
    "intel_one-by-one-person-detection.mp4",
    "intelprev_worker-zone-detection.mp4",
)
Process = subprocess.Popen[bytes]


def frozen(process: Process, seconds: float) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


class Site:
    """What runs, and what was done to it."""

    def __init__(self, it: Soak) -> None:
        self.it = it
        self.done: Counter[str] = Counter()
        self.counters: Counter[str] = Counter()
        self.left = 0  # records that were not published when their edge ended, by a signal or killed
        self.now: dict[str, float] = {}
        self.rtsp, self.server = soak.start_rtsp(it), soak.start_redis(it)
        self.workers = [self.worker() for _ in range(2)]
        self.edge = self.start()

    def run(self, *words: str) -> Process:
        """A command of ours; its log is kept."""
        return subprocess.Popen(
            [sys.executable, "-m", "daemon.cli", *words],
            stdout=subprocess.DEVNULL,
            stderr=(self.it.folder / "log").open("ab"),
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def worker(self) -> Process:
        """One more."""
        return self.run("worker", "--redis", f"redis://127.0.0.1:{self.it.redis_port}", "--device", "cpu")

    def start(self) -> Process:
        """The edge, once it watches."""
        cameras = "".join(
            f"  camera{n}: {{url: 'rtsp://127.0.0.1:{self.it.rtsp_port}/{n}'}}\n"
            for n in range(1, len(CLIPS_S) + 1)
        )
        config = self.it.folder / "narrated.yaml"
        config.write_text(
            f"version: 1\nstate: {self.it.folder}/state\nredis: {{url: 'redis://127.0.0.1:{self.it.redis_port}'}}\n"
            f"http: {{listen: '127.0.0.1:{self.it.http_port}'}}\ncaptioner: {{device: cpu}}\ndefaults:\n"
            "  pairs: {lower: 20, upper: 250}\n"
            f"  narrate: {{cooldown: 0s, max_per_hour: null, workers: redis}}\ncameras:\n{cameras}"
        )
        edge, until = self.run("run", "-c", str(config)), time.monotonic() + 300
        while not soak.ready(self.it):
            if edge.poll() is not None or time.monotonic() > until:
                sys.exit(f"the edge does not start: {(self.it.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.5)
        return edge

    def look(self) -> None:
        """The edge's counters of this moment."""
        if self.edge.poll() is not None:
            sys.exit(f"the edge ended by itself: {(self.it.folder / 'log').read_text()[-2000:]}")
        self.now = soak.read_counters(self.it)

    def fold(self) -> None:
        """Before an edge ends: what it counted."""
        self.look()
        self.counters.update({n: int(v) for n, v in self.now.items() if n.endswith("_total")})

    def strike(self, what: str) -> None:
        """The next mishap."""
        self.done[what] += 1
        match what:
            case "worker killed":
                soak.end(self.workers.pop(0))
                self.workers.append(self.worker())
            case "worker frozen":
                frozen(self.workers[0], FROZEN_S)
            case "worker slowed":
                until = time.monotonic() + EVERY_S
                while time.monotonic() < until:
                    frozen(self.workers[0], STOPPED_S)
                    time.sleep(RUNNING_S)
            case "server killed":
                soak.end(self.server)
                time.sleep(AWAY_S)
                self.server = soak.start_redis(self.it)
            case "server frozen":
                frozen(self.server, AWAY_S)
            case "server flushed":
                with redis.Redis(port=self.it.redis_port) as client:
                    client.flushall()
            case _:
                self.fold()
                if what == "edge ended":
                    self.edge.send_signal(signal.SIGTERM)
                    self.edge.wait(60)
                soak.end(self.edge)
                self.left += soak.compare(self.it)
                self.edge = self.start()

    def end(self) -> None:
        """Nothing is left running."""
        for process in (self.edge, *self.workers, self.rtsp, self.server):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                soak.end(process)


def judged(site: Site) -> tuple[dict[str, Any], list[str]]:
    """The figures, and what is not as promised."""
    journal = site.it.folder / "state" / "journal"
    verified, twice, back, told = verify([journal]), 0, 0, Counter[str]()
    for number in range(1, len(CLIPS_S) + 1):
        records = list(read_camera(journal, f"camera{number}"))
        twice += len(records) - len({record.id for record in records})
        times = [record.after.moment for record in records]
        back += sum(later < earlier for earlier, later in pairwise(times))
        told.update(record.fallback or "seen by workers" for record in records)
    last = site.now
    settled = last.get("narrated_pairs_total", 0) + last.get("narrated_pairs_waiting", 0)
    kept = {
        n: c for n, c in sorted(site.counters.items()) if "worker" in n or n.startswith("narrated_pairs_prop")
    }
    figures = {
        "mishaps": dict(site.done),
        "records": verified.lines,
        "told": dict(told),
        "ids told twice": twice,
        "out of order": back,
        "not published as their edge ended": site.left,
        "records that are not on the stream": soak.compare(site.it),
        "the last edge's pairs": [last["narrated_pairs_proposed_total"], settled],
        "counters": kept,
    }
    wrong = {
        "the journals do not verify": not verified.ok,
        "nothing was seen by workers": not told["seen by workers"],
        "ids are told twice": bool(twice),
        "the order is not kept": bool(back),
        "stream and journals differ": bool(figures["records that are not on the stream"]),
        "pairs are unaccounted for": settled != last["narrated_pairs_proposed_total"],
    }
    return figures, [sentence for sentence, true in wrong.items() if true]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--clip", type=Path, action="append", help="four H.264 files; by default real footage"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))  # so that nothing is left running
    with tempfile.TemporaryDirectory(prefix="narrated-soak-") as folder:
        it = Soak(Path(folder))
        it.rtsp_port, it.redis_port, it.http_port = (soak.free_port() for _ in range(3))
        for seconds, clip in zip(CLIPS_S, options.clip or [DATA / name for name in CLIPS], strict=True):
            (it.folder / f"{seconds}.mp4").symlink_to(clip.resolve())
        site = Site(it)
        try:
            began, number = time.monotonic(), 0
            while time.monotonic() - began < 60 * options.minutes:
                time.sleep(EVERY_S)
                site.look()
                site.strike(VICTIMS[number % len(VICTIMS)])
                print(f"{time.monotonic() - began:5.0f} s  {VICTIMS[number % len(VICTIMS)]}", flush=True)
                number += 1
            site.strike("edge ended")
            time.sleep(EVERY_S)
            soak.end(site.rtsp)  # nothing more is seen: what is on the way comes to its end
            until = time.monotonic() + 120
            while time.monotonic() < until:
                site.look()
                if not (site.now["narrated_pairs_waiting"] or site.now["narrated_unpublished"]):
                    break
                time.sleep(1)
            site.fold()
            site.edge.send_signal(signal.SIGTERM)
            site.edge.wait(60)
            figures, wrong = judged(site)
        finally:
            site.end()
    if options.out:
        options.out.write_text(json.dumps({**figures, "wrong": wrong}, indent=1) + "\n")
    for name, value in figures.items():
        print(f"{name:<36} {value}")
    for sentence in wrong:
        print(f"NOT AS PROMISED: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
