"""Memory of pictures that were let go goes back to the system."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import threading
import numpy as np
from daemon.service.process import trim, limit_arenas

def resident_mb():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000

def look(kept):
    for _ in range(20):
        pictures = [np.ones(3_000_000, np.uint8) for _ in range(3)]
        kept += [np.ones(20_000, np.uint8) for _ in range(3)]

if sys.argv[1] == "little":
    limit_arenas()
before, kept = resident_mb(), []
threads = [threading.Thread(target=look, args=(kept,)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
grown = resident_mb() - before
planes = [np.ones(130_000, np.uint8) for _ in range(300)]
held = planes[::20]
planes.clear()
before = resident_mb()
trim()
print(grown, before - resident_mb())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_pictures_and_planes_that_were_let_go_take_nothing():
    (little, given), (much, _) = (
        map(float, subprocess.check_output([sys.executable, "-c", SCRIPT, way]).split())
        for way in ("little", "much")
    )
    assert little < 25  # of which 10 are kept
    assert much > little + 20
    assert given > 20  # of 39, of which 2 are held
