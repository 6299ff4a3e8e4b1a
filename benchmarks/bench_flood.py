"""A narrator that gets three times as many pairs as it can caption: how old is what it tells?

    python benchmarks/bench_flood.py

Four cameras propose a pair every two seconds each, the captioner takes 1.5 s a pair, the deadline is 30 s;
the clock runs twenty times as fast. Compared: the queue as it is, and one that only asks whether the pair at
its head is late. The numbers behind docs/adr/0011-floods-and-silence.md.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from daemon.threads.pair_queue import PairQueue, Proposed

SPEED = 20.0
CAMERAS, EVERY_S, CAPTION_S, FACTS_S, DEADLINE_S, LENGTH_S = 4, 2.0, 1.5, 0.03, 30.0, 300.0


class InTurn(PairQueue):
    """Gives out every pair in its turn, however old."""

    def _late(self, _: float) -> list[Proposed]:
        return []


def told(queue: PairQueue) -> tuple[list[float], list[float]]:
    """Ages in seconds at which pairs were told, by the captioner and by their clusters."""
    over = threading.Event()

    def propose(camera: str) -> None:
        while not over.wait(EVERY_S / SPEED):
            pair: Any = time.monotonic()
            queue.put(camera, pair, wait=False, deadline_s=DEADLINE_S / SPEED)

    threads = [threading.Thread(target=propose, args=[f"{k}"]) for k in range(CAMERAS)]
    for thread in threads:
        thread.start()
    began, captioned, facts = time.monotonic(), list[float](), list[float]()
    while time.monotonic() - began < LENGTH_S / SPEED:
        for one in queue.take(1, 0.0):
            time.sleep((FACTS_S if one.late else CAPTION_S) / SPEED)
            proposed: Any = one.pair
            (facts if one.late else captioned).append((time.monotonic() - proposed) * SPEED)
    over.set()
    for thread in threads:
        thread.join()
    return captioned, facts


def main() -> None:
    """Print the table."""
    print("| queue | proposed | by the captioner: age p50, p95 | by clusters: age p50, p95 | dropped |")
    print("|---|---|---|---|---|")
    names = [f"{k}" for k in range(CAMERAS)]
    for name, queue in (("as it is", PairQueue(names, 8)), ("in turn", InTurn(names, 8))):
        cells = []
        for ages in told(queue):
            p50, p95 = np.percentile(ages, [50, 95]) if ages else (0.0, 0.0)
            cells.append(f"{len(ages)}: {p50:.0f} s, {p95:.0f} s")
        accounts = queue.accounts.by_camera().values()
        proposed = sum(account.proposed for account in accounts)
        print(f"| {name} | {proposed} | {' | '.join(cells)} | {queue.dropped.total()} |")


if __name__ == "__main__":
    main()
