"""The process does not grow: rings of objects are found, and what is free is given back."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest

from daemon.health import memory
from daemon.health.memory import Trimming, allocated

SETTLED = """
import gc
from daemon.health.memory import few_arenas, settle
few_arenas()
kept = [[number] for number in range(1_000_000)]  # what is loaded for good
settle()
seen = gc.get_stats()[2]["collections"]


class Ring:
    live = 0

    def __init__(self):
        Ring.live += 1
        self.ring = self

    def __del__(self):
        Ring.live -= 1


held = []
for number in range(150_000):
    held.append(Ring())
    if len(held) > 3_000:  # old enough to be spared by the collections of what is young
        held.clear()
print(Ring.live, gc.get_stats()[2]["collections"] - seen, gc.get_freeze_count())
"""


def settled(script: str) -> tuple[int, int, int]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    live, collections, frozen = map(int, done.stdout.split())
    return live, collections, frozen


def test_rings_are_found_although_much_is_loaded() -> None:
    live, collections, frozen = settled(SETTLED)
    assert frozen > 1_000_000
    assert collections >= 1
    unsettled, never, _ = settled(SETTLED.replace("\nsettle()\n", "\n"))
    assert never == 0
    assert unsettled > 2 * live


@pytest.fixture
def glibc() -> None:
    if allocated() is None:
        pytest.skip("the C library is not glibc 2.33 or later")


@pytest.mark.usefixtures("glibc")
def test_what_is_free_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TRIM_EVERY_S", 0.0)
    trimming = Trimming()
    before = allocated()
    assert before is not None
    blocks = [b"%d" % number * 33_000 for number in range(100, 700)]
    between = blocks[::2]  # small enough for the heap, and between them what stays
    full = allocated()
    assert full is not None
    assert full.used + full.mapped - before.used - before.mapped > 55e6
    del blocks
    gc.collect()
    holes, resident = allocated(), _resident_bytes()
    assert holes is not None
    assert holes.free > full.free + 25e6
    trimming.turn()
    assert resident - _resident_bytes() > 20e6
    assert len(between) == 300
    assert np.sum([len(block) for block in between]) > 29e6


def _resident_bytes() -> int:
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * 4096
