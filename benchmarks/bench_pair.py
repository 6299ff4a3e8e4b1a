"""What a pair with six clusters costs the default captioner on a CPU, stage by stage; prints a table.

    python benchmarks/bench_pair.py [--threads 2] [--rounds 40] [--gap 1] [--checkpoint FILE]
    python benchmarks/bench_pair.py --device cuda [--batch 64]   # pairs a second in batches

Each figure is the least of all rounds, the median beside it: other programs can only make a round slower. The
whole is `find_changes` and `narrate` of one pair, from RGB frames to finished sentences. The stages are
measured one by one, with what comes before them done: the difference and its clusters; the views;
what the detector sees in them; the facts (what is real, links, what is to be told); the words. What remains
of the whole is outlines, colours and the hashes of the pictures.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from statistics import median

import av
import cv2
import numpy as np

from daemon.config.device import choose_device
from models import load_captioner
from models.captioner import Captioner, DescribeOptions
from models.grounded.grounded import Grounded
from pipeline.changes import Change, ChangeOptions, find_changes
from pipeline.narration.batch import pair_input
from pipeline.narration.narration import narrate
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame, Image
from pipeline.sources.frame import LazyPicture

CLUSTERS = 6
VTEST = Path(__file__).resolve().parents[2] / "shared" / "data" / "clips" / "opencv_vtest.avi"
START = datetime(2026, 1, 1, tzinfo=UTC)


def frame_pair(before: Image, after: Image, gap_s: float = 1) -> FramePair:
    """Two images, so many seconds apart, as a pair that waits to be narrated."""
    grey = [np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8) for image in (before, after)]
    pictures = [partial(np.asarray, image) for image in (before, after)]
    frames = [
        Frame("yard", START + timedelta(seconds=k * gap_s), Clock.FILE, k, plane, LazyPicture(held))
        for k, (held, plane) in enumerate(zip(pictures, grey, strict=True))
    ]
    return FramePair(frames[0], frames[1], 10.0)


def made() -> tuple[Image, Image]:
    """1080p: texture, sensor noise, six figures of a head and a body that came."""
    random = np.random.default_rng(0)
    texture = cv2.GaussianBlur(random.normal(120, 400, (1080, 1920, 3)), (0, 0), 6).clip(0, 255)
    before, after = (
        np.clip(texture + random.normal(0, 4, texture.shape), 0, 255).astype(np.uint8) for _ in "ab"
    )
    for k in range(CLUSTERS):
        x, y = 180 + 300 * k, 300 + 90 * (k % 3)
        cv2.ellipse(after, (x, y + 110), (40, 90), 0, 0, 360, (60 + 20 * k, 30, 40), -1)
        cv2.circle(after, (x, y), 24, (200, 160, 130), -1)
    return before, after


def found(options: ChangeOptions, captioner: Captioner, gap_s: float) -> Iterator[tuple[str, FramePair]]:
    """A made pair and, where the footage is there, one of vtest, both with six clusters."""
    pair = frame_pair(*made(), gap_s)
    yield "made, 1920x1080", pair
    if not VTEST.exists():
        return
    with av.open(VTEST) as container:
        frames = [
            f.to_ndarray(format="rgb24") for k, f in enumerate(container.decode(video=0)) if k % 20 == 0
        ]
    for after in frames[1:]:
        pair = frame_pair(frames[0], after, gap_s)
        if len(find_changes([pair], options, captioner.salience)[0].clusters) == CLUSTERS:
            yield "vtest, 768x576", pair
            return


def milliseconds(call: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Least and median time of a call, after two to warm up."""
    call()
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - start))
    return min(times), median(times)


def stages(
    pair: FramePair, options: ChangeOptions, captioner: Captioner, rounds: int
) -> dict[str, tuple[float, float]]:

    def differing() -> list[Change]:
        return find_changes([pair], options, captioner.salience)

    changes = differing()
    clusters = len(changes[0].clusters)
    if clusters != CLUSTERS:
        raise ValueError(f"the pair has {clusters} clusters, not {CLUSTERS}")
    pairs = [pair_input(change, captioner) for change in changes]
    if not isinstance(captioner, Grounded):
        raise TypeError(f"captioner {captioner.name} has no such stages")
    seen = milliseconds(lambda: captioner.observe(pairs), rounds)
    known = milliseconds(lambda: captioner.facts(pairs), rounds)
    [facts] = captioner.facts(pairs)
    return {
        "difference, clusters": milliseconds(differing, rounds),
        "views": milliseconds(lambda: [pair_input(change, captioner) for change in changes], rounds),
        "detector": seen,
        "facts": (known[0] - seen[0], known[1] - seen[1]),
        "words": milliseconds(lambda: captioner.word(facts, DescribeOptions()), rounds),
        "whole": milliseconds(lambda: narrate(differing(), captioner), rounds),
    }


def throughput(device: str, checkpoint: Path | None, size: int) -> None:
    """Print pairs a second in batches of stills of vtest, a second apart, or of the drawn pair."""
    captioner = load_captioner(checkpoint, device=device)
    options = ChangeOptions.of(captioner.record.get("changes", {}))
    images = [made()]
    if VTEST.exists():
        with av.open(VTEST) as container:
            decoded = islice(container.decode(video=0), 0, 640, 10)
            images = list(pairwise(frame.to_ndarray(format="rgb24") for frame in decoded))
    batch = [frame_pair(*images[k % len(images)]) for k in range(size)]
    where = None if device == "cpu" else device
    print("| stage | on | pairs a second |\n|---|---|---|")
    for place in {None: 0, where: 0}:
        least, _ = milliseconds(partial(find_changes, batch, options, captioner.salience, place), 4)
        print(f"| difference, clusters | {place or 'cpu'} | {1000 * size / least:.1f} |")
    least, _ = milliseconds(
        lambda: narrate(find_changes(batch, options, captioner.salience, where), captioner), 4
    )
    print(f"| whole | {device} | {1000 * size / least:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--checkpoint", type=Path, help="another one than the packaged")
    parser.add_argument("--gap", type=float, default=1, help="seconds between; from 10 on it is seen finer")
    parser.add_argument("--device", help="pairs a second on this device: cpu, cuda")
    parser.add_argument("--batch", type=int, default=64)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    cv2.setNumThreads(asked.threads)
    if asked.device:
        throughput(choose_device(asked.device), asked.checkpoint, asked.batch)
        return
    captioner = load_captioner(asked.checkpoint)
    options = ChangeOptions.of(captioner.record.get("changes", {}))
    pairs = dict(found(options, captioner, asked.gap))
    measured = {name: stages(pair, options, captioner, asked.rounds) for name, pair in pairs.items()}
    print(f"| ms a pair, {asked.threads} threads: least (median) |", " | ".join(measured), "|")
    print(f"|{'---|' * (1 + len(measured))}")
    for stage in next(iter(measured.values())):
        times = (f"{each[stage][0]:.1f} ({each[stage][1]:.1f})" for each in measured.values())
        print(f"| {stage} |", " | ".join(times), "|")
    for name, pair in pairs.items():
        sentences = narrate(find_changes([pair], options, captioner.salience), captioner)[0].sentences
        print(f"{name}: {' '.join(s.text for s in sentences)}")


if __name__ == "__main__":
    main()
