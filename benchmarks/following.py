"""How often point tracks link the right boxes: ground truth of vtest (PETS 2009 ids) and of TfL clips (CVAT).

    python benchmarks/following.py [--pairs N] [--hz HZ]

Of pairs at random times and of several gaps, every object that is annotated on both sides, differs there and
has moved (intersection over union below .5) should be linked to itself. Precision and recall are those of the
links between such boxes; the links are made by the share of a box's points that run to the other box.
Also: by how much the time of what enters or leaves within the gap is missed (10 % and 90 % quantile of the
tracks that end in its box).
"""

from __future__ import annotations

import argparse
import random
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from pipeline.changes import ChangeOptions, find_changes
from pipeline.clusters import Cluster
from pipeline.pairs import Between, FramePair, small_plane
from pipeline.sources import Frame, SourceOptions, open_source
from pipeline.tracks import point_tracks

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
TFL = (
    "elephant-castle-walworth",
    "pentonville-penton",
    "blackfriars-stamford_0628",
    "blackfriars-stamford_0702",
)
CHANGES = ChangeOptions(
    size=(288, 384), max_shift=8, delta=38.0, noise_factor=4.5, eps=3.0, min_samples=10, min_area=0.001
)
LEAST_TRACKS, LEAST_SHARE = 2, 0.1
Box = tuple[float, float, float, float]
Truth = dict[int, dict[str, Box]]


@dataclass
class Tally:
    """Counts over pairs."""

    told: int = 0
    right: int = 0
    same: int = 0
    errors_s: list[float] = field(default_factory=list)
    took_ms: list[float] = field(default_factory=list)


def pets(path: Path) -> Truth:
    """Boxes by frame and person."""
    truth: Truth = {}
    for frame in ET.parse(path).getroot():  # noqa: S314 - the benchmark's own file
        for person in frame.iter("object"):
            found = person.find("box")
            assert found is not None  # noqa: S101
            height, width, x, y = (float(found.get(k, "0")) for k in ("h", "w", "xc", "yc"))
            place = ((x - width / 2) / 768, (y - height / 2) / 576, width / 768, height / 576)
            truth.setdefault(int(frame.get("number", "")), {})[str(person.get("id"))] = place
    return truth


def cvat(path: Path) -> Truth:
    """Boxes by frame and track."""
    truth: Truth = {}
    for track in ET.parse(path).getroot().iter("track"):  # noqa: S314
        for found in track.iter("box"):
            if found.get("outside") != "1":
                left, top, right, bottom = (float(found.get(k, "0")) for k in ("xtl", "ytl", "xbr", "ybr"))
                place = (left / 352, top / 288, (right - left) / 352, (bottom - top) / 288)
                truth.setdefault(int(found.get("frame", "")), {})[str(track.get("id"))] = place
    return truth


def within(places: NDArray[np.float32], box: Box) -> NDArray[np.bool_]:
    low, high = np.array(box[:2]), np.array(box[:2]) + box[2:]
    return ((places >= low) & (places < high)).all(axis=1)


def over_union(a: Box, b: Box) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


def links(
    tracks: NDArray[np.float32], gap_s: float, before: dict[str, Box], after: dict[str, Box]
) -> dict[str, str]:
    """Which box becomes which: the largest share of a box's points that run to the other, each box once."""
    first, last = tracks[:, 2] < 1e-3, tracks[:, 5] > gap_s - 1e-3
    starts = {i: first & within(tracks[:, :2], a) for i, a in before.items()}
    ends = {j: last & within(tracks[:, 3:5], b) for j, b in after.items()}
    shares = []
    for i, start in starts.items():
        for j, end in ends.items():
            both, points = int((start & end).sum()), int(min(start.sum(), end.sum()))
            if both >= LEAST_TRACKS and both >= LEAST_SHARE * points:
                shares.append((both / points, both, i, j))
    linked: dict[str, str] = {}
    for *_, i, j in sorted(shares, reverse=True):
        if i not in linked and j not in linked.values():
            linked[i] = j
    return linked


def differing(boxes: dict[str, Box], clusters: Sequence[Cluster]) -> dict[str, Box]:
    """The boxes of which at least a tenth differs."""
    mask = np.any([c.mask for c in clusters], axis=0)
    height, width = mask.shape
    kept = {}
    for name, (x, y, w, h) in boxes.items():
        rows = slice(max(int(y * height), 0), int((y + h) * height) + 1)
        part = mask[rows, max(int(x * width), 0) : int((x + w) * width) + 1]
        if part.size and part.mean() > 0.1:
            kept[name] = (x, y, w, h)
    return kept


def judge(pair: FramePair, before: dict[str, Box], after: dict[str, Box], ends: dict[str, float]) -> Tally:
    """One pair; `ends` gives seconds at which objects on one side only came or went."""
    clusters = find_changes([pair], CHANGES)[0].clusters
    if not clusters:
        return Tally()
    began = perf_counter()
    tracks = point_tracks(pair, clusters)
    tally = Tally(took_ms=[1000 * (perf_counter() - began)])
    gap_s = (pair.after.time - pair.before.time).total_seconds()
    before, after = differing(before, clusters), differing(after, clusters)
    for i, j in links(tracks, gap_s, before, after).items():
        if over_union(before[i], after[j]) < 0.5:
            tally.told += 1
            tally.right += i == j
    tally.same = sum(over_union(before[i], after[i]) < 0.5 for i in before.keys() & after.keys())
    for name, second in ends.items():
        if name in after:
            own = (tracks[:, 5] > gap_s - 1e-3) & (tracks[:, 2] > 1e-3) & within(tracks[:, 3:5], after[name])
            seconds, share = tracks[own, 2], 0.1
        elif name in before:
            own = (tracks[:, 2] < 1e-3) & (tracks[:, 5] < gap_s - 1e-3) & within(tracks[:, :2], before[name])
            seconds, share = tracks[own, 5], 0.9
        else:
            continue
        if len(seconds) > 1:
            tally.errors_s.append(abs(float(np.quantile(seconds, share)) - second))
    return tally


def measure(frames: list[Frame], truth: Truth, gap_s: float, hz: float, pairs: int) -> Tally:
    """Pairs of one clip at random times."""
    fps = 1 / float(np.median(np.diff([f.time.timestamp() for f in frames])))
    gap, step = round(gap_s * fps), max(1, round(fps / hz))
    first = {name: min(k for k in truth if name in truth[k]) for k in truth for name in truth[k]}
    last = {name: max(k for k in truth if name in truth[k]) for k in truth for name in truth[k]}
    whole, draw = Tally(), random.Random(0)  # noqa: S311 - reproducible draws
    for _ in range(pairs):
        a = draw.randrange(len(frames) - gap)
        between = tuple(Between(f.time, small_plane(f.luma)) for f in frames[a + step : a + gap : step])
        pair = FramePair(frames[a], frames[a + gap], 0.0, between=between)
        before, after = truth.get(a, {}), truth.get(a + gap, {})
        ends = {n: (first[n] - a) / fps for n in after if a + step < first[n]}
        ends |= {n: (last[n] - a) / fps for n in before if last[n] < a + gap - step}
        one = judge(pair, before, after, ends)
        for name in ("told", "right", "same", "errors_s", "took_ms"):
            setattr(whole, name, getattr(whole, name) + getattr(one, name))
    return whole


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--pairs", type=int, default=40, help="pairs of each clip and gap")
    arguments.add_argument("--hz", type=float, default=2.0, help="frames a second in between")
    chosen = arguments.parse_args()
    if not SHARED.is_dir():
        sys.exit("no real footage beside the checkout (../shared/data): nothing to measure")
    sets = [("opencv_vtest.avi", pets(SHARED / "annotations" / "pets2009" / "PETS2009-S2L1.xml"))]
    sets += [(f"tfl_{name}.mp4", cvat(SHARED / "annotations" / "tfl" / f"{name}.xml")) for name in TFL]
    print(
        "| clip | gap | precision | recall | same objects | came or went, error in s: median, 75 % | time |"
    )
    print("|---|---|---|---|---|---|---|")
    for clip, truth in sets:
        with open_source(str(SHARED / "clips" / clip), SourceOptions(sample_hz=50)) as source:
            frames = list(source)
        for gap_s in (1.0, 3.0, 10.0 if clip.startswith("opencv") else 8.0):
            tally = measure(frames, truth, gap_s, chosen.hz, chosen.pairs)
            precision, recall = tally.right / max(tally.told, 1), tally.right / max(tally.same, 1)
            middle, most = np.quantile(tally.errors_s or [np.nan], (0.5, 0.75))
            print(
                f"| {clip} | {gap_s:g} s | {precision:.2f} | {recall:.2f} | {tally.same} | "
                f"{middle:.1f}, {most:.1f} of {len(tally.errors_s)} | {np.median(tally.took_ms):.0f} ms |",
                flush=True,
            )


if __name__ == "__main__":
    main()
