"""An edge in this process, a real server, and workers as processes of their own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import redis
import torch
from torch import Tensor
from worker_here import CHECKPOINT, CONTEXT, Gate, lasting, looked

from daemon.config.plan import CameraPlan
from daemon.service.embedded_redis import EmbeddedServer
from daemon.threads.pair_queue import Proposed
from daemon.workers.pair_queue import WorkersQueue
from daemon.workers.sights import Sightings
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame

START = datetime(2026, 1, 1, tzinfo=UTC)
CLAIM_S = 0.5


class SmallQueue(WorkersQueue):
    """A pair has two tiny pictures, one of which the next pair of its camera has, too."""

    def _to_see(self, pair: FramePair, plan: CameraPlan) -> list[Tensor]:
        return [tiny(pair.before.pts, pair.after.camera), tiny(pair.after.pts, pair.after.camera)]


def tiny(number: int, camera: str = "yard") -> Tensor:
    """A picture that shows a number."""
    picture = torch.zeros(3, 32, 32, dtype=torch.uint8)
    picture[0, 0, 0], picture[1, 0, 0], picture[2, 0, 1] = (
        number % 256,
        number // 256,
        sum(camera.encode()) % 256,
    )
    return picture


def pair(number: int, camera: str = "yard") -> FramePair:
    """The camera's pair of this number."""
    before, after = (
        Frame(camera, START + timedelta(seconds=n), Clock.FILE, n, np.zeros((4, 4), np.uint8), None)  # type: ignore[arg-type]
        for n in (number, number + 1)
    )
    return FramePair(before, after, 1.0)


@dataclass
class TinyCaptioner:
    """As much of a captioner as asking needs: which checkpoint, and eyes that somebody lends."""

    name: str = "tiny"
    sha256: str = CHECKPOINT
    detector: Any = None
    eyes: Sightings | None = None


@dataclass
class Edge:
    """An edge: a queue with its cameras, and what came out of it."""

    queue: SmallQueue
    captioner: TinyCaptioner
    out: list[Proposed] = field(default_factory=list)

    def put(self, *numbers: int, camera: str = "yard", deadline_s: float | None = None) -> None:
        for number in numbers:
            assert self.queue.put(camera, pair(number, camera), wait=True, deadline_s=deadline_s)

    def take(self, count: int, limit_s: float = 20) -> list[tuple[str, int, bool]]:
        """Wait for so many pairs: camera, number, whether it came late; what was seen of each is checked."""
        out, end = list[tuple[str, int, bool]](), time.monotonic() + limit_s
        while len(out) < count:
            assert time.monotonic() < end, (out, self.asking.counts, self.asking.away)
            for one in self.queue.take(8, 0.0):
                camera, number = one.pair.after.camera, one.pair.before.pts
                if not one.late:
                    self.check(one.pair)
                out.append((camera, number, one.late))
        return out

    def check(self, each: FramePair) -> None:
        """What workers saw is what is there."""
        pictures = self.queue._to_see(each, CameraPlan("yard", ""))
        assert self.captioner.eyes is not None
        for seen, there in zip(self.captioner.eyes(pictures), looked(pictures), strict=True):
            assert torch.equal(seen.score, there.score)
            assert torch.equal(seen.feature, there.feature)

    @property
    def asking(self) -> Any:
        return self.queue.asking

    def idle(self) -> bool:
        """Whether nothing is on the way any more."""
        return not self.queue.held and not self.asking.in_flight


def wait(reached: Callable[[], Any], limit_s: float = 20) -> Any:
    """Wait for what is reached, and give it."""
    end = time.monotonic() + limit_s
    while not (value := reached()):
        assert time.monotonic() < end, "not within the limit"
        time.sleep(0.005)
    return value


@dataclass
class Hand:
    """A worker's process."""

    process: BaseProcess
    gate: Gate

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    @property
    def log(self) -> str:
        path = self.gate.folder / "log"
        return path.read_text() if path.exists() else ""


class Site:
    """A server, and whoever meets there."""

    def __init__(self, server: EmbeddedServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.hands: list[Hand] = []
        self.edges: list[Edge] = []

    @property
    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=self.server.url.removeprefix("unix://"))

    def keys(self, kind: str) -> list[bytes]:
        with self.client as client:
            found: Any = client.keys(f"narrated:{{workers}}:*:{kind}:*")
        return list(found)

    def edge(
        self, *cameras: str, url: str | None = None, checkpoint: str = CHECKPOINT, **options: Any
    ) -> Edge:
        names = list(cameras or ("yard",))
        queue = SmallQueue(names, 400, lambda: url or self.server.url, **options)
        captioner = TinyCaptioner(sha256=checkpoint)
        queue.begin(captioner, {name: CameraPlan(name, "", workers=True) for name in names})  # type: ignore[arg-type]
        self.edges.append(Edge(queue, captioner))
        return self.edges[-1]

    def worker(
        self,
        *,
        shut: bool = False,
        checkpoint: str = CHECKPOINT,
        batch: int = 1,
        claim_s: float = CLAIM_S,
        url: str | None = None,
    ) -> Hand:
        gate = Gate(self.folder / f"worker{len(self.hands)}", open_=not shut)
        arguments = (url or self.server.url, gate.folder, checkpoint, batch, claim_s)
        process = CONTEXT.Process(target=lasting, args=arguments, daemon=True)
        process.start()
        self.hands.append(Hand(process, gate))
        return self.hands[-1]

    def end(self) -> None:
        for edge in self.edges:
            edge.queue.leave(5.0)
            for loop in edge.queue.loops:
                loop.raise_error()
        for hand in self.hands:
            if hand.process.is_alive():
                hand.signal(signal.SIGCONT)
                hand.process.kill()
            hand.process.join(30)
