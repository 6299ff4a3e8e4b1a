"""Workers: how they add up, and what the server takes.

    python benchmarks/bench_workers.py waiting    # 1, 2, 4 and 8 workers whose look is to wait 50 ms
    python benchmarks/bench_workers.py looking    # 1, 2 and 4 real workers beside a whole edge
    python benchmarks/bench_workers.py server     # the ceiling: pairs/s and MB/s

Workers are processes of their own, the server is a real one. `waiting` sends one picture of 32x32 a pair, so
that the waiting is what is measured; `looking` runs the shipped captioner over real pairs of two clips, the
edge finds changes, follows, tells and journals. The figures are in 2026-11-workers.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
import psutil
import torch
from torch import Tensor

from daemon.config.plan import CameraPlan, camera_plan
from daemon.config.settings import CameraDefaults
from daemon.service.embedded_redis import EmbeddedServer
from daemon.threads.narrator import Narrator, warm_up
from daemon.workers.broker import GROUP, Broker, answers_key, asks_key, own_name, pictures_key
from daemon.workers.messages import Ask, WorkerCard
from daemon.workers.pair_queue import WorkersQueue
from daemon.workers.worker import Worker
from models import load_captioner
from models.detections import Detections
from models.families import OBJECTS
from pipeline.journal import Journal
from pipeline.pairs import FramePair, candidate_pairs
from pipeline.sources import Clock, Frame, open_source
from pipeline.thresholds import calibrate

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["daemon.workers.worker"])
SHARED = Path(__file__).resolve().parents[2] / "shared"
CLIPS = ("opencv_vtest.avi", "intelprev_person-bicycle-car-detection.mp4")
WAIT_S, CHECKPOINT = 0.05, "c" * 64
START = datetime(2026, 1, 1, tzinfo=UTC)
PARTS = ("waiting", "looking", "server")


class OnePicture(WorkersQueue):
    """A pair is one tiny picture of its own."""

    def _to_see(self, pair: FramePair, _: CameraPlan) -> list[Tensor]:
        picture = torch.zeros(3, 32, 32, dtype=torch.uint8)
        picture[0, 0, :4] = torch.tensor([pair.after.pts >> k & 255 for k in (0, 8, 16, 24)])
        picture[1, 0, 0] = int(pair.after.camera)
        return [picture]


@dataclass
class Waiting:
    """As much of a captioner as asking needs."""

    name: str = "waiting"
    sha256: str = CHECKPOINT
    detector: Any = None
    eyes: Any = None


def nothing(pictures: Sequence[Tensor]) -> list[Detections]:
    """One who only waits, and sees nothing."""
    time.sleep(WAIT_S)
    empty = torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, len(OBJECTS)), torch.zeros(0, 96)
    return [Detections(*empty) for _ in pictures]


def lasting(url: str, captioned: bool) -> None:
    """A worker's process."""
    torch.set_num_threads(1)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    look: Any = nothing
    name, checkpoint = "waiting", CHECKPOINT
    if captioned:
        captioner = load_captioner()
        name, checkpoint = captioner.name, captioner.sha256

        def look(pictures: Sequence[Tensor]) -> list[Detections]:
            with torch.inference_mode():
                return captioner.see(pictures)  # type: ignore[attr-defined, no-any-return]

    card = WorkerCard(name=own_name(), narrated="0", captioner=name, checkpoint=checkpoint, device="cpu")
    Worker(Broker(lambda: url), card, look).run(stop)


@contextmanager
def at_work(url: str, count: int, *, captioned: bool) -> Iterator[list[psutil.Process]]:
    hands = [CONTEXT.Process(target=lasting, args=(url, captioned), daemon=True) for _ in range(count)]
    for hand in hands:
        hand.start()
    try:
        yield [psutil.Process(hand.pid) for hand in hands]
    finally:
        for hand in hands:
            hand.terminate()
            hand.join(30)


def blank(camera: str, number: int) -> FramePair:
    frame = Frame(camera, START, Clock.FILE, number, np.zeros((4, 4), np.uint8), None)  # type: ignore[arg-type]
    return FramePair(frame, frame, 1.0)


def drained(queue: WorkersQueue, count: int, tell: Callable[[list[Any]], Any] = lambda _: None) -> None:
    """Take so many pairs, each camera's in order."""
    last: dict[str, int] = {}
    while count:
        batch = queue.take(64, 0.0)
        for one in batch:
            camera, number = one.pair.after.camera, one.pair.after.pts
            if number <= last.get(camera, -1):
                sys.exit("out of order")
            last[camera] = number
        count -= len(batch)
        if batch:
            tell(batch)


def waiting(seconds: float) -> None:
    """Workers that only wait: does the way through the server add up?"""
    print("| workers | pairs/s | times one | edge CPU ms a pair |\n|---|---|---|---|")
    one = 0.0
    for count in (1, 2, 4, 8):
        rates, cost = [], []
        for _ in range(3):
            with EmbeddedServer() as server:
                cameras = [str(n) for n in range(16)]
                queue = OnePicture(cameras, 10**6, lambda: server.url)
                queue.begin(Waiting(), {n: CameraPlan(n, "", workers=True) for n in cameras})  # type: ignore[arg-type]
                with at_work(server.url, count, captioned=False):
                    while queue.asking.alive[0] < count:  # type: ignore[union-attr]
                        time.sleep(0.05)
                    pairs = round(count * seconds / WAIT_S / 16) * 16
                    began, cpu = time.monotonic(), time.process_time()
                    for number in range(pairs):
                        queue.put(cameras[number % 16], blank(cameras[number % 16], number), wait=False)
                    drained(queue, pairs)
                    rates.append(pairs / (time.monotonic() - began))
                    cost.append(1000 * (time.process_time() - cpu) / pairs)
                queue.leave(5.0)
        rate = max(rates)
        one = one or rate
        each = ", ".join(f"{r:.1f}" for r in rates)
        print(
            f"| {count} | {rate:.1f} ({each}) | {rate / one:.2f} | {statistics.median(cost):.1f} |",
            flush=True,
        )


def latencies(coming: Sequence[tuple[float, int, int]], workers: int) -> list[float]:
    """Seconds from each pair's coming to when it can be told, with workers whose look is to wait 50 ms."""
    cameras = [str(n) for n in range(1 + max(camera for _, camera, _ in coming))]
    put, out = dict[tuple[str, int], float](), list[float]()
    with EmbeddedServer() as server:
        queue = OnePicture(cameras, 10**6, lambda: server.url)
        queue.begin(Waiting(), {n: CameraPlan(n, "", workers=True) for n in cameras})  # type: ignore[arg-type]
        with at_work(server.url, workers, captioned=False):
            while queue.asking.alive[0] < workers:  # type: ignore[union-attr]
                time.sleep(0.05)
            began = time.monotonic()

            def come() -> None:
                for number, (at, camera, _) in enumerate(coming):
                    time.sleep(max(0.0, began + at - time.monotonic()))
                    put[str(camera), number] = began + at
                    queue.put(str(camera), blank(str(camera), number), wait=False)

            thread = threading.Thread(target=come)
            thread.start()

            def tell(batch: list[Any]) -> None:
                now = time.monotonic()
                out.extend(now - put[one.pair.after.camera, one.pair.after.pts] for one in batch)

            drained(queue, len(coming), tell)
            thread.join()
        queue.leave(5.0)
    return out


def real_pairs(most: int) -> dict[str, list[FramePair]]:
    """Pairs of two clips, each told as three cameras."""
    found = {}
    for n, clip in enumerate(CLIPS):
        plan = camera_plan("x", str(SHARED / "data" / "clips" / clip), CameraDefaults())
        frames = list(open_source(plan.url, plan.source, "x"))
        pairs = list(candidate_pairs(frames, calibrate(frames[:240]).thresholds, plan.pairs))[:most]
        for copy in range(3):
            name = f"camera{n}{copy}"
            found[name] = [
                replace(p, before=replace(p.before, camera=name), after=replace(p.after, camera=name))
                for p in pairs
            ]
    return found


def looking(most: int) -> None:
    """Real workers: pairs/s of a whole edge, and where the processors' time goes."""
    footage = real_pairs(most)
    total = sum(map(len, footage.values()))
    print(f"{total} pairs of {len(footage)} cameras\n")
    print(
        "| workers | pairs/s | CPU s: edge | workers | server | ms/pair: edge | worker | MB/pair | records |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for count in (0, 1, 2, 4):
        captioner: Any = load_captioner()
        warm_up(captioner)
        plans = [CameraPlan(name, "", workers=count > 0) for name in footage]
        with EmbeddedServer() as server, tempfile.TemporaryDirectory() as folder:
            queue = WorkersQueue(list(footage), 10**6, lambda: server.url)
            journals = {name: Journal(Path(folder), name) for name in footage}
            narrator = Narrator(captioner, plans, journals, live=False, accounts=queue.accounts)
            queue.begin(captioner, narrator.plans)
            asking: Any = queue.asking
            with at_work(server.url, count, captioned=True) as hands:
                while asking.alive[0] < count:
                    time.sleep(0.05)
                its = psutil.Process(server._process.pid)  # type: ignore[union-attr]  # noqa: SLF001
                spent = lambda: [sum(p.cpu_times()[:2]) for p in (psutil.Process(), *hands, its)]  # noqa: E731, B023
                before, began = spent(), time.monotonic()
                for number in range(max(map(len, footage.values()))):
                    for name, pairs in footage.items():
                        if number < len(pairs):
                            queue.put(name, pairs[number], wait=False)
                drained(queue, total, narrator.tell)
                narrator.finish()
                took = time.monotonic() - began
                cpu = [b - a for a, b in zip(before, spent(), strict=True)]
            edge, work, served = cpu[0], sum(cpu[1:-1]), cpu[-1]
            megabytes = (asking.counts.sent_bytes + asking.counts.received_bytes) / 1e6 / total
            queue.leave(5.0)
            records = sum(journal.end.seq for journal in journals.values())
            for journal in journals.values():
                journal.close()
        print(
            f"| {count or 'none'} | {total / took:.2f} | {edge:.1f} | {work:.1f} | {served:.1f} | "
            f"{1000 * edge / total:.0f} | {1000 * work / total:.0f} | {megabytes:.2f} | {records} |",
            flush=True,
        )


def taking(url: str, data: bytes, count: int) -> None:
    """A worker that answers without looking, one ask after the other."""
    broker = Broker(lambda: url)
    with broker.asked() as client:
        for _ in range(count):
            new: Any = client.xreadgroup(
                GROUP, own_name(), {asks_key(CHECKPOINT): ">"}, count=1, block=60_000
            )
            entry, told = new[0][1][0]
            ask = Ask.model_validate_json(told[b"ask"])
            client.hgetall(pictures_key(ask.id))
            together = client.pipeline(transaction=True)
            together.xadd(answers_key(ask.edge), {"answer": b"{}", "seen": data}, maxlen=100)
            together.xack(asks_key(CHECKPOINT), GROUP, entry)
            together.xdel(asks_key(CHECKPOINT), entry)
            together.delete(pictures_key(ask.id))
            together.execute()


def server(count: int) -> None:
    """How much the server takes, one edge and two workers that do nothing but the talking."""
    print("| pictures a pair | kB each | pairs/s | MB/s | server CPU ms a pair |\n|---|---|---|---|---|")
    for pictures, size in ((1, 100), (8, 30_000), (8, 250_000)):
        with EmbeddedServer() as running:
            broker = Broker(lambda: running.url)
            broker.make_group(CHECKPOINT)
            many = count if pictures * size < 10**6 else count // 4
            seen, data = os.urandom(8 * 5_000), os.urandom(size)
            hands = [CONTEXT.Process(target=taking, args=(running.url, seen, many // 2)) for _ in range(2)]
            for hand in hands:
                hand.start()
            time.sleep(5.0)
            its = psutil.Process(running._process.pid)  # type: ignore[union-attr]  # noqa: SLF001
            cpu, began = sum(its.cpu_times()[:2]), time.monotonic()
            with broker.asked() as client:
                for number in range(2 * (many // 2)):
                    ask = Ask(
                        id=f"e:{number}", edge="e", camera="c", checkpoint=CHECKPOINT, pictures=pictures
                    )
                    together = client.pipeline(transaction=True)
                    together.hset(pictures_key(ask.id), mapping=dict.fromkeys(range(pictures), data))
                    together.expire(pictures_key(ask.id), 120)
                    together.xadd(asks_key(CHECKPOINT), {"ask": ask.model_dump_json()})
                    together.xlen(asks_key(CHECKPOINT))
                    while together.execute()[-1] > 64:
                        time.sleep(0.002)
                        together.xlen(asks_key(CHECKPOINT))
            for hand in hands:
                hand.join(120)
            took = time.monotonic() - began
            cpu = sum(its.cpu_times()[:2]) - cpu
        done = 2 * (many // 2)
        rate, moved = done / took, done * (pictures * size + len(seen)) / 1e6
        print(
            f"| {pictures} | {size / 1000:g} | {rate:.0f} | {moved / took:.0f} | {1000 * cpu / done:.2f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", default="waiting", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=6.0, help="of waiting, for each number of workers")
    parser.add_argument("--pairs", type=int, default=12, help="looking: of each clip at most")
    parser.add_argument("--asks", type=int, default=2000, help="server: of each size")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    match options.part:
        case "waiting":
            waiting(options.seconds)
        case "looking":
            looking(options.pairs)
        case _:
            server(options.asks)


if __name__ == "__main__":
    main()
