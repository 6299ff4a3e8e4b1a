"""Is every sentence of a replay true? Judged by ../shared/bench/tracks.py against published tracks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from predictors import BENCH, DATA
from scoring import Calibration, Verdict, calibration, loaded

from daemon.questions.facts import ARRIVALS, DEPARTURES
from daemon.questions.words import GROUPS

START = datetime(2026, 1, 1, tzinfo=UTC)
SHOWN = re.compile(r"^ *[\d.]+ s  (true|false) .*? (\d\.\d\d)  ", re.MULTILINE)
"""A sentence as `tracks.py --show` prints it: the second, verdict, reason, confidence, text."""


@dataclass(frozen=True)
class Clip:
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


@dataclass(frozen=True)
class Truth:
    """How true the sentences of a replay are; entrances and departures as (told, of).

    Attributes:
        counted: how many came and how many left by the records, as `narrated query` counts visits.
        reasons: why sentences are false, and how many.
        judged: the true and the false sentences.
    """

    true: int
    false: int
    unknown: int
    other: int
    entrances: tuple[int, int]
    departures: tuple[int, int]
    counted: tuple[int, int] = (0, 0)
    reasons: Mapping[str, int] = field(default_factory=dict)
    judged: tuple[Verdict, ...] = ()

    @property
    def precision(self) -> float:
        """True among the sentences that can be judged; NaN without any."""
        return self.true / (self.true + self.false) if self.true + self.false else float("nan")

    @property
    def calibration(self) -> Calibration | None:
        """Of the judged sentences."""
        return calibration(self.judged)


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
    """What of clips, tracks and judge is not there."""
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
    return Truth(
        true=result["true"],
        false=result["false"],
        unknown=result["unknown"],
        other=result["other"],
        entrances=_told_of(result["entrances told"]),
        departures=_told_of(result["departures told"]),
        counted=_counted(records, clip),
        reasons=result["false because"],
        judged=tuple((float(sure), said == "true") for said, sure in SHOWN.findall(done.stdout)),
    )


def summed(each: Sequence[Truth]) -> Truth:
    """Of several clips or seeds."""
    counts = (sum(getattr(one, name) for one in each) for name in ("true", "false", "unknown", "other"))
    ends = [[getattr(one, name) for one in each] for name in ("entrances", "departures")]
    told = ((sum(t for t, _ in own), sum(of for _, of in own)) for own in ends)
    reasons = sum((Counter(one.reasons) for one in each), Counter[str]())
    judged = tuple(verdict for one in each for verdict in one.judged)
    came, left = zip(*(one.counted for one in each), strict=True)
    return Truth(*counts, *told, (sum(came), sum(left)), dict(reasons.most_common()), judged)


def _counted(records: Path, clip: Clip) -> tuple[int, int]:
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


def _told_of(text: str) -> tuple[int, int]:
    told, of, total = text.partition(" of ")
    if not of:
        raise ValueError(f"tracks.py says {text!r} in place of 'N of M'")
    return int(told), int(total)


def _file(clip: Clip) -> Path:
    return DATA / "clips" / clip.file


def _tracks(clip: Clip) -> Path:
    return DATA / "annotations" / clip.tracks
