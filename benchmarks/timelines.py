"""Which events of whole clips a replay tells, and what it tells besides: ../shared/bench, events.jsonl.

    python benchmarks/timelines.py [--checkpoint FILE] [--captioner NAME] [--keep DIR]

Runs `narrated replay --json` over every clip of events.jsonl. A sentence tells an event where type (appeared
or more, disappeared or fewer) and object family agree and its time, that of the sentence where it has one,
else of the after frame, lies within the event's tolerance; each event is told once, each sentence tells as
many events as it counts objects. What tells no event, not even a marginal one, is false: a narration that
holds such a sentence is a false narration. A sentence that counts more objects than it tells events is
miscounted, which is shown beside. Places are not judged here; `quality.py` does that. Clips of cameras that
training may see are marked, and summed apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from predictors import SEEN
from scipy.optimize import linear_sum_assignment

from models.families import family_of

SHARED = Path(__file__).resolve().parents[2] / "shared"
CLIPS, EVENTS = SHARED / "data" / "clips", SHARED / "bench" / "visible" / "events.jsonl"
START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {"appeared": "appeared", "more": "appeared", "disappeared": "disappeared", "fewer": "disappeared"}
SALIENT, MARGINAL = 100.0, 1.0


@dataclass(frozen=True)
class Said:
    """One sentence: when, of which record, and what."""

    seconds: float
    record: str
    kind: str
    family: str
    count: int
    text: str


@dataclass(frozen=True)
class Score:
    """How one clip was told; `minutes` is its length."""

    minutes: float
    events: int
    found: int
    missed: tuple[dict[str, Any], ...]
    false: tuple[Said, ...]
    miscounted: tuple[Said, ...] = ()

    @property
    def false_narrations(self) -> int:
        """Records that hold a false sentence."""
        return len({said.record for said in self.false})


def said_in(records: Sequence[dict[str, Any]], start: datetime) -> list[Said]:
    """The sentences of records as `narrated replay --json` prints them; seconds count from `start`."""
    sentences = []
    for record in records:
        for sentence in record["sentences"]:
            time = datetime.fromisoformat(sentence.get("time") or record["after"]["time"])
            kind, thing = sentence["type"], sentence["object"]
            sentences.append(
                Said(
                    (time - start).total_seconds(),
                    record["id"],
                    KINDS.get(kind, kind),
                    family_of(thing),
                    sentence.get("count", 1),
                    sentence["text"],
                )
            )
    return sentences


def score(events: Sequence[dict[str, Any]], sentences: Sequence[Said], minutes: float) -> Score:
    """Match sentences and events: most salient ones, then most marginal ones, then nearest in time."""
    slots = [k for k, said in enumerate(sentences) for _ in range(max(said.count, 1))]
    gains = np.zeros((len(events), len(slots)))
    for row, event in enumerate(events):
        for column, k in enumerate(slots):
            said = sentences[k]
            apart = abs(said.seconds - event["t"])
            alike = said.kind == event["type"] and said.family == family_of(event["object"])
            if alike and apart <= event["tolerance"]:
                gains[row, column] = (SALIENT if event["salient"] else MARGINAL) - apart / 10
    told = [(r, c) for r, c in zip(*linear_sum_assignment(-gains), strict=True) if gains[r, c] > 0]
    rows, right = {r for r, _ in told}, Counter(slots[c] for _, c in told)
    salient = [r for r, event in enumerate(events) if event["salient"]]
    return Score(
        minutes,
        len(salient),
        len(rows.intersection(salient)),
        tuple(events[r] for r in salient if r not in rows),
        tuple(said for k, said in enumerate(sentences) if k not in right),
        tuple(said for k, said in enumerate(sentences) if 0 < right[k] < said.count),
    )


def replayed(clip: Path, options: Sequence[str]) -> list[dict[str, Any]]:
    """Records of `narrated replay`."""
    command = [str(Path(sys.executable).with_name("narrated")), "replay", str(clip), "--json"]
    done = subprocess.run(
        [*command, "--start", START.isoformat(), *options], check=True, stdout=subprocess.PIPE
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if "sentences" in line]  # not the last line, where nothing is told


def timelines() -> dict[str, tuple[list[dict[str, Any]], float]]:
    """Events and length in minutes of every clip."""
    found: dict[str, tuple[list[dict[str, Any]], float]] = {}
    lines = [json.loads(line) for line in EVENTS.read_text(encoding="utf-8").splitlines()]
    for end in (line for line in lines if "duration" in line):
        events = [line for line in lines if line["clip"] == end["clip"] and "t" in line]
        found[end["clip"]] = (events, end["duration"] / 60)
    return found


def summed(scores: Sequence[Score]) -> Score:
    """Of several clips."""
    return Score(
        sum(s.minutes for s in scores),
        sum(s.events for s in scores),
        sum(s.found for s in scores),
        tuple(m for s in scores for m in s.missed),
        tuple(f for s in scores for f in s.false),
        tuple(m for s in scores for m in s.miscounted),
    )


def table(scores: dict[str, Score]) -> str:
    """Markdown: a line a clip, all of them, then every miss and every false sentence."""
    lines = [
        "| clip | events | found | false sentences | false narrations a minute | miscounted |",
        "|---|---|---|---|---|---|",
    ]
    seen = {name: s for name, s in scores.items() if Path(name).stem in SEEN}
    unseen = {name: s for name, s in scores.items() if name not in seen}
    rows = [*unseen.items(), *((f"{name} (seen in training)", s) for name, s in seen.items())]
    sums = {"unseen": unseen, "seen": seen, "all": scores}
    for name, s in [*rows, *((f"**{name}**", summed(list(of.values()))) for name, of in sums.items() if of)]:
        share, rate = s.found / max(s.events, 1), s.false_narrations / s.minutes
        counts = f"{len(s.false)} | {rate:.2f} | {len(s.miscounted)}"
        lines.append(f"| {name} | {s.events} | {s.found} ({share:.2f}) | {counts} |")
    for name, s in scores.items():
        lines += ["", f"{name}"]
        lines += [f"* missed: {e['t']:.1f} s, {e['object']} {e['type']} {e['place']}" for e in s.missed]
        for what, said in (("false", s.false), ("miscounted", s.miscounted)):
            ordered = sorted(said, key=lambda one: one.seconds)
            lines += [f"* {what}: {one.seconds:.1f} s, {one.text}" for one in ordered]
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--checkpoint", type=Path, help="another checkpoint than the packaged one")
    arguments.add_argument("--captioner", help="a packaged captioner by its name")
    arguments.add_argument("--keep", type=Path, help="folder for the records, one file a clip")
    chosen = arguments.parse_args()
    if not (EVENTS.is_file() and CLIPS.is_dir()):
        print("skipped: no timelines beside the checkout (../shared/bench, ../shared/data/clips)")
        return
    options = ["--captioner-file", str(chosen.checkpoint)] if chosen.checkpoint else []
    options += ["--captioner", chosen.captioner] if chosen.captioner else []
    scores = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for clip, (events, minutes) in timelines().items():
            records = replayed(CLIPS / clip, options)
            (folder / f"{clip}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
            scores[clip] = score(events, said_in(records, START), minutes)
    print(table(scores))


if __name__ == "__main__":
    main()
