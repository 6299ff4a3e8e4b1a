"""A fleet on paper: how long pairs wait for workers, by load; and whether that is so on this machine.

    python benchmarks/simulate_fleet.py [--seed 1] [--cameras 1000] [--gpu]   # latency by load
    python benchmarks/simulate_fleet.py --check                            # beside real processes
    python benchmarks/simulate_fleet.py --extract                          # pair_times.json anew

Each camera of the fleet shows one of some clips of real footage, from a chance moment on, again and again:
when pairs come, and how many pictures of each are new, is in pair_times.json. A pair is prepared by its edge
(one after the other), crosses the server (one after the other), and waits for a worker that takes up to a
batch; after 30 s it is late. What each step takes was measured (2026-11-workers.md). --check gives the same
arrivals to this simulation and to real workers that wait 50 ms (bench_workers.py), and compares how long
pairs took.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TIMES = Path(__file__).with_name("pair_times.json")
KINDS = {
    "street": ("train/delhi_roundabout", "train/hcmc_motorbikes", "train/meskel_square_a"),
    "pavement": ("opencv_vtest.avi", "train/piccadilly_pavement_night", "train/ny_sidewalk"),
    "entrance": ("intel_one-by-one-person-detection.mp4", "test/home_hall_cam2", "test/shop_door_cctv"),
    "car park": ("intel_car-detection.mp4", "test/parkinglot1_towers"),
    "office": ("train/office_cctv_wide",),
}
MIX = {"street": 0.15, "pavement": 0.15, "entrance": 0.25, "car park": 0.25, "office": 0.2}
"""Which cameras a fleet has: an assumption."""

AWAKE = {"street": 0.8, "pavement": 0.5, "entrance": 0.15, "car park": 0.15, "office": 0.1}
"""In which share of the hours they show what the clips show: an assumption too; else they are quiet."""

LATE_S = 30.0


@dataclass(frozen=True)
class Costs:
    """Seconds.

    Attributes:
        edge_picture, edge_pair: of an edge's processor, for each new picture and for the rest of a pair.
        server_pair, server_mb: of the server's processor.
        batch, picture: a worker's, for each batch and each picture.
        most: pairs of a batch.
        picture_mb: bytes of a picture in millions.
        measured: what batches took, one after the other, while one worker was at work, two, and so on, in
            place of `batch` and `picture`. Workers that share processors slow one another, and in spells.
    """

    edge_picture: float = 0.012
    edge_pair: float = 0.055
    server_pair: float = 0.0002
    server_mb: float = 0.0008
    batch: float = 0.0
    picture: float = 0.0135
    most: int = 1
    picture_mb: float = 0.25
    measured: tuple[tuple[float, ...], ...] = ()

    def look(self, pictures: int, busy: int, number: int) -> float:
        """What a worker takes for the batch of that number while so many are at work."""
        if self.measured:
            steps = self.measured[min(busy, len(self.measured)) - 1]
            return steps[number % len(steps)]
        return self.batch + self.picture * pictures


CPU = Costs()
GPU = Costs(batch=0.006, picture=0.0006, most=16)
"""A GPU's worker is an assumption until it is measured: about 1,600 pictures a second."""

Arrival = tuple[float, int, int]
"""Second, camera, new pictures."""


@dataclass
class Outcome:
    """What a simulation gave.

    Attributes:
        waits: seconds from a pair's coming to its answer.
        queue: pairs that wait for a worker, whenever one comes.
        busy: share of the workers' time.
    """

    waits: list[float] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    busy: float = 0.0

    def at(self, share: float) -> float:
        """A quantile of the waits."""
        ordered = sorted(self.waits)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    @property
    def late(self) -> float:
        """Share of pairs that waited too long."""
        return sum(wait > LATE_S for wait in self.waits) / max(len(self.waits), 1)


def arrivals(kinds: Sequence[str], seconds: float, seed: int, speed: float = 1.0) -> list[Arrival]:
    """When the cameras' pairs come, in order; of each kind some camera."""
    chance, clips = random.Random(seed), json.loads(TIMES.read_text())  # noqa: S311 - no secret
    found: list[Arrival] = []
    for camera, kind in enumerate(kinds):
        clip = chance.choice([clip for clip in clips if clip["kind"] == kind])
        begin = chance.uniform(0, clip["seconds"])
        rounds = int(seconds * speed / clip["seconds"]) + 2
        for turn in range(rounds):
            for at, pictures in clip["pairs"]:
                t = (turn * clip["seconds"] + at - begin) / speed
                if 0 <= t < seconds:
                    found.append((t, camera, pictures))
    return sorted(found)


def simulate(
    coming: Sequence[Arrival], workers: int, costs: Costs, cameras_an_edge: int = 8, shards: int = 1
) -> Outcome:
    """Every pair's way, event by event."""
    edges, servers = dict[int, float](), [0.0] * shards
    ready: list[tuple[float, float, int]] = []  # at the workers, came, pictures
    for t, camera, pictures in coming:
        edge = camera // cameras_an_edge
        edges[edge] = max(t, edges.get(edge, 0.0)) + costs.edge_pair + pictures * costs.edge_picture
        shard = edge % shards
        took = costs.server_pair + pictures * costs.picture_mb * costs.server_mb
        servers[shard] = max(edges[edge], servers[shard]) + took
        ready.append((servers[shard], t, pictures))
    ready.sort()
    outcome, waiting = Outcome(), deque[tuple[float, int]]()
    free = [(0.0, n) for n in range(workers)]  # when each worker is free
    worked, number, n = 0.0, 0, 0
    while n < len(ready) or waiting:
        at, worker = heapq.heappop(free)
        while n < len(ready) and ready[n][0] <= at:
            waiting.append(ready[n][1:])
            n += 1
        if not waiting:
            heapq.heappush(free, (ready[n][0], worker))
            continue
        outcome.queue.append(len(waiting))
        batch = [waiting.popleft() for _ in range(min(costs.most, len(waiting)))]
        busy = 1 + sum(until > at for until, _ in free)
        took = costs.look(sum(pictures for _, pictures in batch), busy, number)
        number += 1
        outcome.waits += [at + took - came for came, _ in batch]
        worked += took
        heapq.heappush(free, (at + took, worker))
    end = max(at for at, _ in free) or 1.0
    outcome.busy = worked / (end * workers)
    return outcome


def fleet(cameras: int, seed: int) -> list[str]:
    """The kinds of the cameras that show something now; the others are quiet."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    kinds = chance.choices(list(MIX), list(MIX.values()), k=cameras)
    return [kind for kind in kinds if chance.random() < AWAKE[kind]]


def by_kind() -> None:
    """What the clips show."""
    clips = json.loads(TIMES.read_text())
    print("| kind | clips | minutes | pairs an hour while it is so | new pictures a pair |")
    print("|---|---|---|---|---|")
    for kind in KINDS:
        own = [clip for clip in clips if clip["kind"] == kind]
        seconds, pairs = sum(c["seconds"] for c in own), [p for c in own for p in c["pairs"]]
        each = statistics.mean(pictures for _, pictures in pairs) if pairs else 0.0
        rate = 3600 * len(pairs) / seconds
        print(f"| {kind} | {len(own)} | {seconds / 60:.1f} | {rate:.0f} | {each:.1f} |")
    print()


def by_load(cameras: int, seed: int, costs: Costs) -> None:
    """Latency by load, from a quarter to more than the workers can do."""
    awake = fleet(cameras, seed)
    coming = arrivals(awake, 600.0, seed)
    each = costs.batch / costs.most + costs.picture * statistics.mean(p for _, _, p in coming)
    wanted = len(coming) / 600.0 * each
    rate = len(coming) / 600.0
    print(f"{cameras} cameras, {len(awake)} awake, {rate:.1f} pairs/s, {wanted:.1f} workers' work\n")
    print("| load | workers | waiting: mean, most | p50 | p95 | p99 | late |\n|---|---|---|---|---|---|---|")
    shards = -(-cameras // 1000)
    # Of a few quick workers there is not one number for each load.
    for workers in dict.fromkeys(
        max(1, round(wanted / load)) for load in (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.05)
    ):
        out = simulate(coming, workers, costs, 8, shards)
        queue = f"{statistics.mean(out.queue):.1f}, {max(out.queue)}"
        waits = " | ".join(f"{out.at(share):.2f} s" for share in (0.5, 0.95, 0.99))
        print(
            f"| {wanted / workers:.2f} | {workers} | {queue} | {waits} | {100 * out.late:.1f} % |", flush=True
        )


def steps(workers: int) -> tuple[float, ...]:
    """What each pair takes so many real workers that always have work: each ends its next that many later."""
    import bench_workers  # noqa: PLC0415 - loads the product

    ends = sorted(bench_workers.latencies([(0.0, n % 16, 1) for n in range(100 * workers)], workers))
    return tuple(later - end for end, later in zip(ends, ends[workers:], strict=False))


def check(seed: int) -> None:
    """The same arrivals here and among real processes, whose steps are measured before each run."""
    import bench_workers  # noqa: PLC0415 - loads the product

    kinds = [kind for kind in KINDS for _ in range(4)]
    calm = statistics.median(bench_workers.latencies(arrivals(kinds, 15.0, seed, 0.5), 2))
    alone = steps(1)
    print(
        f"one that always has work takes {1000 * statistics.mean(alone):.1f} ms a pair; when nothing waits,"
    )
    print(f"a pair is back after {1000 * calm:.1f} ms\n")
    print("| workers | ms a pair | load | pairs/s | measured p50 | p95 | simulated p50 | p95 |")
    print("|---|---|---|---|---|---|---|---|")
    way = max(0.0, calm - statistics.median(alone))
    plain = len(arrivals(kinds, 200.0, seed)) / 200.0
    for workers, load in ((2, 0.5), (2, 0.8), (2, 0.95), (2, 1.2), (4, 0.5), (4, 0.8), (4, 0.95), (4, 1.2)):
        together = steps(workers)
        each = statistics.mean(together)
        costs = Costs(0.0, 0.0, 0.0, 0.0, measured=(alone, *[together] * (workers - 1)))
        speed = load * workers / each / plain
        coming = arrivals(kinds, 15.0, seed, speed)
        real = bench_workers.latencies(coming, workers)
        out, found = simulate(coming, workers, costs, 10**6, 1), Outcome(real)
        cells = [found.at(0.5), found.at(0.95), way + out.at(0.5), way + out.at(0.95)]
        words = " | ".join(f"{1000 * cell:.0f} ms" for cell in cells)
        print(
            f"| {workers} | {1000 * each:.1f} | {load:.2f} | {len(coming) / 15:.1f} | {words} |", flush=True
        )


def extract() -> None:
    """When pairs come in the clips, and how many of their pictures the pair before has not shown."""
    from daemon.config.plan import camera_plan  # noqa: PLC0415 - loads the decoders
    from daemon.config.settings import CameraDefaults  # noqa: PLC0415
    from pipeline.pairs import candidate_pairs  # noqa: PLC0415
    from pipeline.sources import open_source  # noqa: PLC0415
    from pipeline.thresholds import calibrate  # noqa: PLC0415

    found = []
    for kind, names in KINDS.items():
        for name in names:
            path = DATA / ("clips" if "." in name else "cameras") / name
            if path.is_dir():
                path = next(p for p in sorted(path.iterdir()) if p.suffix in {".mp4", ".avi"})
            plan, began = camera_plan("x", str(path), CameraDefaults()), time.monotonic()
            frames = []
            for frame in open_source(plan.url, plan.source, "x"):
                frames.append(frame)
                if len(frames) >= 120:  # a minute
                    break
            pairs, seen = [], set()
            for pair in candidate_pairs(frames, calibrate(frames).thresholds, plan.pairs):
                ends = {pair.before.time, pair.after.time}
                times = {t for t, _ in pair.pictures()} if pair.between else ends
                end = max(times)
                pairs.append([(end - frames[0].time).total_seconds(), len(times - seen)])
                seen |= times
            seconds = (frames[-1].time - frames[0].time).total_seconds()
            took = time.monotonic() - began
            print(f"{kind}: {name}: {len(pairs)} pairs in {seconds:.0f} s ({took:.0f} s)", file=sys.stderr)
            found.append({"kind": kind, "clip": name, "seconds": round(seconds, 1), "pairs": pairs})
            TIMES.write_text("[\n" + ",\n".join(json.dumps(each) for each in found) + "\n]\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cameras", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gpu", action="store_true", help="workers have a GPU")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--extract", action="store_true")
    options = parser.parse_args()
    if options.extract:
        extract()
    elif options.check:
        check(options.seed)
    else:
        by_kind()
        by_load(options.cameras, options.seed, GPU if options.gpu else CPU)


if __name__ == "__main__":
    main()
