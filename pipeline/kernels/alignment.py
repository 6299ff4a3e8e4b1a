"""The shift of least L2 distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels import Kernel, ahead

MAX_WIDTH = 33_000  # elements a row: 33,000 * 255^2 < 2^31


@ahead("i8", "u1[:,::1]", "u1[:,::1]", "i8[:,::1]")
def least_offset(before: NDArray[np.uint8], window: NDArray[np.uint8], offsets: NDArray[np.int64]) -> int:
    """Index of the offset ``(x, y)`` at which before is nearest to the window of after; the first of equals.

    An offset is dropped as soon as its partial sum reaches the least so far, which is exact because sums only
    grow. Rows are taken in the order of their distance under the second shift, the greatest first: they hold
    what moved and what has texture, so that a few of them decide.
    """
    height, width = window.shape
    distances = np.empty((2, height), np.int64)
    for s in range(2):
        x, y = offsets[s]
        for row in range(height):
            distances[s, row] = _row_distance(before[y + row, x : x + width], window[row])
    rows = np.argsort(-distances[1])
    least, best = distances[0].sum(), 0
    for s in range(1, offsets.shape[0]):
        x, y = offsets[s]
        total = np.int64(0)
        for row in rows:
            total += _row_distance(before[y + row, x : x + width], window[row])
            if total >= least:
                break
        if total < least:
            least, best = total, s
    return best


@Kernel
def _row_distance(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> int:
    """Sum of squared differences of at most MAX_WIDTH elements."""
    total = np.int32(0)  # half the width of 64 bits: twice the lanes
    for x in range(a.size):
        d = np.int32(a[x]) - np.int32(b[x])
        total = np.int32(total + np.int32(d * d))
    return int(total)
