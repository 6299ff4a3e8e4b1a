"""Replay of a 1080p file through the whole program: frames a second and peak memory.

    python benchmarks/bench_replay.py [--seconds 60] [--clip FILE]

Without --clip a 1080p clip is made: noise-textured ground, rectangles that come and go every ten seconds.
The peer is the floor: decoding the same file with PyAV and doing nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

RATE = 30
DECODE = "import av, sys\nwith av.open(sys.argv[1]) as c:\n    print(sum(1 for _ in c.decode(video=0)))"


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--seconds", type=int, default=60)
    arguments.add_argument("--clip", type=Path)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        clip = chosen.clip or made(Path(scratch) / "yard.mp4", chosen.seconds)
        frames = int(subprocess.check_output([sys.executable, "-c", DECODE, clip]))
        narrated = Path(sys.executable).with_name("narrated")
        warm_up = [narrated, "replay", clip, "--out", Path(scratch) / "warm"]
        _measured(warm_up)
        replay = _measured([narrated, "replay", clip, "--out", Path(scratch) / "out"])
        decode = _measured([sys.executable, "-c", DECODE, clip])
    print("| what | ratio of time to bare decoding | frames/s | CPU s | peak MB |\n|---|---|---|---|---|")
    for name, (wall, cpu, peak) in (("narrated replay --out", replay), ("PyAV decode only", decode)):
        print(f"| {name} | {wall / decode[0]:.2f} | {frames / wall:.0f} | {cpu:.1f} | {peak:.0f} |")
    print(f"\n{frames} frames; start of the program and loading of the model included.")


def made(path: Path, seconds: int) -> Path:
    """A 1080p clip: textured ground, one rectangle that comes and goes, one that always moves."""
    ground = np.kron(
        np.random.default_rng(1).integers(70, 120, (135, 240, 3), np.uint8), np.ones((8, 8, 1), np.uint8)
    )
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=RATE, options={"preset": "veryfast", "crf": "23"})
        stream.width, stream.height, stream.pix_fmt = 1920, 1080, "yuv420p"
        for index in range(seconds * RATE):
            image = ground.copy()
            if (index // (10 * RATE)) % 2:
                image[500:800, 900:1100] = (200, 40, 30)
            across = index * 6 % 1800
            image[820:900, across : across + 60] = (30, 60, 200)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, RATE)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path


def _measured(command: Sequence[object]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak resident megabytes of a command and what it waited for."""
    started = time.perf_counter()
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
