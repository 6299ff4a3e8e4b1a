"""Memory of pictures that were let go goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

PICTURES = """
import sys
import threading
import numpy as np
from daemon.threads.allocator import keep_little

def resident_mb():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000

def look(kept):
    for _ in range(20):
        pictures = [np.ones(3_000_000, np.uint8) for _ in range(3)]
        kept += [np.ones(20_000, np.uint8) for _ in range(3)]

if sys.argv[1] == "little":
    keep_little()
before, kept = resident_mb(), []
threads = [threading.Thread(target=look, args=(kept,)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(resident_mb() - before)
"""


PLANES = """
import numpy as np
from daemon.threads.allocator import give_back, keep_little

def resident_mb():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000

keep_little()
planes = [np.ones(130_000, np.uint8) for _ in range(300)]
held = planes[::20]
planes.clear()
before = resident_mb()
give_back()
print(before - resident_mb(), len(held))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_planes_between_others_are_given_back() -> None:
    given = subprocess.run([sys.executable, "-c", PLANES], capture_output=True, check=True).stdout
    assert float(given.split()[0]) > 25  # of 39, of which 2 are held


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_pictures_that_were_let_go_take_nothing() -> None:
    grown = {
        way: float(
            subprocess.run([sys.executable, "-c", PICTURES, way], capture_output=True, check=True).stdout
        )
        for way in ("little", "much")
    }
    assert grown["little"] < 25  # of which 10 are kept
    assert grown["much"] > grown["little"] + 20
