"""Is every sentence of a replay true? Judged by ../shared/bench/tracks.py against published tracks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from scoring import BENCH, DATA, Verdict, loaded

from daemon.questions.facts import ARRIVALS, DEPARTURES
from daemon.questions.words import GROUPS

START = datetime(2026, 1, 1, tzinfo=UTC)
ENDS = ("entrances", "departures")
SHOWN = re.compile(r"^ *[\d.]+ s  (true|false) .*? (\d\.\d\d)  ", re.MULTILINE)
"""A sentence as `tracks.py --show` prints it: the second, verdict, reason, confidence, text."""


class Clip(NamedTuple):
    """A clip with published tracks, and how `tracks.py` is to read them (from the benchmark's README)."""

    file: str
    tracks: str
    options: tuple[str, ...]


def _tfl(name: str, area: str) -> Clip:
    options = ("--fps", "25", "--size", "352x288", "--family", "vehicle", "--area", area)
    return Clip(f"tfl_{name}.mp4", f"tfl/{name}.xml", options)


CLIPS = (
    Clip("opencv_vtest.avi", "pets2009/PETS2009-S2L1.xml", ("--fps", "10", "--size", "768x576")),
    _tfl("blackfriars-stamford_0628", "0,.3,1,1"),
    _tfl("blackfriars-stamford_0702", "0,.4,1,1"),
    _tfl("elephant-castle-walworth", "0,.42,1,1"),
    _tfl("pentonville-penton", "0,.33,1,1"),
)

PEOPLE = tuple(
    Clip(f"people/{name}.mp4", f"people/{name}.xml", ("--fps", str(fps), "--size", size))
    for name, fps, size in (
        ("mot17_02", 30, "960x540"),
        ("tud_stadtmitte", 25, "640x480"),
        ("tud_campus", 25, "640x480"),
        ("pets_s3mf1", 7, "768x576"),
    )
)


class Truth(NamedTuple):
    """How true the sentences of a replay are; a sum of several is theirs.

    `counts` has sentences that are ``true``, ``false``, ``unknown`` and ``other``, ``entrances`` and
    ``departures``, those that are ``entrances told``, and who ``came`` and ``left`` by the records, as
    `narrated query` counts visits.
    """

    counts: Counter[str]
    reasons: Counter[str]  # why sentences are false
    judged: tuple[Verdict, ...]  # the true and the false sentences

    def events(self) -> list[str]:
        """How many of its entrances and of its departures are told, for a table."""
        return [f"{self.counts[f'{kind} told']} of {self.counts[kind]}" for kind in ENDS]


def replayed(clip: Path, options: Sequence[str]) -> list[dict[str, Any]]:
    """Records of `narrated replay`, those that a summary would stand for among them."""
    command = [str(Path(sys.executable).with_name("narrated")), "replay", str(clip), "--json"]
    done = subprocess.run(
        [*command, "--no-summaries", "--start", START.isoformat(), *options],
        check=True,
        stdout=subprocess.PIPE,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if "sentences" in line]  # not the last line, where nothing is told


def absent(clips: Sequence[Clip] = CLIPS) -> list[str]:
    wanted = [BENCH / "tracks.py"]
    wanted += [path for clip in clips for path in (_file(clip), _tracks(clip))]
    return [str(path.relative_to(DATA.parent)) for path in wanted if not path.exists()]


def told(folder: Path, *options: str, clips: Sequence[Clip] = CLIPS) -> dict[str, Truth]:
    """Replay every clip with `narrated replay` and further options of it; the records lie in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for clip in clips:
        records = folder / f"{Path(clip.file).stem}.jsonl"
        lines = [json.dumps(record) + "\n" for record in replayed(_file(clip), options)]
        records.write_text("".join(lines), encoding="utf-8")
        found[clip.file] = judged(records, clip)
    return found


def judged(records: Path, clip: Clip) -> Truth:
    """What tracks.py says of the records of a clip."""
    verdict = records.with_suffix(".json")
    # Without --start, tracks.py takes the day from the first record, and fails where nothing is told.
    said = ("--start", START.isoformat(), "--show", "--json", verdict)
    command = [BENCH / "tracks.py", records, _tracks(clip), *clip.options, *said]
    done = subprocess.run(
        [sys.executable, *map(str, command)], check=True, stdout=subprocess.PIPE, encoding="utf-8"
    )
    result = json.loads(verdict.read_text(encoding="utf-8"))
    counts = Counter({name: result[name] for name in ("true", "false", "unknown", "other")})
    counts["came"], counts["left"] = _visits(records, clip)
    for kind in ENDS:
        counts[f"{kind} told"], counts[kind] = map(int, result[f"{kind} told"].split(" of "))
    shown = tuple((float(sure), said == "true") for said, sure in SHOWN.findall(done.stdout))
    return Truth(counts, Counter(result["false because"]), shown)


def summed(each: Sequence[Truth]) -> Truth:
    counts, reasons, judged = zip(*each, strict=True)
    return Truth(sum(counts, Counter()), sum(reasons, Counter()), tuple(chain.from_iterable(judged)))


def _visits(records: Path, clip: Clip) -> tuple[int, int]:
    """The tracks that the records of a clip have come, and leave, where its published tracks look."""
    scorer, options = loaded("tracks"), dict(zip(clip.options[::2], clip.options[1::2], strict=True))
    width, height = map(int, options["--size"].split("x"))
    area = [float(share) for share in options.get("--area", "").split(",") if share]
    truth = scorer.Truth(scorer.read_tracks(_tracks(clip), (width, height)), 1.0, 1.0, area)
    objects = GROUPS["vehicle"] if options.get("--family") == "vehicle" else ("person",)
    came, left = set[str](), set[str]()
    for record in map(json.loads, records.read_text(encoding="utf-8").splitlines()):
        for sentence in record["sentences"]:
            box, track = sentence.get("box_after") or sentence.get("box_before"), sentence.get("track")
            if box and track and sentence["object"] in objects and truth.within(box):
                came |= {track} if sentence["type"] in ARRIVALS else set()
                left |= {track} if sentence["type"] in DEPARTURES else set()
    return len(came), len(left)


def _file(clip: Clip) -> Path:
    return DATA / "clips" / clip.file


def _tracks(clip: Clip) -> Path:
    return DATA / "annotations" / clip.tracks
