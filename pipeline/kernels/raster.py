"""Pixels labelled by DBSCAN, as `pipeline.clusters` explains it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels import Kernel, ahead
from pipeline.kernels.runs import Active, connect, core_runs, join_borders, paint


@ahead("void", "i8[::1]", "i8[::1]", "i8[::1]", "i8", "i4[:,::1]")
def label_pixels(
    columns: NDArray[np.int64],
    starts: NDArray[np.int64],
    half: NDArray[np.int64],
    min_samples: int,
    labels: NDArray[np.int32],
) -> None:
    """Write the labels of active pixels, see `Active`, into labels of -1."""
    active = columns, starts
    core = _cores(active, _row_sums(active, labels.shape[1], half), half, min_samples)
    runs = core_runs(active, core)
    parent = np.arange(runs[0].size)
    connect(runs, half, parent)
    paint(runs, parent, labels)
    join_borders(active, core, runs, half, labels)


@Kernel
def _row_sums(active: Active, width: int, half: NDArray[np.int64]) -> NDArray[np.int32]:
    """Prefix sums of every row, with so wide a margin that a disc around any pixel stays inside."""
    columns, starts = active
    height, above, left = starts.size - 1, half.size - 1, half[0]
    sums = np.zeros((height + 2 * above, width + 1 + 2 * left), np.int32)
    for y in range(height):
        row = sums[y + above, left + 1 :]
        for i in range(starts[y], starts[y + 1]):
            total = np.int32(i + 1 - starts[y])
            stop = columns[i + 1] if i + 1 < starts[y + 1] else row.size
            for x in range(columns[i], stop):
                row[x] = total
    return sums


@Kernel
def _cores(
    active: Active, sums: NDArray[np.int32], half: NDArray[np.int64], min_samples: int
) -> NDArray[np.bool_]:
    """Which of the active pixels are core."""
    columns, starts = active
    core = np.empty(columns.size, np.bool_)
    for y in range(starts.size - 1):
        for i in range(starts[y], starts[y + 1]):
            core[i] = _is_core(sums, half, min_samples, columns[i], y)
    return core


@Kernel
def _is_core(sums: NDArray[np.int32], half: NDArray[np.int64], min_samples: int, x: int, y: int) -> bool:
    """True where the disc around a pixel holds enough; counts the nearest rows first: few are needed."""
    above, left = half.size - 1, half[0]
    count = 0
    for dy in range(half.size):
        start, end = left + x - half[dy], left + x + half[dy] + 1
        count += sums[y + above - dy, end] - sums[y + above - dy, start]
        if dy > 0:
            count += sums[y + above + dy, end] - sums[y + above + dy, start]
        if count >= min_samples:
            return True
    return False
