"""The change stage per pair, one thread: L2 distance, alignment, difference mask, clusters, salience."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.alignment import alignment_shift
from pipeline.changes import ChangeOptions, image_changes
from pipeline.changes.difference import difference
from pipeline.clusters import dbscan
from pipeline.distance import l2_rgb

Image = NDArray[np.uint8]
CLIPS = Path(__file__).resolve().parents[2] / "shared" / "data" / "clips"
NAMES = (
    "opencv_vtest.avi",
    "tfl_a1-barnet-way.mp4",
    "tfl_elephant-castle-walworth.mp4",
    "intel_bottle-detection.mp4",
)
MODES = {
    "fine, 480x270": ChangeOptions(size=(270, 480), delta=38, eps=3, min_samples=10, min_area=0.001),
    "paper, 480x270": ChangeOptions(size=(270, 480)),
    "paper, 224x224": ChangeOptions(),
}


def milliseconds(call: Callable[[], object], rounds: int = 101) -> float:
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - start))
    return median(times)


def made() -> tuple[Image, Image]:
    """Texture, sensor noise, three objects that came."""
    random = np.random.default_rng(0)
    texture = cv2.GaussianBlur(random.normal(120, 400, (540, 960, 3)), (0, 0), 4).clip(0, 255)
    before, after = (
        np.clip(texture + random.normal(0, 4, texture.shape), 0, 255).astype(np.uint8) for _ in "ab"
    )
    for x, y in ((100, 100), (500, 300), (800, 80)):
        after[y : y + 90, x : x + 60] = (200, 40, 60)
    return before, after


def pairs() -> Iterator[tuple[str, Image, Image]]:
    yield "made", *made()
    for name in NAMES:
        if not (CLIPS / name).exists():
            continue
        with av.open(CLIPS / name) as container:
            decoded = zip(range(60), container.decode(video=0), strict=False)
            frames = [frame.to_ndarray(format="rgb24") for _, frame in decoded]
        yield name, frames[0], frames[-1]


def main() -> None:
    cv2.setNumThreads(1)
    print("ms a pair, frames already at analysis size")
    print("total     l2  align   mask  dbscan  clusters  mode            pair")
    for mode, options in MODES.items():
        for name, large_before, large_after in pairs():
            size = options.size[::-1]
            before, after = (
                cv2.resize(i, size, interpolation=cv2.INTER_AREA) for i in (large_before, large_after)
            )
            mask = difference(before, after, options).mask
            found = image_changes(before, after, options)[1]

            def stage(a: Image = before, b: Image = after, options: ChangeOptions = options) -> object:
                return l2_rgb(a, b), image_changes(a, b, options)

            parts = (
                milliseconds(lambda: l2_rgb(before, after)),  # noqa: B023 - called at once
                milliseconds(lambda: alignment_shift(before, after, options.max_shift)),  # noqa: B023
                milliseconds(lambda: difference(before, after, options).mask),  # noqa: B023
                milliseconds(lambda: dbscan(mask, options.eps, options.min_samples)),  # noqa: B023
            )
            times = (milliseconds(stage), *parts[:2], parts[2] - parts[1], parts[3])
            print(
                "{:5.2f}  {:5.2f}  {:5.2f}  {:5.2f}  {:6.2f}".format(*times)
                + f"  {len(found):8d}  {mode:15s} {name}"
            )


if __name__ == "__main__":
    main()
