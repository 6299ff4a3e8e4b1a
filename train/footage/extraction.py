"""Random frame pairs of footage, as Spot-the-diff was made, for people to annotate.

Jhamtani and Berg-Kirkpatrick 2018, section 2: random frames of one video whose L2 distance under RGB lies
between a lower and an upper threshold.
"""

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pipeline.distance import l2_rgb
from pipeline.pairs import FramePair
from pipeline.settings import SCREENING_BLOCK
from pipeline.sources import Frame, SourceError, SourceOptions, open_source
from pipeline.thresholds import PairThresholds, calibrate
from train.samples import new_folder, write_image

POOL = 48  # frames of one video that are held to draw pairs from: 1,128 pairs, some 300 MB of 1080p footage
TRIES = 20  # pairs that are drawn at most for each one that is wanted


def random_pairs(
    frames: Iterable[Frame], count: int, thresholds: PairThresholds, seed: int, *, pool: int = POOL
) -> Iterator[FramePair]:
    """At most `count` pairs of frames of one video, the earlier one before; a pair is drawn once at most.

    The lower threshold is compared with the largest distance over blocks, the upper with that of the whole
    image, as in screening. Of the frames `pool` are drawn at random and held.
    """
    draw = random.Random(seed)  # noqa: S311 - reproducible draws, no secret
    drawn = _reservoir(frames, pool, draw)
    every = [(i, j) for j in range(len(drawn)) for i in range(j) if drawn[i].time < drawn[j].time]
    found = 0
    for i, j in draw.sample(every, min(len(every), TRIES * count)):
        if found == count:
            return
        pair = _in_band(drawn[i], drawn[j], thresholds)
        if pair is not None:
            found += 1
            yield pair


def _reservoir(frames: Iterable[Frame], size: int, draw: random.Random) -> list[Frame]:
    """`size` frames drawn evenly from a stream of unknown length, in the order of time."""
    held: list[Frame] = []
    for number, frame in enumerate(frames):
        if number < size:
            held.append(frame)
        elif (place := draw.randrange(number + 1)) < size:
            held[place] = frame
    return sorted(held, key=lambda frame: frame.time)


def _in_band(before: Frame, after: Frame, thresholds: PairThresholds) -> FramePair | None:
    if before.image.shape != after.image.shape:
        return None
    scale = before.image.shape[1] / before.luma.shape[1]
    l2, blocks = l2_rgb(before.image, after.image, max(1, round(SCREENING_BLOCK * scale)))
    if l2 > thresholds.upper or blocks.max() <= thresholds.lower:
        return None
    return FramePair(before, after, l2)


def extract(paths: Sequence[Path], out: Path, pairs_per_video: int, seed: int = 0) -> tuple[int, list[str]]:
    """Write random pairs of videos as ``<id>.png`` and ``<id>_2.png`` with one line each in ``pairs.jsonl``.

    The folder appears when all is written. Thresholds are calibrated for every video. Returns the number of
    pairs, and a sentence for each video that gave fewer than wanted or cannot be read whole.
    """
    problems: list[str] = []
    number = 0
    with new_folder(out) as folder, (folder / "pairs.jsonl").open("w", encoding="utf-8") as lines:
        for place, path in enumerate(paths):
            start = number
            try:
                for pair in _video_pairs(path, pairs_per_video, 1_000_003 * seed + place):
                    name = f"{re.sub(r'[^A-Za-z0-9.-]+', '_', path.stem)}-{number:06d}"
                    write_image(folder / f"{name}.png", pair.before.image)
                    write_image(folder / f"{name}_2.png", pair.after.image)
                    lines.write(json.dumps(_entry(name, pair, path)) + "\n")
                    number += 1
            except SourceError as error:
                problems.append(f"{path.name}: {error}")
                continue
            if number - start < pairs_per_video:
                problems.append(f"{path.name}: {number - start} of {pairs_per_video} pairs")
    return number, problems


def _video_pairs(path: Path, count: int, seed: int) -> Iterator[FramePair]:
    with open_source(str(path), SourceOptions()) as source:
        thresholds = calibrate(source) or PairThresholds()
    with open_source(str(path), SourceOptions()) as source:
        yield from random_pairs(source, count, thresholds, seed)


def _entry(name: str, pair: FramePair, path: Path) -> dict[str, object]:
    return {
        "id": name,
        "before": f"{name}.png",
        "after": f"{name}_2.png",
        "camera": pair.before.camera,
        "before_time": pair.before.time.isoformat(),
        "after_time": pair.after.time.isoformat(),
        "before_pts": pair.before.pts,
        "after_pts": pair.after.pts,
        "l2": round(pair.l2, 3),
        "source": str(path),
    }
