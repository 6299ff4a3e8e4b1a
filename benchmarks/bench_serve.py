"""How long the pages of `narrated serve` take: a hundred thousand records a day.

    python benchmarks/bench_serve.py [--records 100000] [--days 1] [--folder DIR] [--clients 8]

Writes the journals of `bench_query.py` within so many days, serves them by the command itself, in a process
of its own, and asks: the first view after the start, then each page ten times, of which median and worst are
told with the server's own processor time a request; then several people at once. Without pictures.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bench_query
import httpx
import psutil

TIMES = 10
PAGES = {
    "live": "/",
    "a day": "/review?day=2026-05-01",
    "a day of one camera": "/review?day=2026-05-01&camera=yard",
    "a day, page 100": "/review?day=2026-05-01&page=100",
    "people at the entrance that day": "/review?day=2026-05-01&object=person&zone=entrance",
    "a word, all days": "/review?day=all&text=parked",
    "when did a person last come to the entrance": "/review?q=when+did+a+person+last+come+to+the+entrance",
    "how many cars by camera": "/review?q=how+many+cars+by+camera",
}


def get(url: str) -> tuple[float, str]:
    start = time.perf_counter()
    page = httpx.get(url, headers={"accept": "text/html"}, trust_env=False, timeout=600).text
    return time.perf_counter() - start, page


def cpu(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return spent.user + spent.system


def start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "daemon.cli", "serve", "--journal", str(folder)]
    command += ["--listen", "127.0.0.1:0", "--timezone", "UTC"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    address = re.search(r"http://[^/]+", process.stderr.readline() if process.stderr else "")
    if address is None:
        raise SystemExit("the server did not start")
    return process, address[0]


def told(name: str, seconds: list[float], spent: float) -> None:
    median, worst = 1000 * statistics.median(seconds), 1000 * max(seconds)
    print(f"| {name} | {median:.0f} | {worst:.0f} | {1000 * spent / len(seconds):.0f} |", flush=True)


def measure(folder: Path, clients: int) -> None:
    process, address = start(folder)
    process.terminate()
    process.wait()
    process, address = start(folder)
    watched = psutil.Process(process.pid)
    try:
        print("| page | median, ms | worst, ms | processor time of the server, ms |\n|---|---:|---:|---:|")
        before = cpu(watched)
        first, page = get(address + PAGES["a day"])
        told("the first view", [first], cpu(watched) - before)
        pages = PAGES | {"one record": re.findall(r'href="(/record/[^"?]+)', page)[20]}
        for name, path in pages.items():
            before = cpu(watched)
            told(name, [get(address + path)[0] for _ in range(TIMES)], cpu(watched) - before)
        before = cpu(watched)
        with ThreadPoolExecutor(clients) as people:
            asked = [address + path for path in pages.values()] * clients
            seconds = [s for s, _ in people.map(get, asked)]
            told(f"{clients} people at once, all pages", seconds, cpu(watched) - before)
        print(f"\n{watched.memory_info().rss / 2**20:.0f} MiB.")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        folder = given.folder or Path(own)
        if not any(folder.glob("*.jsonl")):
            folder.mkdir(parents=True, exist_ok=True)
            bench_query.write(folder, given.records, given.days)
        os.environ["STATE_DIRECTORY"] = own
        print(f"{given.records:,} records\n")
        measure(folder, given.clients)


if __name__ == "__main__":
    main()
