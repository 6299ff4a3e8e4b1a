"""Frame pairs from footage, written to disk for training and for `narrated describe --pairs`.

Two ways to choose them: ``random``, as Spot-the-diff was made (Jhamtani and Berg-Kirkpatrick 2018, section 2:
random frames of one video whose L2 distance under RGB lies between a lower and an upper threshold), and
``candidate``, the very pairs that a live camera or a replay of the same footage would find.
"""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from pipeline.distance import l2_rgb
from pipeline.pairs import FramePair, candidate_pairs
from pipeline.sources import Frame, SourceError, SourceOptions, open_source
from pipeline.thresholds import SCREENING_BLOCK, PairThresholds, calibrate
from train.samples import new_folder, write_image

_log = logging.getLogger(__name__)

Mode = Literal["candidate", "random"]

POOL = 48
"""Frames of one video that are held to draw pairs from: 1,128 pairs, some 300 MB of 1080p footage."""

TRIES = 20
"""Pairs that are drawn at most for each one that is wanted."""


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """Options of choosing pairs.

    Attributes:
        mode: random (as the paper) or candidate (as live and replay).
        seed: of the random pairs; the same seed gives the same pairs of the same footage.
        thresholds: None calibrates them for every video from the video itself.
    """

    mode: Mode = "random"
    seed: int = 0
    thresholds: PairThresholds | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """Counts of what was written.

    Attributes:
        pairs: number of pairs.
        problems: one sentence for each video that gave fewer pairs than wanted or could not be read whole.
    """

    pairs: int
    problems: tuple[str, ...]


_DEFAULTS = ExtractOptions()


def random_pairs(
    frames: Iterable[Frame],
    count: int,
    thresholds: PairThresholds,
    seed: int,
    *,
    pool: int = POOL,
) -> Iterator[FramePair]:
    """Random pairs of frames of one video whose L2 distance under RGB lies between the thresholds.

    The lower threshold is compared with the largest distance over blocks, the upper with that of the whole
    image, as in screening; the blocks cover the same part of the frame as there. A pair is drawn once at
    most. Where `TRIES` draws per wanted pair, or all pairs there are, give too few, a warning says so.

    Args:
        frames: frames of one camera; `pool` of them are drawn at random and held.
        count: number of pairs wanted.
        thresholds: lower and upper.
        seed: of the draws.
        pool: number of frames to draw from, at least 2.

    Yields:
        At most `count` pairs, the earlier frame before.

    Raises:
        ValueError: `count` is negative or `pool` below 2.
    """
    if count < 0 or pool < 2:  # noqa: PLR2004 - a pair
        raise ValueError(f"cannot draw {count} pairs from {pool} frames: give count >= 0 and pool >= 2")
    draw = random.Random(seed)  # noqa: S311 - reproducible draws, no secret
    drawn = _reservoir(frames, pool, draw)
    every = [(i, j) for j in range(len(drawn)) for i in range(j) if drawn[i].time < drawn[j].time]
    tried = draw.sample(every, min(len(every), TRIES * count))
    result = 0
    for i, j in tried:
        if result == count:
            return
        pair = _in_band(drawn[i], drawn[j], thresholds)
        if pair is not None:
            result += 1
            yield pair
    if result < count:
        camera = drawn[0].camera if drawn else "the footage"
        _log.warning(
            "%s: %d of %d random pairs lie between the thresholds (lower %.1f, upper %.1f) after %d draws "
            "from %d frames; take longer footage, a larger pool or other thresholds",
            *(camera, result, count, thresholds.lower, thresholds.upper, len(tried), len(drawn)),
        )


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
    """The pair if its distance lies in the band and the images are of one size."""
    if before.image.shape != after.image.shape:
        return None
    scale = before.image.shape[1] / before.luma.shape[1]
    l2, blocks = l2_rgb(before.image, after.image, max(1, round(SCREENING_BLOCK * scale)))
    if l2 > thresholds.upper or blocks.max() <= thresholds.lower:
        return None
    return FramePair(before, after, l2)


def extract(
    paths: Sequence[Path], out: Path, pairs_per_video: int, options: ExtractOptions = _DEFAULTS
) -> Extraction:
    """Write frame pairs of videos as ``<id>.png`` and ``<id>_2.png`` with one line each in ``pairs.jsonl``.

    A line holds id, before and after (image names, relative to the folder of the file), camera,
    before_time, after_time, before_pts, after_pts, l2, beyond_upper and source (the video as it was given).
    The folder appears when all is written, so that a run that broke off leaves none.

    Args:
        paths: video files or folders of stills, one camera each.
        out: folder to make; it must not exist.
        pairs_per_video: at most this many pairs of each video (candidate pairs: the first ones).
        options: see there.

    Returns:
        What was written.

    Raises:
        train.samples.SampleError: `out` exists already or cannot be written.
        ValueError: `paths` is empty, or `pairs_per_video` is not positive.
    """
    if not paths or pairs_per_video < 1:
        raise ValueError(f"nothing to extract: {len(paths)} videos, {pairs_per_video} pairs of each")
    problems: list[str] = []
    number = 0
    with new_folder(out) as folder, (folder / "pairs.jsonl").open("w", encoding="utf-8") as lines:
        for place, path in enumerate(paths):
            start = number
            try:
                for pair in islice(footage_pairs(path, pairs_per_video, place, options), pairs_per_video):
                    name = f"{re.sub(r'[^A-Za-z0-9.-]+', '_', path.stem)}-{number:06d}"
                    _write_pair(folder, name, pair)
                    lines.write(json.dumps(_entry(name, pair, path)) + "\n")
                    number += 1
            except SourceError as error:
                problems.append(f"{path.name}: {error}")
                continue
            if number - start < pairs_per_video:
                problems.append(f"{path.name}: {number - start} of {pairs_per_video} pairs")
    return Extraction(number, tuple(problems))


def footage_pairs(path: Path, count: int, place: int, options: ExtractOptions) -> Iterator[FramePair]:
    """Pairs of one video, chosen as `options` say; `place` sets its random draws apart from other videos'.

    Raises:
        SourceError: the video cannot be read.
    """
    thresholds = options.thresholds
    if thresholds is None:
        with open_source(str(path), SourceOptions()) as source:
            thresholds = calibrate(source) or PairThresholds()
    with open_source(str(path), SourceOptions()) as source:
        if options.mode == "candidate":
            yield from candidate_pairs(source, thresholds)
        else:
            seed = 1_000_003 * options.seed + place
            yield from random_pairs(source, count, thresholds, seed)
        if source.report.damaged:
            _log.warning("%s: %d damaged frames were left out", path.name, source.report.corrupt)


def _write_pair(folder: Path, name: str, pair: FramePair) -> None:
    write_image(folder / f"{name}.png", pair.before.image)
    write_image(folder / f"{name}_2.png", pair.after.image)


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
        "beyond_upper": pair.beyond_upper,
        "source": str(path),
    }
