"""How fast a backlog drains to Redis, and is collected elsewhere: `python benchmarks/bench_publish.py`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import redis
from embedded_redis import EmbeddedServer, find_servers
from narrations import narration

from daemon.collect.collector import Collector, PictureFetcher
from pipeline.evidence import EvidenceStore
from pipeline.journal import DAILY, Journal
from pipeline.publisher import Delivery, RedisServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--batch", type=int, default=512)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        with Journal(Path(folder), "yard", fsync=False, limits=DAILY) as journal:
            for second in range(options.records):
                journal.append(narration(second))
            size = journal.size / options.records
        took_s = time.perf_counter() - began
        print(f"appended {options.records / took_s:,.0f} records/s of {size:.0f} bytes, without fsync")
        for program in find_servers():
            with EmbeddedServer(program) as server:
                drained(Path(folder), server, options)
                collected(Path(folder), server, options.records)
            (Path(folder) / "yard.published").unlink()


def drained(folder: Path, server: EmbeddedServer, options: argparse.Namespace) -> None:
    with Journal(folder, "yard", fsync=False) as journal:
        delivery = Delivery(journal, RedisServer(server.url), batch=options.batch)
        began, cpu, theirs = time.perf_counter(), time.process_time(), _cpu_s(server)
        total = 0
        while journal.published.seq < options.records:
            total += delivery.drain(threading.Event())
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        theirs_s = _cpu_s(server) - theirs
    if total != options.records:
        sys.exit(f"{total} of {options.records} records were published")
    load = os.getloadavg()[0]
    print(
        f"{server.program.name:14s} {total / wall_s:8,.0f} records/s by the clock (load {load:.1f}), "
        f"{total / (cpu_s + theirs_s):8,.0f} records/s of processor time, "
        f"ours {1e6 * cpu_s / total:.0f} us + the server's {1e6 * theirs_s / total:.0f} us each"
    )


def collected(folder: Path, server: EmbeddedServer, records: int) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as copy:
        connection = RedisServer(lambda: server.url, 5.0)
        pictures = PictureFetcher(EvidenceStore(Path(copy) / "evidence"), [])
        collector = Collector(Path(copy), connection, pictures.want, None)
        began, cpu = time.perf_counter(), time.process_time()
        collector.run(threading.Event(), lambda: None, once=True)
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        connection.close()
        same = [path.read_bytes() for path in sorted(Path(copy).glob("*.jsonl"))] == [
            path.read_bytes() for path in sorted(folder.glob("*.jsonl"))
        ]
    if not same or collector.records != records:
        sys.exit(f"{collector.records} of {records} records were collected, the same: {same}")
    print(
        f"{'':14s} collected: {records / wall_s:,.0f} records/s by the clock, each on disk, "
        f"{records / cpu_s:,.0f} of processor time"
    )


def _cpu_s(server: EmbeddedServer) -> float:
    with redis.Redis.from_url(server.url) as client:
        facts = client.info("cpu")
    return float(facts["used_cpu_sys"] + facts["used_cpu_user"])


if __name__ == "__main__":
    main()
