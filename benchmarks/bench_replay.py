"""Replay of a 1080p file through the whole program: time, processor and memory, beside its peers.

    python benchmarks/bench_replay.py [--seconds 60] [--clip FILE] [--fast] [--dvr-scan COMMAND]

Without --clip real footage in which somebody always moves is coded as 1080p30. The peers are DVR-Scan, if its
command is there (`pip install dvr-scan opencv-python-headless` in an environment of its own), scanning only,
and the floor: decoding the same file with PyAV and doing nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av

CLIP = Path(__file__).parents[2] / "shared" / "data" / "clips" / "opencv_vtest.avi"
RATE, SHOWN = 30, 3  # frames a second; how often each of the clip's ten a second is shown
DECODE = "import av, sys\nwith av.open(sys.argv[1]) as c:\n    print(sum(1 for _ in c.decode(video=0)))"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=60)
    arguments.add_argument("--clip", type=Path, help="measure this file as it is")
    arguments.add_argument("--fast", action="store_true", help="`replay --fast` as well")
    arguments.add_argument("--dvr-scan", default=shutil.which("dvr-scan"))
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        clip = chosen.clip.resolve() if chosen.clip else coded(folder / "busy.mp4", chosen.seconds)
        frames = int(subprocess.check_output([sys.executable, "-c", DECODE, clip]))
        replay = [Path(sys.executable).with_name("narrated"), "replay", clip, "--out"]
        _measured([*replay, folder / "warm"], folder)
        peers: dict[str, list[object]] = {"narrated replay --out": [*replay, folder / "out"]}
        if chosen.fast:
            peers["narrated replay --out --fast"] = [*replay, folder / "fast", "--fast"]
        if chosen.dvr_scan:
            peers["DVR-Scan"] = [chosen.dvr_scan, "-i", clip, "--scan-only", "--quiet"]
        peers["PyAV decode only"] = [sys.executable, "-c", DECODE, clip]
        costs = {name: _measured(command, folder) for name, command in peers.items()}
        told = [f"{n.name}: {_lines(n / 'narrations.jsonl')}" for n in (folder / "out", folder / "fast")]
    peer = costs.get("DVR-Scan", costs["PyAV decode only"])
    print(f"| what | times as fast as {'DVR-Scan' if chosen.dvr_scan else 'decoding'} | frames/s ", end="")
    print("| wall s | processor s | peak MB |\n|---|---|---|---|---|---|")
    for name, (wall, cpu, peak) in costs.items():
        figures = f"{peer[0] / wall:.2f} | {frames / wall:.0f} | {wall:.1f} | {cpu:.1f} | {peak:.0f}"
        print(f"| {name} | {figures} |")
    print(f"\n{frames} frames; start of the program and loading of the model included. Lines told: {told}")


def coded(film: Path, seconds: int) -> Path:
    """The clip over and over as 1080p30 H.264, a keyframe every two seconds."""
    with av.open(str(film), "w") as out:
        options = {"preset": "veryfast", "g": str(2 * RATE), "crf": "23"}
        stream = out.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = 1920, 1080, "yuv420p"
        index = 0
        while index < seconds * RATE:
            with av.open(str(CLIP)) as source:
                for frame in islice(source.decode(video=0), (seconds * RATE - index) // SHOWN):
                    for _ in range(SHOWN):
                        picture = frame.reformat(stream.width, stream.height, "yuv420p")
                        picture.pts, picture.time_base = index, Fraction(1, RATE)
                        out.mux(stream.encode(picture))
                        index += 1
        out.mux(stream.encode(None))
    return film


def _lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


def _measured(command: Sequence[object], folder: Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak resident megabytes of a command and what it waited for."""
    started = time.perf_counter()
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, cwd=folder) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
