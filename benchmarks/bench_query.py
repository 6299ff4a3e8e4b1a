"""How long `narrated query` takes: a million records of eight cameras, indexed and asked all sorts of things.

    python benchmarks/bench_query.py [--records 1000000] [--folder DIR] [--one-second]

Writes chained journals in segments of a hundred thousand, with one to three sentences a record of the
grammar's own (places, zones, colours, counts), has them indexed, and asks: each question five times in one
process, of which the worst is told, and by the command, whose time holds Python's start. With `--one-second`
all records have the same time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Question
from daemon.search.search import Search
from models.language.places import PLACES
from models.language.wording import COLOURS
from pipeline.journal import VerifyOptions, verify
from pipeline.record import format_time
from train.compose.claims import Claims
from train.compose.phrases import NOUNS, plain_sentence

SEED = 7
SEGMENT = 100_000
CAMERAS = ("front_door", "yard", "gate.2", "lot-1", "lot-2", "street", "loading", "roof")
ZONES = ("at the entrance", "in the lot", "by the river", "at the loading bay", "on the ramp")
START = datetime(2026, 5, 1, tzinfo=UTC)
SPAN = timedelta(days=90)
TIMES = 5
LONDON = LocalTime.named("Europe/London")


def sentences(rng: random.Random) -> list[dict[str, object]]:
    """What can be said: a few thousand sentences."""
    found = []
    for thing in NOUNS:
        looks = ["", *COLOURS] if thing in ("car", "van", "truck", "bus") else [""]
        for kind in ("appeared", "disappeared", "moved"):
            for place in (*PLACES, *ZONES):
                for look in looks:
                    count = rng.choice((1, 1, 1, 2, 3))
                    end = rng.choice(ZONES) if kind == "moved" else ""
                    claims = Claims(kind, thing, count, place=place, look=look, end=end)
                    said = {"text": plain_sentence(claims), "type": kind, "object": thing}
                    found.append(said | ({"count": count} if count > 1 else {}))
    return found


def canonical(members: dict[str, object]) -> bytes:
    """Canonical JSON, as far as these members need it."""
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()


def lines(camera: str, count: int, *, one_second: bool) -> Iterator[bytes]:
    """The chained lines of a camera."""
    rng = random.Random(f"{SEED} {camera}")  # noqa: S311 - a benchmark
    said, previous = sentences(rng), "0" * 64
    weights = [rng.paretovariate(0.8) for _ in said]
    chosen = iter(rng.choices(said, weights, k=3 * count))
    pictures = dict.fromkeys(("before", "after", "overlay"), "sha256:" + "1" * 64)
    for seq in range(1, count + 1):
        after = START if one_second else START + SPAN / count * seq
        told = [
            next(chosen)
            | {
                "box": [0.41, 0.22, 0.18, 0.5],
                "salience": 0.77,
                "confidence": rng.randrange(1, 10_000) / 10_000,
            }
            for _ in range(rng.choice((1, 1, 2, 3)))
        ]
        members = {
            "schema": "narrated/1",
            "id": f"{camera}-{seq:012x}",
            "camera": camera,
            "seq": seq,
            "before": {
                "pts": seq,
                "sha256": f"{seq:064x}",
                "time": format_time(after - timedelta(seconds=2)),
            },
            "after": {"pts": seq + 1, "sha256": f"{seq + 1:064x}", "time": format_time(after)},
            "clock": "rtcp",
            "event": "change",
            "text": " ".join(str(each["text"]) for each in told),
            "sentences": told,
            "l2": 12.3,
            "suppressed": 0,
            "model": {"name": "grounded", "sha256": "c" * 64},
            "config_sha256": "d" * 64,
            "stream_id": f"{1_000_000_000_000 + seq}-0",
            "evidence": pictures,
            "prev": previous,
        }
        previous = hashlib.sha256(canonical(members)).hexdigest()
        yield canonical(members | {"hash": previous}) + b"\n"


def write(folder: Path, count: int, *, one_second: bool) -> None:
    """The journals."""
    for camera in CAMERAS:
        share, made = count // len(CAMERAS), iter(lines(camera, count // len(CAMERAS), one_second=one_second))
        for first in range(1, share + 1, SEGMENT):
            last = min(first + SEGMENT - 1, share)
            name = f"{camera}.jsonl" if last == share else f"{camera}.{first:012d}.jsonl"
            with (folder / name).open("wb") as file:
                file.writelines(next(made) for _ in range(first, last + 1))


def questions(asker_reads: dict[str, Question]) -> dict[str, Question]:
    """What is asked, in words."""
    late = START + SPAN - timedelta(days=7)
    return {
        "the newest 50": Question(limit=50),
        "the last person at the entrance": Question(
            Filters(objects=("person",), zones=("entrance",), kinds=("came",)), order="last"
        ),
        "the last 50 of one camera, seven days": Question(
            Filters(cameras=("yard",), since=late), order="last", limit=50
        ),
        "the text moved lot": Question(Filters(text="moved lot"), limit=50),
        "a word that nobody says": Question(Filters(text="zebra"), limit=50),
        "red cars, surer than 0.9": Question(
            Filters(objects=("car",), colours=("red",), confidence=0.9), limit=50
        ),
        "between 22:00 and 06:00": Question(Filters(between=(1320, 360)), limit=50),
        "count of everything": Question(count=True),
        "count by hour (2,160 hours)": Question(count=True, by=("hour",)),
        "count of people by hour of the day": Question(
            Filters(objects=("person",)), count=True, by=("hour-of-day",)
        ),
        "count by camera, object and kind": Question(count=True, by=("camera", "object", "kind")),
        "count by day and colour at night, surer than 0.5": Question(
            Filters(between=(1320, 360), confidence=0.5), count=True, by=("day", "colour")
        ),
        **asker_reads,
    }


def asked(search: Search, question: Question) -> int:
    """Ask once; how many lines came."""
    if question.count:
        return len(search.count(question))
    return len(list(search.answer(question).found))


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="keep the journals there, and take those that are there")
    parser.add_argument("--one-second", action="store_true", help="all records have the same time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not list(folder.glob("*.jsonl")):
            write(folder, options.records, one_second=options.one_second)
        measure(folder)


def measure(folder: Path) -> None:
    """Index the journals and ask."""
    size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
    sample = folder / f"{CAMERAS[0]}.jsonl"
    found = verify([sample], VerifyOptions(evidence=False))
    assert found.ok, found.problems  # noqa: S101 - what is measured must be real journals
    for old in folder.glob("index.sqlite3*"):
        old.unlink()
    with Search(folder, LONDON) as search:
        began, busy = time.perf_counter(), time.process_time()
        records = search.look().records
        spent, busy = time.perf_counter() - began, time.process_time() - busy
        phrases = search.index.store.connection.execute("SELECT count(*) FROM phrases").fetchone()[0]
        began = time.perf_counter()
        search.look()
        again = time.perf_counter() - began
        index = sum(path.stat().st_size for path in folder.glob("index.sqlite3*"))
        print(
            f"| {records:,} records, {size / 1e6:,.0f} MB of journals, {phrases:,} sentences that differ | |"
        )
        print("|---|---:|")
        print(f"| indexed in | {spent:.1f} s, {records / spent:,.0f} records a second |")
        print(f"| in time of the processor | {busy:.1f} s, {records / busy:,.0f} records a second |")
        print(f"| size of the index | {index / 1e6:.0f} MB, {index / size:.1%} of the journals |")
        print(f"| nothing new: looked for in | {again * 1000:.1f} ms |\n")
        plain = {
            words: search.asker().read(words, START + SPAN)
            for words in (
                "how many lorries yesterday between 6 and 9 by hour",
                "which cars left the lot last night",
            )
        }
        print("| question | lines | first, ms | then, worst of five, ms | its processor time, ms |")
        print("|---|---:|---:|---:|---:|")
        for words, question in questions(plain).items():
            spans = []
            for _ in range(TIMES + 1):
                began, busy = time.perf_counter(), time.process_time()
                count = asked(search, question)
                spans.append((1000 * (time.perf_counter() - began), 1000 * (time.process_time() - busy)))
            worst, work = max(spans[1:])
            print(f"| {words} | {count:,} | {spans[0][0]:.0f} | {worst:.0f} | {work:.0f} |", flush=True)
    print(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most.\n")
    print("| command | seconds | of the processor |\n|---|---:|---:|")
    for words in (["--last"], ["--count", "--by", "hour"], ["when did a person last come to the entrance"]):
        command = [sys.executable, "-m", "daemon.cli", "query", "-j", str(folder), *words]
        began, before = time.perf_counter(), os.times()
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "TZ": "Europe/London"})
        spent, after = time.perf_counter() - began, os.times()
        busy = after.children_user + after.children_system - before.children_user - before.children_system
        print(f"| narrated query {' '.join(words)} | {spent:.2f} | {busy:.2f} |")


if __name__ == "__main__":
    main()
