"""Components of core pixels, run by run: union-find over the rows of a raster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels import Kernel

Active = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Columns of the active pixels in raster order; the place of each row's first one, and last their number."""

Runs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""First column, last column and row of every run of core pixels; the first run of each row, and last their
number."""

_FAR = 1 << 40  # beyond every half width


@Kernel
def core_runs(active: Active, core: NDArray[np.bool_]) -> Runs:
    """Runs of neighbouring core pixels in raster order."""
    columns, starts = active
    most = core.sum()
    first, last, row = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    row_run = np.empty(starts.size, np.int64)
    runs = 0
    for y in range(starts.size - 1):
        row_run[y] = runs
        for i in range(starts[y], starts[y + 1]):
            if not core[i]:
                continue
            if runs == row_run[y] or columns[i] - last[runs - 1] > 1:
                first[runs], row[runs] = columns[i], y
                runs += 1
            last[runs - 1] = columns[i]
    row_run[-1] = runs
    return first[:runs], last[:runs], row[:runs], row_run


@Kernel
def _root(parent: NDArray[np.int64], node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@Kernel
def connect(runs: Runs, half: NDArray[np.int64], parent: NDArray[np.int64]) -> None:
    """Unite runs at most eps apart; the earlier one in raster order becomes the root."""
    first, last, _, row_run = runs
    height = row_run.size - 1
    for dy in range(min(half.size, height)):
        for y in range(height - dy):
            low, end = row_run[y + dy], row_run[y + dy + 1]
            for a in range(row_run[y], row_run[y + 1]):
                while low < end and last[low] < first[a] - half[dy]:
                    low += 1
                for b in range(low, end):
                    if first[b] > last[a] + half[dy]:
                        break
                    one, other = _root(parent, a), _root(parent, b)
                    parent[max(one, other)] = min(one, other)


@Kernel
def paint(runs: Runs, parent: NDArray[np.int64], labels: NDArray[np.int32]) -> None:
    """Write the labels of core pixels into labels of -1: roots are numbered in raster order."""
    first, last, row, _ = runs
    number = np.empty(parent.size, np.int32)
    count = 0
    for run in range(parent.size):
        root = _root(parent, run)
        if root == run:
            number[run] = count
            count += 1
        labels[row[run], first[run] : last[run] + 1] = number[root]


@Kernel
def join_borders(
    active: Active,
    core: NDArray[np.bool_],
    runs: Runs,
    half: NDArray[np.int64],
    labels: NDArray[np.int32],
) -> None:
    """Write the labels of active pixels that are not core."""
    columns, starts = active
    for y in range(starts.size - 1):
        for i in range(starts[y], starts[y + 1]):
            if not core[i]:
                labels[y, columns[i]] = _nearest_label(runs, half, labels, columns[i], y)


@Kernel
def _nearest_label(runs: Runs, half: NDArray[np.int64], labels: NDArray[np.int32], x: int, y: int) -> int:
    """Label of the nearest core pixel within eps, else -1."""
    height, width = labels.shape
    least, label = height * height + width * width, -1
    for dy in range(half.size):
        if dy * dy >= least:
            break
        for row in (y - dy, y + dy):
            if row < 0 or row >= height:
                continue
            for dx in _row_neighbours(runs, row, x):
                if abs(dx) <= half[dy] and dx * dx + dy * dy < least:
                    least, label = dx * dx + dy * dy, int(labels[row, x + dx])
    return label


@Kernel
def _row_neighbours(runs: Runs, row: int, x: int) -> tuple[int, int]:
    """Steps from column x of a row to its nearest core pixel on the left (or at x) and on the right."""
    first, last, _, row_run = runs
    begin, end = row_run[row], row_run[row + 1]
    low, high = begin, end
    while low < high:  # the first run that begins right of x
        middle = (low + high) // 2
        if first[middle] > x:
            high = middle
        else:
            low = middle + 1
    left = min(last[low - 1] - x, 0) if low > begin else -_FAR
    right = first[low] - x if low < end else _FAR
    return left, right
