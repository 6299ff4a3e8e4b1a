"""What a camera costs, and how soon it is back.

    python benchmarks/bench_ingest.py [--no-faults] [--no-cost]

Cost: a clip is coded as 1080p15 H.264 at 2 Mbit/s with a keyframe every two seconds, as cameras send it, and
its packets go through the very path of a live camera (decode, sample at 2/s, plane), all of them and
keyframes only; CPU time over footage time is the share of a core. Screened: a scene in which nothing moves,
with a sensor's noise, comes over RTSP as 1080p15 at 2 Mbit/s and as 640x360 at 0.3 Mbit/s; receiving counts
as well here, and the whole process is measured. Faults: GStreamer's server (tests/pipeline)
is killed and started again after some absences, and frozen; times are to the next frame, settings as shipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import av
import numpy as np

from pipeline.sources import CameraState, Source, SourceOptions, open_source
from pipeline.sources.counts import Counts
from pipeline.sources.decode import IntactFrames, video_stream
from pipeline.sources.idle import IdleGate
from pipeline.sources.picture import View
from pipeline.sources.rtsp import RtspSource
from pipeline.sources.substream import Screen, ScreenedGate, ScreenedSource
from pipeline.sources.times import EPOCH, LiveSampler

ROOT = Path(__file__).resolve().parents[1]
SERVER = Path(__file__).with_name("file_server.py")
CLIP = ROOT.parent / "shared" / "data" / "clips" / "intel_one-by-one-person-detection.mp4"
SECONDS, RATE = 20, 15


def coded(path: Path, *, still: bool) -> Path:
    """A 1080p15 clip of the scene, or of its first picture alone."""
    with av.open(str(CLIP)) as source, av.open(str(path), "w") as sink:
        stream = sink.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 1920, 1080, "yuv420p"
        stream.options = {"preset": "veryfast", "g": str(2 * RATE), "b": "2M", "bf": "0"}
        first = None
        for index, frame in enumerate(source.decode(video=0)):
            if index >= SECONDS * RATE:
                break
            first = first or frame.reformat(1920, 1080, "yuv420p")
            shown = first if still else frame.reformat(1920, 1080, "yuv420p")
            shown.pts, shown.time_base = index, Fraction(1, RATE)
            sink.mux(stream.encode(shown))
        sink.mux(stream.encode(None))
    return path


def core_share(path: Path, *, idle: bool) -> float:
    """CPU time over footage time of one camera's reading thread, in percent of a core."""
    options = SourceOptions()
    view, sound, sampler = View(options), IntactFrames(Counts()), LiveSampler(options.sample_hz)
    gate = IdleGate(0.0, 0.0)
    with closing(av.open(str(path))) as container:
        stream = video_stream(container, 1)
        packets = [packet for packet in container.demux(stream) if packet.size]
        began = time.thread_time()
        for packet in packets:
            if idle:
                gate.idle = True
            for due, _ in gate.due(packet, EPOCH):
                for frame in gate.decode(due, sound):
                    if sampler.takes(frame.pts, frame.time_base, 0):
                        view.of_frame(frame)
        return 100 * (time.thread_time() - began) / (len(packets) / RATE)


def cost() -> None:
    """Print the share of a core with everything decoded and with keyframes only."""
    with tempfile.TemporaryDirectory() as folder:
        for still in (False, True):
            path = coded(Path(folder) / "clip.mp4", still=still)
            mbit = 8e-6 * path.stat().st_size / SECONDS
            every, keys = (min(core_share(path, idle=idle) for _ in range(3)) for idle in (False, True))
            name = "nothing moves" if still else "people walk"
            print(f"{name}, {mbit:.1f} Mbit/s: {every:.1f} % of a core, keyframes only {keys:.2f} %")


def noisy(path: Path, size: tuple[int, int], rate: str) -> Path:
    """A minute of the clip's first picture at 15 frames a second, with noise that is never the same."""
    with av.open(str(CLIP)) as source:
        picture = next(source.decode(video=0)).reformat(*size, "gray").to_ndarray()
    random = np.random.default_rng(0)
    noise = random.normal(0, 3, (2 * size[1], 2 * size[0]))
    with av.open(str(path), "w") as sink:
        stream = sink.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.options = {
            "preset": "veryfast",
            "g": str(2 * RATE),
            "b": rate,
            "maxrate": rate,
            "bufsize": rate,
        }
        stream.options |= {"bf": "0"}
        for index in range(60 * RATE):
            row, column = random.integers(0, size[1]), random.integers(0, size[0])
            plane = picture + noise[row : row + size[1], column : column + size[0]]
            shown = av.VideoFrame.from_ndarray(plane.clip(0, 255).astype(np.uint8), format="gray")
            shown.pts, shown.time_base = index, Fraction(1, RATE)
            sink.mux(stream.encode(shown.reformat(format="yuv420p")))
        sink.mux(stream.encode(None))
    return path


@contextmanager
def played(*paths: Path) -> Iterator[list[str]]:
    """URLs at which files are played in real time."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["/usr/bin/python3", str(SERVER), str(port), *map(str, paths)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        if server.stdout is None or server.stdout.readline().strip() != "ready":
            raise RuntimeError("the server does not start (apt install gir1.2-gst-rtsp-server-1.0)")
        yield [f"rtsp://127.0.0.1:{port}/{number}" for number in range(1, len(paths) + 1)]
    finally:
        server.kill()
        server.wait()


def screened() -> None:
    """Print the share of a core of one camera over RTSP in which nothing moves, by what is decoded of it."""
    options = SourceOptions()
    with tempfile.TemporaryDirectory() as folder:
        large = noisy(Path(folder) / "large.mp4", (1920, 1080), "2M")
        small = noisy(Path(folder) / "small.mp4", (640, 360), "300k")
        mbits = [8e-6 * path.stat().st_size / 60 for path in (large, small)]
        load = os.getloadavg()[0]
        print(f"nothing moves, over RTSP, {mbits[0]:.1f} and {mbits[1]:.2f} Mbit/s, load {load:.0f}")
        for name in ("everything", "keyframes only", "the sub-stream"):
            with played(large, small) as (url, sub_url):
                gate: IdleGate | None = None if name == "everything" else IdleGate(1.0, 0.0)
                source: RtspSource = RtspSource(url, options, "yard", gate=gate)
                if name == "the sub-stream":
                    held = ScreenedGate(Screen.of(sub_url, options, "yard"), still_s=1.0, first_s=0.0)
                    gate, source = held, ScreenedSource(url, options, "yard", held)
                with source:
                    reader = Reader(source)
                    reader.next_frame()
                    if gate:
                        reader.until(lambda gate=gate: gate.idle)
                    time.sleep(5)
                    began, decoded = time.process_time(), source.report.decoded
                    time.sleep(30)
                    share = 100 * (time.process_time() - began) / 30
                    print(f"  decoded {name}: {share:.2f} % of a core,", end=" ")
                    print(f"{(source.report.decoded - decoded) / 30:.1f} frames/s of the main stream")


def loaded(name: str) -> ModuleType:
    """A file of the tests as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tests" / "pipeline" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Reader:
    """Reads a source in a thread, and knows when the newest frame came."""

    def __init__(self, source: Source) -> None:
        self.count, self.source = 0, source
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for _ in self.source:
            self.count += 1

    def until(self, condition: Callable[[], bool]) -> float:
        """Seconds until a condition holds."""
        began = time.monotonic()
        while not condition():
            time.sleep(0.005)
        return time.monotonic() - began

    def next_frame(self) -> float:
        """Seconds until the next frame."""
        before = self.count
        return self.until(lambda: self.count > before)


def faults() -> None:
    """Print times to the next frame after the server's return, and until a stall is noticed."""
    server = loaded("conftest").RtspServer()
    with open_source(server.url(), SourceOptions(sample_hz=15), "yard") as source:
        reader = Reader(source)
        print(f"first frame after {reader.next_frame():.2f} s")
        for away_s in (0.5, 2.0, 5.0, 20.0):
            back = []
            for _ in range(1 if away_s > 5 else 3):
                server.kill()
                time.sleep(away_s)
                server.start()
                back.append(reader.next_frame())
                time.sleep(6)
            print(f"away for {away_s:g} s: next frame {statistics.median(back):.2f} s after its return")
        server.freeze()
        shown = reader.until(lambda: source.report.state is CameraState.STALLED)
        given_up = shown + reader.until(lambda: source.report.state is CameraState.BACKING_OFF)
        server.thaw()
        print(f"frozen: shown as stalled after {shown:.1f} s, given up after {given_up:.1f} s,", end=" ")
        print(f"next frame {reader.next_frame():.2f} s after it moves again")
    server.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--no-cost", action="store_true")
    arguments = parser.parse_args()
    if not arguments.no_cost:
        cost()
        screened()
    if not arguments.no_faults:
        faults()
