"""Pixels labelled by DBSCAN, as `pipeline.clusters` explains it, and where each label lies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels import Kernel, ahead
from pipeline.kernels.runs import Active, connect, core_runs, join_borders, paint

_SMALL_DISC = 8  # rows from centre to edge: smaller discs are counted for a whole row at once
_CROWDED = 16  # where at least one pixel in 16 of the row is active


@ahead("void", "u1[:,::1]", "u8[:,::1]", "i8[::1]", "i8", "i4[:,::1]")
def label_pixels(
    mask: NDArray[np.uint8],
    words: NDArray[np.uint64],
    half: NDArray[np.int64],
    min_samples: int,
    labels: NDArray[np.int32],
) -> None:
    active = _active(mask, words)
    labels[:] = -1
    if active[0].size < min_samples:
        return
    core = _cores(active, _row_sums(active, mask.shape[1], half), half, min_samples)
    runs = core_runs(active, core, half[0])
    parent = np.arange(runs[4].size)
    connect(runs, half, parent)
    paint(runs, parent, labels)
    join_borders(active, core, runs, half, labels)


@Kernel
def _active(mask: NDArray[np.uint8], words: NDArray[np.uint64]) -> Active:
    """Columns of the active pixels in raster order, and where each row of them starts."""
    starts = np.zeros(mask.shape[0] + 1, np.int64)
    for y in range(mask.shape[0]):
        total = np.int32(0)
        for x in range(mask.shape[1]):
            total = np.int32(total + np.int32(mask[y, x]))
        starts[y + 1] = starts[y] + total
    columns = np.empty(starts[-1], np.int64)
    for y in range(mask.shape[0]):
        place = starts[y]
        if place == starts[y + 1]:
            continue
        for word in range(words.shape[1]):
            if words[y, word] == 0:
                continue
            for x in range(8 * word, 8 * word + 8):
                if mask[y, x]:
                    columns[place] = x
                    place += 1
    return columns, starts


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
    width = sums.shape[1] - 1 - 2 * half[0]
    for y in range(starts.size - 1):
        row = range(starts[y], starts[y + 1])
        if half.size <= _SMALL_DISC and _CROWDED * len(row) >= width:
            counts = _row_counts(sums, half, y, width)
            for i in row:
                core[i] = counts[columns[i]] >= min_samples
        else:
            for i in row:
                core[i] = _is_core(sums, half, min_samples, columns[i], y)
    return core


@Kernel
def _row_counts(sums: NDArray[np.int32], half: NDArray[np.int64], y: int, width: int) -> NDArray[np.int32]:
    """Active pixels in the discs around all pixels of a row: faster than one by one if discs are small."""
    counts = np.zeros(width, np.int32)
    above, left = half.size - 1, half[0]
    for dy in range(-above, above + 1):
        row, reach = sums[y + above + dy], half[abs(dy)]
        stops, starts = row[left + reach + 1 :][:width], row[left - reach :][:width]
        for x in range(width):
            counts[x] += stops[x] - starts[x]
    return counts


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


@ahead("i8[:,::1]", "i4[:,::1]", "i8")
def label_bounds(labels: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Left, top, right, bottom (inclusive) and number of pixels of every label."""
    height, width = labels.shape
    bounds = np.zeros((count, 5), np.int64)
    for label in range(count):
        bounds[label, 0] = width
        bounds[label, 1] = height
    for y in range(height):
        for x in range(width):
            label = labels[y, x]
            if label < 0:
                continue
            row = bounds[label]
            row[0] = min(row[0], x)
            row[1] = min(row[1], y)
            row[2] = max(row[2], x)
            row[3] = y
            row[4] += 1
    return bounds
