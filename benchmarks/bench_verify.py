"""How long `narrated verify` takes: a million records in a signed chain, and evidence by the gigabyte.

    python benchmarks/bench_verify.py [--records 1000000] [--folder DIR]

Writes a journal of records as a camera makes them (three sentences, evidence named, latencies) in segments of
a hundred thousand, a signature every 150 records, and has the command verify it on one processor and on all:
the time of the clock, which depends on what else the machine does, and that of all processors. The pictures
are measured apart: three to a record, 100 kB each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.evidence import EvidenceStore
from pipeline.journal.signatures import SigningKey, new_key
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration
from pipeline.record import ChainEnd, Evidence, build_record, format_time
from pipeline.sources import Clock

SEGMENT = 100_000
SIGNED = 150
PICTURES = 600
PICTURE_BYTES = 100_000
START = datetime(2026, 5, 1, tzinfo=UTC)
FIRST = ChainEnd()


class Camera:
    """Tells something every four seconds; its lines are made faster than by `build_record`, which checks."""

    def __init__(self) -> None:
        told = (("A car has appeared.", "appeared", "car"), ("Two people are gone.", "disappeared", "person"))
        sentences = tuple(
            Sentence(text, kind, thing, (0.41 + i / 10, 0.22, 0.18, 0.5), 0.7713 - i / 5, 0.8123 - i / 7)
            for i, (text, kind, thing) in enumerate((*told, told[0]))
        )
        stamps = FrameStamp(START, 0, "a" * 64), FrameStamp(START, 1, "b" * 64)
        model, event = ModelStamp("grounded", "c" * 64), SceneEvent.NONE
        narration = Narration("x", "yard", *stamps, Clock.RTCP, event, sentences, 12.345, model, "d" * 64)
        latency = {"batch": 312.4, "capture_to_narration": 1834.6}
        pictures = Evidence(**dict.fromkeys(("before", "after", "overlay"), "sha256:" + "1" * 64))
        record = build_record(narration, FIRST, latency_ms=latency, evidence=pictures)
        self._members = json.loads(record.line())

    def line(self, end: ChainEnd, evidence: dict[str, str] | None = None) -> tuple[bytes, ChainEnd]:
        """The next line, and the end of the chain behind it."""
        seq = end.seq + 1
        before = START + timedelta(seconds=4 * seq, microseconds=7 * seq)
        after = before + timedelta(seconds=2)
        stream_id = int(after.timestamp() * 1000), 0
        members = self._members | {
            "seq": seq,
            "id": f"yard-{after:%Y%m%dT%H%M%S}.000Z-{seq:012x}",
            "prev": end.hash,
            "stream_id": f"{stream_id[0]}-0",
            "latency_ms": {"batch": 100.1 + seq % 997, "capture_to_narration": 1000.2 + seq % 9973},
            "before": {"pts": 90_000 * seq, "sha256": f"{seq:064x}", "time": format_time(before)},
            "after": {"pts": 90_000 * seq + 180_000, "sha256": f"{seq + 1:064x}", "time": format_time(after)},
        }
        members["latency_ms"] = {stage: round(ms, 1) for stage, ms in members["latency_ms"].items()}
        if evidence:
            members["evidence"] = evidence
        del members["hash"]
        digest = hashlib.sha256(_canonical(members)).hexdigest()
        return _canonical(members | {"hash": digest}) + b"\n", ChainEnd(seq, digest, stream_id)


def _canonical(members: dict[str, object]) -> bytes:
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()


def write(folder: Path, count: int) -> None:
    """The chain, in segments, with its signatures."""
    camera, end, key = Camera(), FIRST, SigningKey(new_key())
    with (folder / "yard.signatures").open("wb") as signatures:
        for first in range(1, count + 1, SEGMENT):
            last = min(first + SEGMENT - 1, count)
            name = "yard.jsonl" if last == count else f"yard.{first:012d}.jsonl"
            with (folder / name).open("wb") as file:
                for _ in range(first, last + 1):
                    line, end = camera.line(end)
                    file.write(line)
                    if end.seq % SIGNED == 0:
                        signed = key.sign("yard", end, START + timedelta(seconds=4 * end.seq))
                        signatures.write(signed.line() + b"\n")


def write_pictures(folder: Path) -> None:
    """A short chain with all its pictures, which are noise."""
    camera, end, store = Camera(), FIRST, EvidenceStore(folder / "evidence", fsync=False)
    with (folder / "yard.jsonl").open("wb") as file:
        for _ in range(PICTURES):
            sides = ("before", "after", "overlay")
            line, end = camera.line(
                end, {side: store.put(os.urandom(PICTURE_BYTES), "jpg") for side in sides}
            )
            file.write(line)


def measure(path: Path, processors: int, *arguments: str) -> tuple[float, float]:
    """Seconds of the clock, and of all processors, that the command takes from its start to its end."""
    command = [sys.executable, "-m", "daemon.cli", "verify", str(path), *arguments]
    allowed = sorted(os.sched_getaffinity(0))[:processors]
    began, used = time.perf_counter(), sum(os.times()[2:4])
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, allowed)
    )
    return time.perf_counter() - began, sum(os.times()[2:4]) - used


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument(
        "--folder", type=Path, help="where; needs 1.7 GB for a million; else a temporary folder"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="bench-verify-") as made:
        folder = Path(made)
        began = time.perf_counter()
        write(folder, arguments.records)
        size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
        print(
            f"written: {arguments.records} records, {size / 1e9:.2f} GB, {time.perf_counter() - began:.0f} s"
        )
        for processes in sorted({1, len(os.sched_getaffinity(0))}):
            load = os.getloadavg()[0]
            took, used = measure(folder, processes, "--no-evidence")
            rate = arguments.records / took
            times = f"{took:.1f} s, {used:.1f} s of processors (load before: {load:.1f})"
            print(f"verified on {processes}: {times}, {rate:,.0f} a second", flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="bench-verify-") as made:
        folder = Path(made)
        write_pictures(folder)
        took, _ = measure(folder, 1)
        rate = PICTURES * 3 * PICTURE_BYTES / took / 1e6
        print(
            f"evidence: {PICTURES * 3} pictures in {took:.2f} s, {rate:,.0f} MB a second (in the page cache)"
        )


if __name__ == "__main__":
    main()
