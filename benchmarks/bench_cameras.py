"""What live cameras cost: share of a core, memory, time to READY, and how late a narration comes.

    python benchmarks/bench_cameras.py [--cameras 1,4,8] [--sample 2/s,5/s] [--seconds 60]
        [--repeats 3] [--clip FILE] [--calm] [--idle-keyframes]

Real footage is coded anew as 1920x1080, 15 frames a second, 2 Mbit/s, a keyframe every two seconds, and
played by an RTSP server on the loopback interface (Debian's GstRtspServer). The peers are Motion, with
detection on and nothing written, and the floor: PyAV decoding every frame of the same streams in as many
threads. Each is measured `--repeats` times for `--seconds`, after `--settle` seconds of warming up; the
tables give medians and ranges. Lateness is from a sentence's own time by the camera's clock (RTCP) to the
arrival of its record at a subscriber of the Redis stream: an entrance is decided a second after it, a
departure a second and a half.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import av
import numpy as np
import redis
import yaml
from embedded_redis import EmbeddedServer
from rtsp_camera import RtspServer, no_gstreamer

from pipeline.tracking.tracks import DEPARTURES, ENTRANCES

CLIP = Path(__file__).parents[2] / "shared" / "data" / "clips" / "opencv_vtest.avi"
RATE, WIDTH, HEIGHT, CODED_S, PLAYED_S = 15, 1920, 1080, 40, 900
TICKS = os.sysconf("SC_CLK_TCK")
FLOOR = """
import av, sys, threading
def read(url):
    with av.open(url, options={"rtsp_transport": "tcp"}) as container:
        container.streams.video[0].codec_context.thread_count = 1
        for _ in container.decode(video=0): pass
for url in sys.argv[1:]: threading.Thread(target=read, args=(url,)).start()
"""


class Cost(NamedTuple):
    """Cores used in each repetition, and resident memory in MB at the end of each."""

    name: str
    cores: list[float]
    memory_mb: list[float]


Lateness = dict[str, list[float]]
"""Seconds from an event to its record, by kind of event."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cameras", default="1,4,8")
    parser.add_argument("--sample", default="2/s,5/s", help="detection rates")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--settle", type=float, default=90)
    parser.add_argument("--clip", type=Path, default=CLIP)
    parser.add_argument("--calm", action="store_true", help="the first picture, with sensor noise only")
    parser.add_argument("--idle-keyframes", action="store_true", help="with `rtsp: {idle_keyframes: true}`")
    chosen = parser.parse_args()
    if not chosen.clip.exists():
        print(f"skipped: {chosen.clip.name} is not beside the checkout; give --clip FILE")
        return
    with tempfile.TemporaryDirectory() as scratch:
        film = coded(chosen.clip, Path(scratch) / "film.mp4", calm=chosen.calm)
        print("| cameras | what | % of a core per camera | ratio to decoding | MB | load |")
        print("|---|---|---|---|---|---|")
        late: dict[tuple[int, str], tuple[float, Lateness]] = {}
        for number in map(int, chosen.cameras.split(",")):
            with served(film, number) as urls:
                folder = Path(scratch) / str(number)
                folder.mkdir()
                floor = decoding(urls, chosen)
                show(number, floor, floor)
                for row in motion(urls, folder, chosen):
                    show(number, row, floor)
                for rate in chosen.sample.split(","):
                    own = folder / rate.replace("/", "_")
                    cost, ready_s, lateness = narrated(urls, own, rate, chosen)
                    late[number, rate] = ready_s, lateness
                    show(number, cost, floor)
    print("\n| cameras | rate | start to READY | what | records | event to subscriber p50 | p95 | p99 |")
    print("|---|---|---|---|---|---|---|---|")
    for (number, rate), (ready_s, each) in late.items():
        for what, values in each.items():
            shown = " | ".join(f"{q:.2f} s" for q in np.percentile(values, [50, 95, 99]))
            print(f"| {number} | {rate} | {ready_s:.1f} s | {what} | {len(values)} | {shown} |")


def show(number: int, row: Cost, floor: Cost) -> None:
    """Print a row: median and range of the repetitions."""
    cores = [100 * each / number for each in row.cores]
    ratio = statistics.median(row.cores) / statistics.median(floor.cores)
    print(
        f"| {number} | {row.name} | {statistics.median(cores):.1f} ({min(cores):.1f} to {max(cores):.1f}) "
        f"| {ratio:.2f} | {statistics.median(row.memory_mb):.0f} | {os.getloadavg()[0]:.1f} |",
        flush=True,
    )


def coded(clip: Path, film: Path, *, calm: bool) -> Path:
    """The clip as a camera would send it, over and over, as MP4."""
    with av.open(str(clip)) as source, av.open(str(film), "w") as out:
        options = {"preset": "veryfast", "g": str(2 * RATE), "bf": "0", "maxrate": "2M", "bufsize": "2M"}
        stream = out.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = WIDTH, HEIGHT, "yuv420p", 2_000_000
        packets: list[tuple[bytes, bool]] = []
        frames = source.decode(video=0)
        shown = noisy(next(frames)) if calm else frames
        for index, frame in enumerate(islice(shown, CODED_S * RATE)):
            picture = frame.reformat(WIDTH, HEIGHT, "yuv420p")
            picture.pts, picture.time_base = index, Fraction(1, RATE)
            packets += [(bytes(p), p.is_keyframe) for p in stream.encode(picture)]
        packets += [(bytes(p), p.is_keyframe) for p in stream.encode(None)]
        for index in range(PLAYED_S * RATE):
            payload, keyframe = packets[index % len(packets)]
            packet = av.Packet(payload)
            packet.pts = packet.dts = index
            packet.time_base, packet.stream, packet.is_keyframe = Fraction(1, RATE), stream, keyframe
            out.mux(packet)
    return film


def noisy(frame: av.VideoFrame) -> Iterator[av.VideoFrame]:
    """The same picture for ever, with the noise of a sensor."""
    picture, rng = frame.to_ndarray(format="rgb24").astype(np.int16), np.random.default_rng(1)
    noise = [rng.normal(0, 2, picture.shape).round().astype(np.int16) for _ in range(8)]
    for each in cycle(noise):
        yield av.VideoFrame.from_ndarray(np.clip(picture + each, 0, 255).astype(np.uint8), format="rgb24")


@contextmanager
def served(film: Path, number: int) -> Iterator[list[str]]:
    """The film as so many cameras."""
    if reason := no_gstreamer():
        sys.exit(reason)
    server = RtspServer(films=[film] * number)
    try:
        yield [server.url(str(k)) for k in range(1, number + 1)]
    finally:
        server.kill()


def decoding(urls: Sequence[str], chosen: argparse.Namespace) -> Cost:
    with running([sys.executable, "-c", FLOOR, *urls]) as process:
        return Cost("PyAV, decode only", *measured(process, chosen))


def motion(urls: Sequence[str], folder: Path, chosen: argparse.Namespace) -> list[Cost]:
    """Motion, where it is installed."""
    program = shutil.which("motion")
    if program is None:
        return []
    common = "daemon off\nwebcontrol_port 0\nstream_port 0\nlog_level 4\n"
    for number, url in enumerate(urls, start=1):
        (folder / f"{number}.conf").write_text(
            f"camera_id {number}\nnetcam_url {url}\nwidth {WIDTH}\nheight {HEIGHT}\nframerate {RATE}\n"
            f"movie_output off\npicture_output off\ntarget_dir {folder}\nstream_port 0\n"
        )
        common += f"camera {folder / f'{number}.conf'}\n"
    (folder / "motion.conf").write_text(common)
    with running([program, "-n", "-c", str(folder / "motion.conf")]) as process:
        return [Cost("Motion", *measured(process, chosen))]


def narrated(
    urls: Sequence[str], folder: Path, rate: str, chosen: argparse.Namespace
) -> tuple[Cost, float, Lateness]:
    """`narrated run`; what it costs, seconds from start to READY, and how late its records came."""
    folder.mkdir()
    with EmbeddedServer() as server, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(str(folder / "notify"))
        notices.settimeout(120)
        settings = {
            "version": 1,
            "state": str(folder / "state"),
            "redis": {"url": server.url},
            "defaults": {"rtsp": {"idle_keyframes": chosen.idle_keyframes}, "pairs": {"sample": rate}},
            "cameras": {f"camera_{k}": {"url": url} for k, url in enumerate(urls, start=1)},
        }
        (folder / "narrated.yaml").write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-m", "daemon.cli", "run", "-c", str(folder / "narrated.yaml")]
        began = time.monotonic()
        environment = {**os.environ, "NOTIFY_SOCKET": str(folder / "notify")}
        with running(command, environment) as process:
            while b"READY=1" not in notices.recv(4096):
                pass
            ready_s = time.monotonic() - began
            late: Lateness = {}
            stop = threading.Event()
            listener = threading.Thread(target=listen, args=(server.url, len(urls), late, stop))
            listener.start()
            cost = Cost(f"narrated, {rate}", *measured(process, chosen, late.clear))
            stop.set()
            listener.join()
        return cost, ready_s, late


def listen(url: str, cameras: int, late: Lateness, stop: threading.Event) -> None:
    """Note how long after its event each record arrives."""
    client = redis.Redis.from_url(url, decode_responses=True)
    newest = {f"narrated:{{camera_{k}}}:changes": "$" for k in range(1, cameras + 1)}
    while not stop.is_set():
        for key, entries in client.xread(newest, block=200) or []:  # type: ignore[union-attr]
            now = datetime.now(UTC)
            for name, fields in entries:
                newest[key] = name
                record = json.loads(fields["json"])
                for sentence in record["sentences"][: record.get("held") != "lost"]:
                    when = datetime.fromisoformat(sentence.get("time") or record["after"]["time"])
                    action = sentence.get("action", "")
                    kind = (
                        "arrivals"
                        if action in ENTRANCES
                        else "departures"
                        if action in DEPARTURES
                        else "others"
                    )
                    late.setdefault(kind, []).append((now - when).total_seconds())


@contextmanager
def running(
    command: Sequence[str], environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program, silent, ended at the end."""
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def measured(
    process: subprocess.Popen[bytes], chosen: argparse.Namespace, settled: Callable[[], None] = lambda: None
) -> tuple[list[float], list[float]]:
    """Cores used over each `--seconds` after `--settle` seconds, and resident memory in MB at the end.

    A camera that was never seen before is calibrated in its first minute: `--settle` leaves that behind.
    """
    time.sleep(chosen.settle)
    settled()
    cores, memory_mb = [], []
    for _ in range(chosen.repeats):
        before, began = cpu_s(process.pid), time.monotonic()
        time.sleep(chosen.seconds)
        cores.append((cpu_s(process.pid) - before) / (time.monotonic() - began))
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        memory_mb.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
    return cores, memory_mb


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    main()
