"""How true a replay is on the clips on which the constants of following are chosen.

    python benchmarks/validation_tracks.py [--keep DIR] [--show]

`validation_tracks.jsonl` has ten clips of nine training cameras in ../shared/data (four of them held out of
the training), with the tracks of everybody in them: what two of six detectors see, twice a second, was joined
by optical flow, drawn on the sampled frames, looked at, and mended by eye (numbers that were exchanged, posts
and shadows, who came before a detector saw him). Each line has the seconds and the area in which the tracks
are complete, and the tracks, `[seconds, x, y, width, height]` in shares; of a marginal one nothing is judged.
Sentences are judged by ../shared/bench/tracks.py as the replays of the benchmark are. One looker. It is no
test: constants come from it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import predictors
import scoring
from replays import START, replayed
from scoring import Verdict

TRUTH = Path(__file__).with_name("validation_tracks.jsonl")
FPS = 10.0
SLACK_S, LATE_S = 1.0, 6.0
FAMILIES = {"person": "person", "cyclist": "person", "motorcyclist": "person", "rider": "person"} | {
    "bicycle": "person",
    "motorcycle": "person", "car": "car", "van": "car", "bus": "car", "truck": "car", "vehicle": "car",
}  # fmt: skip


@dataclass
class Score:
    """Of one clip: its judged sentences, its events as (kind, object, seconds, told), lines to show."""

    judged: list[Verdict] = field(default_factory=list)
    unknown: int = 0
    events: list[tuple[str, str, float, bool]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keep", type=Path, help="folder for the records")
    parser.add_argument("--show", action="store_true", help="every sentence, every event not told")
    chosen = parser.parse_args()
    clips = [json.loads(line) for line in TRUTH.read_text(encoding="utf-8").splitlines()]
    if any(not path(clip).exists() for clip in clips):
        sys.exit(f"no training footage in {predictors.DATA}")
    scores = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for clip in clips:
            records = replayed(path(clip), ())
            (folder / f"{name(clip)}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
            scores[name(clip)] = score(clip, records)
    print(table(scores))
    if chosen.show:
        print(*(f"{name}: {line}" for name, each in scores.items() for line in each.shown), sep="\n")


def path(clip: dict[str, Any]) -> Path:
    """Where its footage lies."""
    folders = (predictors.DATA / "cameras" / "train" / clip["camera"], predictors.DATA / "clips")
    found = [folder / clip["clip"] for folder in (*folders, folders[1] / clip["camera"])]
    return next((each for each in found if each.exists()), found[0])


def name(clip: dict[str, Any]) -> str:
    """Its camera, and the clip of it where there are several."""
    return f"{clip['camera']} {Path(clip['clip']).stem}" if clip["camera"] == "tfl_625" else clip["camera"]


def score(clip: dict[str, Any], records: Sequence[dict[str, Any]]) -> Score:
    """What is true of the records of a clip, and which entrances and departures they tell."""
    scorer, found = scoring.loaded("tracks"), Score()
    told: list[tuple[str, str, float, float]] = []
    truths = {kind: truth(scorer, clip, kind) for kind in ("person", "car")}
    for record in records:
        before, after = (
            (datetime.fromisoformat(record[side]["time"]) - START).total_seconds()
            for side in ("before", "after")
        )
        for sentence in record["sentences"]:
            verdict, reason, ids = "other", "", []
            if family := FAMILIES.get(sentence["object"]):
                verdict, reason, ids = scorer.judge(truths[family], sentence, before, after)
            least, most = clip["window"]
            if not least <= before or not after <= most or marginal(scorer, clip, sentence, before, after):
                verdict = "unknown" if verdict != "true" else verdict
            told += [(sentence["type"], each, before, after) for each in ids]
            found.unknown += verdict in ("unknown", "other")
            if verdict in ("true", "false"):
                found.judged.append((sentence["confidence"], verdict == "true"))
            found.shown.append(
                f"{before:6.1f} {after:6.1f}  {verdict:8} {sentence['confidence']:.2f}  {sentence['text']}  "
                f"{reason}"
            )
    for track in clip["tracks"]:
        found.events += events(clip, track, truths, told)
    found.shown += [f"untold {kind} {what} at {when:.1f}" for kind, what, when, ok in found.events if not ok]
    return found


def truth(scorer: ModuleType, clip: dict[str, Any], family: str) -> Any:
    """The tracks of a family as tracks.py has them, ten frames a second."""
    tracks = {
        track["id"]: dense(track["sights"]) for track in clip["tracks"] if FAMILIES[track["object"]] == family
    }
    nobody = {"nobody": {0: (2.0, 2.0, 0.01, 0.01)}}
    found = scorer.Truth(tracks or nobody, FPS, SLACK_S, tuple(clip["area"]))
    found.last = round(clip["window"][1] * FPS)
    return found


def dense(sights: Sequence[Sequence[float]]) -> dict[int, tuple[float, ...]]:
    found = {}
    for (t0, *a), (t1, *b) in zip(sights, sights[1:] or sights, strict=False):
        for frame in range(round(t0 * FPS), round(t1 * FPS) + 1):
            share = min(max((frame / FPS - t0) / (t1 - t0), 0.0), 1.0) if t1 > t0 else 0.0
            found[frame] = tuple(u + share * (v - u) for u, v in zip(a, b, strict=True))
    return found


def marginal(
    scorer: ModuleType, clip: dict[str, Any], sentence: dict[str, Any], before: float, after: float
) -> bool:
    """Whether a sentence is about a track of which nothing is judged."""
    for track in clip["tracks"]:
        frames = dense(track["sights"]) if track.get("marginal") else {}
        for box, seconds in ((sentence.get("box_before"), before), (sentence.get("box_after"), after)):
            there = frames.get(round(seconds * FPS))
            if box and there and scorer.overlap(there, box) > 0.2:
                return True
    return False


def events(
    clip: dict[str, Any],
    track: dict[str, Any],
    truths: dict[str, Any],
    told: Sequence[tuple[str, str, float, float]],
) -> list[tuple[str, str, float, bool]]:
    """Its entrance and its departure, where they are seen, and whether they are told."""
    (first, *came), (last, *went) = track["sights"][0], track["sights"][-1]
    least, most = clip["window"]
    if track.get("marginal") or last - first < 1:
        return []
    ends = (("entrance", "appeared", first, came), ("departure", "disappeared", last, went))
    real = {"entrance": least + SLACK_S < first <= most, "departure": least < last < most - SLACK_S}
    return [
        (what, track["object"], when, any(
            kind == k and track["id"] == i and b - 0.5 <= when <= e + LATE_S for k, i, b, e in told
        ))
        for what, kind, when, box in ends
        if real[what] and truths[FAMILIES[track["object"]]].within(box)
    ]  # fmt: skip


def table(scores: dict[str, Score]) -> str:
    """A row a clip, and their sum with intervals that draw clips."""
    lines = ["| clip | true | false | not judged | entrances told | departures told |", f"|{'---|' * 6}"]
    for name, each in [*scores.items(), ("**all**", _sum(list(scores.values())))]:
        right = sum(ok for _, ok in each.judged)
        parts = [[ok for what, *_, ok in each.events if what == kind] for kind in ("entrance", "departure")]
        told = " | ".join(f"{sum(p)} of {len(p)}" for p in parts)
        lines.append(f"| {name} | {right} | {len(each.judged) - right} | {each.unknown} | {told} |")
    draw, every = np.random.default_rng(0), list(scores.values())
    drawn = [_sum([every[k] for k in draw.integers(len(every), size=len(every))]) for _ in range(1000)]
    worth = scoring.calibration(_sum(every).judged)
    for what, of in (("true", _true), ("told", _told)):
        shares = sorted(of(each) for each in drawn)
        lines.append(f"{what} {of(_sum(every)):.3f} [{shares[25]:.2f}, {shares[974]:.2f}]")
    lines.append(f"{worth}")
    return "\n".join(lines)


def _true(each: Score) -> float:
    return sum(ok for _, ok in each.judged) / max(len(each.judged), 1)


def _told(each: Score) -> float:
    return sum(ok for *_, ok in each.events) / max(len(each.events), 1)


def _sum(each: Sequence[Score]) -> Score:
    return Score(
        [verdict for one in each for verdict in one.judged],
        sum(one.unknown for one in each),
        [event for one in each for event in one.events],
    )


if __name__ == "__main__":
    main()
