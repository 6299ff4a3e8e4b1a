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
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import av
import cv2
import numpy as np
import psutil
import redis
from embedded_redis import EmbeddedServer
from rtsp_camera import RtspServer, no_gstreamer
from running_daemon import metrics, page, unused_port
from scipy.stats import theilslopes

from pipeline.journal import read_camera
from pipeline.journal.verification import verify

CLIPS_S = (9, 11, 13, 15)
RTSP_EVERY_S, RTSP_AWAY_S = 45.0, 3.0
REDIS_EVERY_S, REDIS_AWAY_S = 60.0, 5.0
SAMPLE_EVERY_S = 2.0
SHORTEST_MIN = 2
OK = 200
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "car_park.webp"


class Sample(NamedTuple):
    """What the process holds at one moment."""

    at_s: float
    rss_mb: float
    threads: int
    files: int


@dataclass
class Soak:
    """What is running, and what was seen."""

    folder: Path
    redis: EmbeddedServer
    samples: list[Sample] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    rtsp_kills: int = 0
    redis_kills: int = 0
    rtsp_port: int = field(default_factory=unused_port)
    http_port: int = field(default_factory=unused_port)


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


def start_daemon(soak: Soak) -> subprocess.Popen[bytes]:
    cameras = "".join(
        f"  camera{number}: {{url: 'rtsp://127.0.0.1:{soak.rtsp_port}/{number}'}}\n"
        for number in range(1, len(CLIPS_S) + 1)
    )
    config = soak.folder / "narrated.yaml"
    config.write_text(
        f"version: 1\nstate: {soak.folder}/state\nredis: {{url: '{soak.redis.url}'}}\n"
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


def read_counters(soak: Soak) -> Counter[str]:
    sums = Counter[str]()
    for (name, *_), value in metrics(soak.http_port).items():
        sums[name] += value
    return sums


def walk(soak: Soak, daemon: subprocess.Popen[bytes], seconds: float) -> None:
    """The mishaps, one after the other, and a look at the process every few seconds."""
    process, began = psutil.Process(daemon.pid), time.monotonic()
    rtsp = RtspServer(films=[soak.folder / f"{seconds}.mp4" for seconds in CLIPS_S], port=soak.rtsp_port)
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
                rtsp.kill()
                soak.rtsp_kills += 1
                due["rtsp"], back["rtsp"] = now + RTSP_EVERY_S, now + RTSP_AWAY_S
            if now >= due["redis"] and "redis" not in back:
                soak.redis.stop(signal.SIGKILL)
                soak.redis_kills += 1
                due["redis"], back["redis"] = now + REDIS_EVERY_S, now + REDIS_AWAY_S
            if now >= back.get("rtsp", seconds):
                rtsp.start()
                del back["rtsp"]
            if now >= back.get("redis", seconds):
                soak.redis.start()
                del back["redis"]
            time.sleep(0.2)
        if "redis" in back:
            soak.redis.start()
        time.sleep(10)  # the last records reach the server
        soak.counters = read_counters(soak)
        daemon.send_signal(signal.SIGTERM)
        began_ending = time.monotonic()
        daemon.wait(30)
        soak.counters["seconds from SIGTERM to the end"] = time.monotonic() - began_ending
        soak.counters["records that are not on the stream"] = compare(soak)
    finally:
        rtsp.kill()


def compare(soak: Soak) -> int:
    """Lines in which a journal and its stream differ."""
    differing = 0
    with redis.Redis.from_url(soak.redis.url, decode_responses=True) as client:
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
    settled = counters["pairs_total"] + counters["pairs_waiting"]
    growth = slope(late)
    verified = verify([soak.folder / "state" / "journal"])
    threads, files = (
        [[getattr(s, what) for s in part] for part in (early, last)] for what in ("threads", "files")
    )
    figures: dict[str, object] = {
        "minutes": round(soak.samples[-1].at_s / 60, 1),
        "reconnections": counters["reconnections_total"],
        "rtsp_server_kills": soak.rtsp_kills,
        "redis_restarts": soak.redis_kills,
        "pairs": counters["pairs_proposed_total"],
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
        "pairs are unaccounted for": settled != counters["pairs_proposed_total"],
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
    if reason := no_gstreamer():
        sys.exit(reason)
    kept = {"appendonly": "yes", "appendfsync": "always"}
    with (
        tempfile.TemporaryDirectory(prefix="narrated-soak-") as folder,
        EmbeddedServer(settings=kept) as server,
    ):
        soak = Soak(Path(folder), server)
        for seconds in CLIPS_S:
            write_clip(soak.folder / f"{seconds}.mp4", seconds)
        daemon = start_daemon(soak)
        try:
            until = time.monotonic() + 180
            while page(soak.http_port, "/healthz")[0] != OK:
                if daemon.poll() is not None or time.monotonic() > until:
                    sys.exit(f"the daemon does not start: {(soak.folder / 'log').read_text()[-2000:]}")
                time.sleep(0.5)
            walk(soak, daemon, 60 * options.minutes)
        finally:
            daemon.kill()
            daemon.communicate()
        figures, wrong = judge(soak)
    for name, value in figures.items():
        print(f"{name:<20} {value}")
    for sentence in wrong:
        print(f"NOT AS PROMISED: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
