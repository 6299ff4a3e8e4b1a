"""The kernels in one thread, beside their peers in the same run: L2 distance, DBSCAN, the change stage.

    python benchmarks/bench_kernels.py [--rounds 51]

Masks and frames are drawn, and taken from opencv_vtest.avi where it lies beside the checkout.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import av
import bench_pair
import cv2
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN

from pipeline.changes import ChangeOptions, image_changes
from pipeline.changes.clusters import dbscan
from pipeline.changes.difference import alignment_shift, difference
from pipeline.distance import l2_luma, l2_rgb

Image = NDArray[np.uint8]
PAPER = {"eps": 20.0, "min_samples": 9}


def milliseconds(call: Callable[[], object], rounds: int) -> float:
    """Median wall time after two calls that warm up."""
    return bench_pair.milliseconds(call, rounds)[1]


def image_pairs() -> dict[str, tuple[Image, Image]]:
    """By name; those of vtest are six seconds apart."""
    found = {"drawn": bench_pair.made()}
    if bench_pair.VTEST.exists():
        with av.open(bench_pair.VTEST) as container:
            decoded = zip(range(60), container.decode(video=0), strict=False)
            frames = [np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for _, frame in decoded]
        found["vtest"] = frames[0], frames[-1]
    return found


def print_l2(rounds: int) -> None:
    """The kernel gives a map of blocks; cv2.norm and NumPy give none."""
    random = np.random.default_rng(0)
    print("| L2 distance | ours, ms | cv2.norm | NumPy float64 |\n|---|---|---|---|")
    for name, shape, kernel in (
        ("RGB 1920x1080", (1080, 1920, 3), l2_rgb),
        ("luma 480x270", (270, 480), l2_luma),
    ):
        a = random.integers(0, 256, shape, np.uint8)
        b = np.clip(a + random.normal(0, 6, shape), 0, 255).astype(np.uint8)
        calls: tuple[Callable[[], object], ...] = (
            partial(kernel, a, b),
            partial(cv2.norm, a, b, cv2.NORM_L2),
            lambda a=a, b=b: np.sqrt(np.mean((a.astype(np.float64) - b) ** 2)),
        )
        print(f"| {name} |", " | ".join(f"{milliseconds(call, rounds):.3f}" for call in calls), "|")


def print_dbscan(rounds: int) -> None:
    """With the paper's parameters; fails where the partition is not scikit-learn's."""
    print("\n| DBSCAN | active | numba, ms | torch | scikit-learn |\n|---|---|---|---|---|")
    for name, (before, after) in image_pairs().items():
        for size in ((224, 224), (270, 480)):
            mask = difference(before, after, ChangeOptions(size=size)).mask
            points, peer = np.argwhere(mask), DBSCAN(**PAPER)
            core = peer.fit(points).core_sample_indices_
            if not np.array_equal(dbscan(mask, **PAPER)[mask][core], peer.labels_[core]):
                raise SystemExit(f"{name}: the partitions differ; the times mean nothing")
            ours = milliseconds(partial(dbscan, mask, **PAPER), rounds)
            torch = milliseconds(partial(dbscan, mask, **PAPER, device="cpu"), 5)
            theirs = milliseconds(partial(peer.fit, points), 3)
            title = f"{name} {size[1]}x{size[0]}"
            print(f"| {title} | {mask.mean():.1%} | {ours:.3f} | {torch:.2f} | {theirs:.1f} |")


def print_changes(rounds: int) -> None:
    print("\n| change stage, ms a pair | whole | alignment | difference | clusters |\n|---|---|---|---|---|")
    for name, images in image_pairs().items():
        for options in (ChangeOptions(size=(270, 480)), ChangeOptions()):
            size = options.size[::-1]
            before, after = (cv2.resize(i, size, interpolation=cv2.INTER_AREA) for i in images)
            times = (
                milliseconds(partial(image_changes, before, after, options), rounds),
                milliseconds(partial(alignment_shift, before, after, options.max_shift), rounds),
                milliseconds(partial(difference, before, after, options), rounds),
            )
            count = len(image_changes(before, after, options)[1])
            print(f"| {name} {size[0]}x{size[1]} |", " | ".join(f"{t:.2f}" for t in times), f"| {count} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=51)
    rounds = parser.parse_args().rounds
    cv2.setNumThreads(1)
    print_l2(rounds)
    print_dbscan(rounds)
    print_changes(rounds)


if __name__ == "__main__":
    main()
