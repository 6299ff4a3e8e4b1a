"""How long `narrated query` and `narrated verify` take on a million records of eight cameras.

    python benchmarks/bench_query.py [--records 1000000] [--days 90] [--folder DIR] [--verify]

Writes chained journals of visits (entered, then left after a while, each with its track), has them indexed,
asks each question and tries each rule three times in one process, and makes the digest of the last whole day
three times. At last 100 rules are watched over an hour of a camera with two records a second. With
620,000 records of 31 days that day, and each of the four weeks before, has 10,000 visits. With --verify the
chains are verified instead, on one processor and on all: time of the clock, which depends on what else the
machine does, and of all processors.
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
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from daemon.digest.digest import write_digest
from daemon.questions.asker import Asker
from daemon.questions.question import LocalTime, Span
from daemon.rules.rule import read_rule
from daemon.rules.watch import RuleBook
from daemon.search.search import Search
from daemon.search.trial import try_rule
from pipeline.record import read_record
from pipeline.record_format import format_time

SEED = 7
SEGMENT = 100_000
CAMERAS = ("front_door", "yard", "gate.2", "lot-1", "lot-2", "street", "loading", "roof")
PLACES = ("at the entrance", "in the lot", "by the river", "on the left", "on the right", "in the middle")
THINGS = {"person": "person", "car": "red car", "truck": "white lorry", "van": "van", "cyclist": "cyclist"}
START = datetime(2026, 5, 1, tzinfo=UTC)
LONDON = LocalTime.named("Europe/London")
QUESTIONS = (
    "what happened in the last hour",
    "when did a person last come to the entrance",
    "which red cars left the lot last night",
    "how many people came in the last 7 days by day",
    "how many people this month",
    "vehicles in June by hour",
    "busiest hour",
    "which camera saw the most people",
    "how many people by hour of the day",
    "people who stayed longer than 10 minutes yesterday",
    "who stayed longest this month",
    "who is still there",
    "how many people were in the lot at noon yesterday",
    "people at night in the last 7 days",
)
RULES = (
    "a van stands at the entrance longer than 10 min",
    "more than 5 people in the lot",
    "nobody at the entrance for 15 min between 9 and 17",
    "a car comes and the car is still there after 5 min",
    "a person comes to the lot at night",
)


def lines(camera: str, count: int, days: int) -> Iterator[bytes]:
    """The chained lines of a camera: a visit is two records."""
    rng = random.Random(f"{SEED} {camera}")  # noqa: S311 - a benchmark
    previous = "0" * 64
    step = timedelta(days=days) / count
    for seq in range(1, count + 1):
        leaves, visit = seq % 2 == 0, (seq + 1) // 2
        rng.seed(f"{SEED} {camera} {visit}")
        thing, place, stay = rng.choice(list(THINGS)), rng.choice(PLACES), rng.choice((10, 60, 900))
        after = START + step * (seq - leaves) + timedelta(seconds=stay if leaves else 0)
        before = after - timedelta(seconds=2)
        said = {
            "action": "left" if leaves else "entered",
            "box": [0.41, 0.22, 0.18, 0.5],
            "confidence": rng.randrange(5000, 10_000) / 10_000,
            "object": thing,
            "salience": 0.77,
            "text": f"The {THINGS[thing]} {place} has gone, after {stay} s."
            if leaves
            else f"A {THINGS[thing]} has come in {place}.",
            "track": f"{visit:x}",
            "type": "disappeared" if leaves else "appeared",
        } | ({"duration_s": stay, "until": format_time(after)} if leaves else {})
        members = {
            "schema": "narrated/2",
            "id": f"{camera}-{seq:012x}",
            "camera": camera,
            "seq": seq,
            "before": {"pts": seq, "sha256": f"{seq:064x}", "time": format_time(before)},
            "after": {"pts": seq + 1, "sha256": f"{seq + 1:064x}", "time": format_time(after)},
            "clock": "rtcp",
            "event": "change",
            "text": said["text"],
            "sentences": [said],
            "l2": 12.3,
            "suppressed": 0,
            "model": {"name": "grounded", "sha256": "c" * 64},
            "config_sha256": "d" * 64,
            "stream_id": f"{1_000_000_000_000 + seq}-0",
            "prev": previous,
        }
        previous = hashlib.sha256(canonical(members)).hexdigest()
        yield canonical(members | {"hash": previous}) + b"\n"


def canonical(members: dict[str, object]) -> bytes:
    """Canonical JSON, as far as these members need it."""
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()


def write(folder: Path, count: int, days: int) -> None:
    share = count // len(CAMERAS)
    for camera in CAMERAS:
        made = lines(camera, share, days)
        for first in range(1, share + 1, SEGMENT):
            last = min(first + SEGMENT - 1, share)
            name = f"{camera}.jsonl" if last == share else f"{camera}.{first:012d}.jsonl"
            with (folder / name).open("wb") as file:
                file.writelines(next(made) for _ in range(first, last + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--folder", type=Path, help="where; needs 1.2 GB for a million; else a temporary one")
    parser.add_argument("--verify", action="store_true", help="verify the chains instead")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        if not any(folder.glob("*.jsonl")):
            write(folder, given.records, given.days)
        if given.verify:
            verify(folder, given.records)
            return
        begin, worked = time.perf_counter(), time.process_time()
        with Search(folder, LONDON) as search:
            search.index.update()
            read = search.index.newest()
            taken, worked = time.perf_counter() - begin, time.process_time() - worked
            size = sum(path.stat().st_size for path in folder.glob("index.*"))
            journals = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
            print(f"{read:,} records indexed in {taken:.1f} s ({worked:.1f} s of the processor), ", end="")
            print(f"index {size >> 20} MB, journals {journals >> 20} MB")
            print("\n| question | found | of the processor, ms | by the clock, ms |\n|---|---:|---:|---:|")
            end = START + timedelta(days=given.days)
            for words in QUESTIONS:
                print_slowest(words, lambda words=words: ask(search, words, end))
            for words in RULES:
                rule = read_rule("tried", words, search.asker())
                print_slowest(f"rule: {words}", lambda rule=rule: len(try_rule(search, rule, Span(), end)))
            until = LONDON.midnight(LONDON.of(end).date())
            day = Span(until - timedelta(days=1), until)
            print_slowest("the digest of a day", lambda: len(write_digest(search, day, end).sentences))
        watch_rules()
        print(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB at most")


def print_slowest(what: str, call: Callable[[], int]) -> None:
    worked, taken, found = [], [], 0
    for _ in range(3):
        begin, busy = time.perf_counter(), time.process_time()
        found = call()
        worked.append(time.process_time() - busy)
        taken.append(time.perf_counter() - begin)
    print(f"| {what} | {found:,} | {1000 * max(worked):.0f} | {1000 * max(taken):.0f} |", flush=True)


def ask(search: Search, words: str, end: datetime) -> int:
    asked = search.asker().read(words, end)
    if asked.measure.count:
        return len(search.selection.count(asked))
    if asked.of_visits:
        return len(search.selection.visits(asked))
    return search.answer(asked, 50).count


def watch_rules() -> None:
    """Watch 100 rules over an hour with two records a second, and print their share of a core."""
    places = ("entrance", "lot")
    asker = Asker(("yard",), frozenset(), LONDON, places.__contains__, lambda: list(places))
    rules = [read_rule(f"{n}", RULES[n % len(RULES)], asker) for n in range(100)]
    book, count = RuleBook(rules, LONDON), 7200
    records = [read_record(line) for line in lines("yard", count, 1)]
    busy = time.process_time()
    met = sum(len(book.take(record)) for record in records)
    for second in range(0, 3600, 20):
        met += len(book.tick(records[-1].after.moment + timedelta(seconds=second)))
    used = time.process_time() - busy
    print(f"\n100 rules over {count:,} records: {met:,} firings, {used:.2f} s of the processor, ", end="")
    print(f"{used / 3600:.2%} of a core at two records a second")


def measure(path: Path, processors: int) -> tuple[float, float]:
    """Seconds of the clock, and of all processors, from the command's start to its end."""
    command = [sys.executable, "-m", "daemon.cli", "verify", str(path)]
    allowed = sorted(os.sched_getaffinity(0))[:processors]
    began, used = time.perf_counter(), sum(os.times()[2:4])
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, allowed)
    )
    return time.perf_counter() - began, sum(os.times()[2:4]) - used


def verify(folder: Path, records: int) -> None:
    size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
    print(f"{records:,} records, {size / 1e9:.2f} GB, load {os.getloadavg()[0]:.1f}")
    print("| processors | from start to end | processor | records a second |\n|---|---|---|---|")
    for processors in sorted({1, len(os.sched_getaffinity(0))}):
        took, used = measure(folder, processors)
        print(f"| {processors} | {took:.1f} s | {used:.1f} s | {records / took:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
