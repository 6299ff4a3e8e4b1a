"""A soak: months of mishaps in a quarter of an hour, and what the daemon keeps of memory, threads and files.

    python benchmarks/soak.py [--minutes 15]

Four cameras on loopback RTSP (Debian's GstRtspServer) whose streams end after 9 to 15 seconds and are
opened anew many times; every 45 s the RTSP server is killed and comes back after 3 s; every 60 s Redis
is killed, away for 5 s, and started again from its append-only file. In the end the daemon gets SIGTERM, and

* every line of the journals must verify, and the streams must hold exactly the journals' records, in order;
* of every proposed pair it must be known where it went;
* resident memory must not rise by more than 1 MB an hour after the first third: the lower bound at 95 % of
  Theil and Sen's slope of the least of each minute;
* threads and file descriptors must be where they were.

Exit code 1 where one of that fails.
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
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import av
import cv2
import numpy as np
import psutil
import redis
from prometheus_client.parser import text_string_to_metric_families
from scipy.stats import theilslopes

from pipeline.journal import read_camera
from pipeline.journal.verification import verify

CLIPS_S = (9, 11, 13, 15)
RTSP_EVERY_S, RTSP_AWAY_S = 45.0, 3.0
REDIS_EVERY_S, REDIS_AWAY_S = 60.0, 5.0
SAMPLE_EVERY_S = 2.0
SHORTEST_MIN = 2
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "car_park.webp"
SERVER = Path(__file__).with_name("file_server.py")
SYSTEM_PYTHON = "/usr/bin/python3"


@dataclass
class Sample:
    """What the process holds at one moment."""

    at_s: float
    rss_mb: float
    threads: int
    files: int


@dataclass
class Soak:
    """What is running, and what was seen."""

    folder: Path
    samples: list[Sample] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)
    rtsp_kills: int = 0
    redis_kills: int = 0
    rtsp_port: int = 0
    redis_port: int = 0
    http_port: int = 0


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def write_clip(path: Path, seconds: int) -> None:
    """A car park; two cars stand in it in the second half."""
    picture = cv2.imread(str(PICTURE))[32:297, :, ::-1]
    images = [np.ascontiguousarray(cv2.resize(p, (640, 360))) for p in (picture[:, :472], picture[:, 488:])]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=15)
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        stream.options = {"preset": "ultrafast", "g": "15"}
        for index in range(15 * seconds):
            image = images[index > 15 * seconds // 2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def start_rtsp(soak: Soak) -> subprocess.Popen[bytes]:
    clips = [str(soak.folder / f"{seconds}.mp4") for seconds in CLIPS_S]
    process = subprocess.Popen(
        [SYSTEM_PYTHON, str(SERVER), str(soak.rtsp_port), *clips],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    if not process.stdout or process.stdout.readline().strip() != b"ready":
        sys.exit("the RTSP server does not start: apt install gir1.2-gst-rtsp-server-1.0 python3-gi")
    return process


def start_redis(soak: Soak) -> subprocess.Popen[bytes]:
    options = ["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", str(soak.folder)]
    return subprocess.Popen(
        ["redis-server", "--port", str(soak.redis_port), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def start_daemon(soak: Soak) -> subprocess.Popen[bytes]:
    cameras = "".join(
        f"  camera{number}: {{url: 'rtsp://127.0.0.1:{soak.rtsp_port}/{number}'}}\n"
        for number in range(1, len(CLIPS_S) + 1)
    )
    config = soak.folder / "narrated.yaml"
    config.write_text(
        f"version: 1\nstate: {soak.folder}/state\nredis: {{url: 'redis://127.0.0.1:{soak.redis_port}'}}\n"
        f"http: {{listen: '127.0.0.1:{soak.http_port}'}}\ncaptioner: {{device: cpu}}\n"
        "defaults:\n  pairs: {lower: 20, upper: 250}\n  narrate: {cooldown: 0s, max_per_hour: null}\n"
        f"cameras:\n{cameras}"
    )
    return subprocess.Popen(
        [sys.executable, "-m", "daemon.cli", "run", "-c", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=(soak.folder / "log").open("wb"),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def ready(soak: Soak) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{soak.http_port}/healthz", timeout=5).close()
        return True
    return False


def read_counters(soak: Soak) -> dict[str, float]:
    """Sums over all cameras, by name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{soak.http_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def walk(soak: Soak, daemon: subprocess.Popen[bytes], seconds: float) -> None:
    """The mishaps, one after the other, and a look at the process every few seconds."""
    process, began = psutil.Process(daemon.pid), time.monotonic()
    rtsp, server = start_rtsp(soak), start_redis(soak)
    due = {"sample": 0.0, "rtsp": RTSP_EVERY_S, "redis": REDIS_EVERY_S}
    back: dict[str, float] = {}
    try:
        while (now := time.monotonic() - began) < seconds:
            if daemon.poll() is not None:
                sys.exit(f"the daemon ended by itself: {(soak.folder / 'log').read_text()[-2000:]}")
            if now >= due["sample"]:
                due["sample"] = now + SAMPLE_EVERY_S
                soak.counters = read_counters(soak)
                rss = process.memory_info().rss / 1e6
                soak.samples.append(Sample(now, rss, process.num_threads(), process.num_fds()))
            if now >= due["rtsp"] and "rtsp" not in back:
                end(rtsp)
                soak.rtsp_kills += 1
                due["rtsp"], back["rtsp"] = now + RTSP_EVERY_S, now + RTSP_AWAY_S
            if now >= due["redis"] and "redis" not in back:
                end(server)
                soak.redis_kills += 1
                due["redis"], back["redis"] = now + REDIS_EVERY_S, now + REDIS_AWAY_S
            if now >= back.get("rtsp", seconds):
                rtsp = start_rtsp(soak)
                del back["rtsp"]
            if now >= back.get("redis", seconds):
                server = start_redis(soak)
                del back["redis"]
            time.sleep(0.2)
        if "redis" in back:
            server = start_redis(soak)
        time.sleep(10)  # the last records reach the server
        soak.counters = read_counters(soak)
        daemon.send_signal(signal.SIGTERM)
        began_ending = time.monotonic()
        daemon.wait(30)
        soak.counters["seconds from SIGTERM to the end"] = time.monotonic() - began_ending
        soak.counters["records that are not on the stream"] = compare(soak)
    finally:
        end(rtsp)
        end(server)


def compare(soak: Soak) -> int:
    """Lines in which a journal and its stream differ."""
    differing = 0
    with redis.Redis(port=soak.redis_port, decode_responses=True) as client:
        for number in range(1, len(CLIPS_S) + 1):
            camera = f"camera{number}"
            journalled = [record.hash for record in read_camera(soak.folder / "state" / "journal", camera)]
            entries = client.xrange(f"narrated:{{{camera}}}:changes")
            streamed = [json.loads(fields["json"])["hash"] for _, fields in entries]
            differing += sum(a != b for a, b in zip(journalled, streamed, strict=False))
            differing += abs(len(journalled) - len(streamed))
    return differing


def slope(samples: list[Sample]) -> tuple[float, float, float]:
    """MB an hour over the least of each minute, with the bounds of its 95 % interval."""
    minutes: dict[int, float] = {}
    for sample in samples:
        minute = int(sample.at_s // 60)
        minutes[minute] = min(minutes.get(minute, np.inf), sample.rss_mb)
    found = theilslopes(list(minutes.values()), [minute / 60 for minute in minutes])
    return float(found.slope), float(found.low_slope), float(found.high_slope)


def judge(soak: Soak) -> tuple[dict[str, object], list[str]]:
    """The figures, and what is not as promised."""
    late = soak.samples[len(soak.samples) // 3 :]
    early, last = late[: len(late) // 4], late[-len(late) // 4 :]
    counters = soak.counters
    settled = counters.get("narrated_pairs_total", 0) + counters.get("narrated_pairs_waiting", 0)
    growth = slope(late)
    verified = verify([soak.folder / "state" / "journal"])
    threads, files = (
        [[getattr(s, what) for s in part] for part in (early, last)] for what in ("threads", "files")
    )
    figures: dict[str, object] = {
        "minutes": round(soak.samples[-1].at_s / 60, 1),
        "reconnections": counters["narrated_reconnections_total"],
        "rtsp_server_kills": soak.rtsp_kills,
        "redis_restarts": soak.redis_kills,
        "pairs": counters["narrated_pairs_proposed_total"],
        "records": verified.lines,
        "records_differing": counters["records that are not on the stream"],
        "rss_mb": [round(late[0].rss_mb, 1), round(late[-1].rss_mb, 1)],
        "rss_mb_h": [round(value, 2) for value in growth],
        "threads": [statistics.median(part) for part in threads],
        "files": [statistics.median(part) for part in files],
        "end_s": round(counters["seconds from SIGTERM to the end"], 2),
    }
    wrong = {
        "the journals do not verify": not verified.ok,
        "stream and journals differ": bool(figures["records_differing"]),
        "nothing was narrated": not verified.lines,
        "pairs are unaccounted for": settled != counters["narrated_pairs_proposed_total"],
        "memory grows": growth[1] > 1,
        "threads grow": statistics.median(threads[1]) > statistics.median(threads[0]) + 1,
        "files grow": statistics.median(files[1]) > statistics.median(files[0]) + 2,
        "it took 5 s or longer to end": counters["seconds from SIGTERM to the end"] >= 5,
    }
    return figures, [sentence for sentence, true in wrong.items() if true]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15)
    options = parser.parse_args()
    if options.minutes < SHORTEST_MIN:
        parser.error(f"--minutes {options.minutes:g}: give {SHORTEST_MIN} or more, or no slope can be told")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))  # so that nothing is left running
    for program in ("redis-server", SYSTEM_PYTHON):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing: apt install redis-server python3-gi gir1.2-gst-rtsp-server-1.0")
    with tempfile.TemporaryDirectory(prefix="narrated-soak-") as folder:
        soak = Soak(Path(folder))
        soak.rtsp_port, soak.redis_port, soak.http_port = free_port(), free_port(), free_port()
        for seconds in CLIPS_S:
            write_clip(soak.folder / f"{seconds}.mp4", seconds)
        daemon = start_daemon(soak)
        try:
            until = time.monotonic() + 180
            while not ready(soak):
                if daemon.poll() is not None or time.monotonic() > until:
                    sys.exit(f"the daemon does not start: {(soak.folder / 'log').read_text()[-2000:]}")
                time.sleep(0.5)
            walk(soak, daemon, 60 * options.minutes)
        finally:
            end(daemon)
        figures, wrong = judge(soak)
    for name, value in figures.items():
        print(f"{name:<20} {value}")
    for sentence in wrong:
        print(f"NOT AS PROMISED: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
