"""Raster DBSCAN against scikit-learn's on the same masks, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import av
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN

from pipeline.changes import ChangeOptions, difference
from pipeline.clusters import dbscan

Mask = NDArray[np.bool_]
CLIP = Path(__file__).resolve().parents[2] / "shared" / "data" / "clips" / "opencv_vtest.avi"


def blobs(height: int, width: int) -> Mask:
    """People and vehicles as ellipses of 85 % active pixels, and specks of noise: 4-8 % of the frame."""
    random = np.random.default_rng(1)
    y, x = np.mgrid[:height, :width]
    mask = random.random((height, width)) < 0.002
    for _ in range(12):
        centre, radii = (
            random.random(2) * (height, width),
            (0.02 + 0.05 * random.random(2)) * (height, height),
        )
        inside = ((y - centre[0]) / radii[0]) ** 2 + ((x - centre[1]) / radii[1]) ** 2 <= 1
        mask |= inside & (random.random((height, width)) < 0.85)
    return mask


def footage(height: int, width: int) -> Mask:
    with av.open(CLIP) as container:
        frames = [
            f.to_ndarray(format="rgb24") for _, f in zip(range(60), container.decode(video=0), strict=False)
        ]
    return difference(frames[0], frames[-1], ChangeOptions(size=(height, width))).mask


def milliseconds(call: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - start))
    return median(times)


def masks() -> Iterator[tuple[str, Mask]]:
    for height, width in ((224, 224), (270, 480), (540, 960)):
        yield f"blobs {width}x{height}", blobs(height, width)
        if CLIP.exists():
            yield f"vtest {width}x{height}", footage(height, width)


def main() -> None:
    print("peer / ours  numba ms  torch ms  sklearn ms   eps  min_samples  active  mask")
    for name, mask in masks():
        for eps, min_samples in ((20.0, 9), (3.0, 10)):
            points = np.argwhere(mask)
            peer = DBSCAN(eps=eps, min_samples=min_samples)
            labels = dbscan(mask, eps, min_samples)
            dbscan(mask, eps, min_samples, "cpu")
            core = peer.fit(points).core_sample_indices_
            if not np.array_equal(labels[mask][core], peer.labels_[core]):
                raise SystemExit(f"{name}: the partitions differ; the times mean nothing")
            ours = milliseconds(lambda: dbscan(mask, eps, min_samples), 51)  # noqa: B023 - called at once
            torch = milliseconds(lambda: dbscan(mask, eps, min_samples, "cpu"), 5)  # noqa: B023
            theirs = milliseconds(lambda: peer.fit(points), 3)  # noqa: B023
            times = f"{theirs / ours:11.0f}  {ours:8.3f}  {torch:8.2f}  {theirs:10.1f}"
            print(f"{times}  {eps:4.0f}  {min_samples:11d}  {mask.mean():6.1%}  {name}")


if __name__ == "__main__":
    main()
