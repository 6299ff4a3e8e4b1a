"""Frames per second, and peak memory, of reading a 1080p file through `open_source`.

Usage: python benchmarks/bench_replay_decode.py [FILE] [--threads N]; without a file a minute of moving
picture is made with libx264 in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import av
import numpy as np

from pipeline.sources import SourceOptions, open_source

SECONDS, RATE = 60, 15


def make_clip(path: Path) -> None:
    """A still scene with sensor noise in which a block moves: 1080p15 at about 2 Mbit/s."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0:1080, 0:1920]
    scene = np.stack([columns * 255 // 1920, rows * 255 // 1080, (rows ^ columns) & 255], axis=-1).astype(
        np.uint8
    )
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 1920, 1080, "yuv420p", 2_000_000
        stream.options = {"preset": "veryfast", "g": "60"}
        for index in range(SECONDS * RATE):
            picture = scene.copy()
            x = index * 3 % 1800
            picture[500:700, x : x + 100] = rng.integers(0, 255, (200, 100, 3), dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


def read(path: str, threads: int) -> dict[str, float]:
    """Read the file once; a tenth of the sampled frames is converted to RGB, as pairs would."""
    started, cpu = time.perf_counter(), time.process_time()
    with open_source(path, SourceOptions(threads=threads)) as source:
        for index, frame in enumerate(source):
            if index % 10 == 0:
                frame.image.sum()
        report, length_s = source.report, source.duration_s or 0.0
    wall = time.perf_counter() - started
    return {
        "decoded": report.decoded,
        "fps": round(report.decoded / wall, 1),
        "fps_per_core": round(report.decoded / (time.process_time() - cpu), 1),
        "times_real_time": round(length_s / wall, 1),
        "peak_rss_mib": peak_rss_mib(),
    }


def peak_rss_mib() -> float:
    """Peak of this program; ru_maxrss would count the parent's, which a forked child inherits."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.partition("VmHWM:")[2].split()[0]) / 1024, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.file:
        print(json.dumps(read(arguments.file, arguments.threads)))
        return
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "1080p.mp4"
        make_clip(clip)
        # In a process of its own: the peak memory of the encoder must not count.
        command = [sys.executable, __file__, str(clip), "--threads", str(arguments.threads)]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


if __name__ == "__main__":
    main()
