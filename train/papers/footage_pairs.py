"""Pairs of real footage: drawn at random for people to annotate, or captioned from labelled frames.

Bare pairs are random frames of one video whose L2 distance under RGB lies between a lower and an upper
threshold, as Spot-the-diff was made (Jhamtani and Berg-Kirkpatrick 2018, section 2).

A captioned pair is two labelled frames (`train.footage.labels`) of one camera. An object that the detectors
are sure of, without an overlapping one of its family on the other frame, has appeared or disappeared. Nothing
is said of anything that the difference mask does not show, and a pair is left out where the mask shows more
than that explains.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from models.boxes import Box, area, intersection
from models.detections import overlaps
from pipeline.changes import ChangeOptions, image_changes
from pipeline.changes.clusters import Cluster
from pipeline.distance import l2_rgb
from pipeline.pairs import FramePair
from pipeline.settings import SCREENING_BLOCK
from pipeline.sources import Frame, SourceError, SourceOptions, open_source
from pipeline.thresholds import PairThresholds, calibrate
from train import Progress
from train.footage.labels import LabelledFrame, by_camera, picture, read_frames
from train.papers.generated.folder import NO_CHANGE, plain_sentence
from train.samples import SampleChange, SampleError, new_folder, sample_entry, write_entries, write_image

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


_SAME_PLACE = 0.3  # of a family that overlap more (IoU) may be one: nothing is said of them
_SHOWN = 0.3  # share of an object's box that clusters must cover
_EXPLAINED = 0.5  # share of a cluster's box that changed objects must cover
_TRIES = 20
_VALIDATION = 6  # every so many-th camera is held out


def write_footage_pairs(
    frames: Path, out: Path, pairs: int, seed: int = 0, progress: Progress = lambda _what, _done, _all: None
) -> dict[str, int]:
    """Write pairs in the layout of `train.samples`; validation cameras are in no training pair.

    Returns how many pairs each split has; fewer than asked for where the footage gives no more.
    """
    cameras = by_camera(read_frames(frames))
    names = sorted(name for name, own in cameras.items() if len(own) > 1)
    if len(names) < 2:  # noqa: PLR2004 - one to learn from, one to hold out
        raise SampleError(f"{frames} needs labelled frames of at least two cameras, two of each")
    held_out = names[::_VALIDATION] if len(names) >= _VALIDATION else names[:1]
    learn = [name for name in names if name not in held_out]
    written: dict[str, int] = {}
    with new_folder(out) as folder:
        for split, own, count in (("train", learn, pairs), ("val", held_out, max(pairs // 10, 1))):
            rng, entries = np.random.default_rng([seed, len(written)]), []
            for entry in _entries(
                frames, [cameras[name] for name in own], folder, split, count=count, rng=rng
            ):
                entries.append(entry)
                progress(split, len(entries), count)
            write_entries(folder / f"{split}.json", entries)
            if not entries:
                raise SampleError(
                    f"no two frames of {', '.join(own)} differ in what their labels show alone; "
                    "label more footage"
                )
            written[split] = len(entries)
        (folder / "footage.json").write_text(json.dumps({"frames": frames.name, "pairs": written}) + "\n")
    return written


def _entries(
    frames: Path,
    cameras: Sequence[Sequence[LabelledFrame]],
    folder: Path,
    split: str,
    *,
    count: int,
    rng: np.random.Generator,
) -> Iterator[dict[str, object]]:
    """Draw pairs until there are enough, all cameras about equally often, and write their images."""
    kinds: Counter[str] = Counter()
    for _ in range(_TRIES * count):
        if kinds.total() == count:
            return
        own = cameras[int(rng.integers(len(cameras)))]
        first, second = (own[int(k)] for k in rng.choice(len(own), 2, replace=False))
        before, after = picture(frames, first), picture(frames, second)
        if before.shape != after.shape:
            continue
        changes = _changes(first, second, image_changes(before, after, ChangeOptions())[1])
        # As in Spot-the-diff, few pairs are without a change.
        if changes is None or (not changes and kinds["distractor"] > count // 10):
            continue
        name, kind = f"{split}{kinds.total():06d}", "changed" if changes else "distractor"
        kinds[kind] += 1
        write_image(folder / f"{name}.png", before)
        write_image(folder / f"{name}_2.png", after)
        said = tuple(c.sentence for c in changes) or (NO_CHANGE[0],)
        yield sample_entry(name, dict.fromkeys(said), first.camera, kind, map(asdict, changes))


def _changes(
    before: LabelledFrame, after: LabelledFrame, clusters: Sequence[Cluster]
) -> tuple[SampleChange, ...] | None:
    """The changes that the clusters show, largest first; None where they show more than is known."""
    results = []
    seen = [("disappeared", vote, after) for vote in before.votes]
    seen += [("appeared", vote, before) for vote in after.votes]
    for kind, vote, other in seen:
        rivals = [v.box for v in other.votes if v.family == vote.family]
        if not vote.sure or overlaps([vote.box], rivals).max(initial=0.0) > _SAME_PLACE:
            continue
        family = "bicycle" if vote.family == "two-wheeler" else vote.family
        label = max(vote.kinds, key=lambda each: each[1])[0] if vote.kinds else family
        if _covered_share(vote.box, [c.box for c in clusters]) >= _SHOWN:
            first, second = (None, vote.box) if kind == "appeared" else (vote.box, None)
            said = plain_sentence(kind, label, vote.box)
            results.append(SampleChange(kind, label, 1, first, second, said))
    known = [box for c in results if (box := c.box_after or c.box_before)]
    if any(_covered_share(cluster.box, known) < _EXPLAINED for cluster in clusters):
        return None
    return tuple(sorted(results, key=lambda change: -change.area))


def _covered_share(box: Box, others: Sequence[Box]) -> float:
    """Share of a box that other boxes cover, at most 1; where these overlap, more than that."""
    return min(sum(intersection(box, other) for other in others) / max(area(box), 1e-9), 1.0)
