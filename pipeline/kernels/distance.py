"""Sums of squared differences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels import Kernel, ahead


@ahead("i8[:,::1]", "u1[:,::1]", "u1[:,::1]", "i8", "i8")
def squared_blocks(a: NDArray[np.uint8], b: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.int64]:
    """Sums of squared differences over blocks of `rows` x `columns` elements of two contiguous planes."""
    height, width = a.shape
    sums = np.zeros(((height + rows - 1) // rows, (width + columns - 1) // columns), np.int64)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        fours = top + (bottom - top) // 4 * 4
        for y in range(top, fours, 4):
            _add_four_rows(a[y : y + 4], b[y : y + 4], columns, sums[top // rows])
        for y in range(fours, bottom):
            _add_row(a[y], b[y], columns, sums[top // rows])
    return sums


@Kernel
def _add_row(a: NDArray[np.uint8], b: NDArray[np.uint8], columns: int, sums: NDArray[np.int64]) -> None:
    width = a.size
    for k in range(sums.size):
        start, count = np.uint64(k * columns), np.uint64(min(columns, width - k * columns))
        total = np.int32(0)
        for i in range(count):
            d = np.int32(a[start + i]) - np.int32(b[start + i])
            total = np.int32(total + np.int32(d * d))
        sums[k] += total


@Kernel
def _add_four_rows(a: NDArray[np.uint8], b: NDArray[np.uint8], columns: int, sums: NDArray[np.int64]) -> None:
    """Four rows at a time: adding up the lanes of a vector at the end of a block costs like a short row.

    Unsigned indices spare the check for negative ones, 32-bit sums double the lanes; both keep the loop in
    vectors.
    """
    width = a.shape[1]
    a0, a1, a2, a3 = a[0], a[1], a[2], a[3]
    b0, b1, b2, b3 = b[0], b[1], b[2], b[3]
    for k in range(sums.size):
        start, count = np.uint64(k * columns), np.uint64(min(columns, width - k * columns))
        t0, t1, t2, t3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
        for i in range(count):
            x = start + i
            d = np.int32(a0[x]) - np.int32(b0[x])
            t0 = np.int32(t0 + np.int32(d * d))
            d = np.int32(a1[x]) - np.int32(b1[x])
            t1 = np.int32(t1 + np.int32(d * d))
            d = np.int32(a2[x]) - np.int32(b2[x])
            t2 = np.int32(t2 + np.int32(d * d))
            d = np.int32(a3[x]) - np.int32(b3[x])
            t3 = np.int32(t3 + np.int32(d * d))
        sums[k] += np.int64(t0) + np.int64(t1) + np.int64(t2) + np.int64(t3)
