"""Components of core pixels, run by run: union-find over the rows of a raster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels import Kernel

Active = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Columns of the active pixels in raster order; the place of each row's first one, and last their number."""

Runs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""First and last column of every run; first run of every chain; first chain of every row; row of every chain.

A chain is a maximal sequence of runs of one row whose gaps are at most eps, thus surely of one cluster."""

_TILE = 16  # pixels
_FAR = 1 << 40  # beyond every half width


@Kernel
def core_runs(active: Active, core: NDArray[np.bool_], reach: int) -> Runs:
    """Runs of neighbouring core pixels, and chains of runs whose gaps are at most `reach` (>= 1)."""
    columns, starts = active
    height = starts.size - 1
    most = core.sum()
    first, last = np.empty(most, np.int64), np.empty(most, np.int64)
    chain_run, chain_row = np.empty(most + 1, np.int64), np.empty(most, np.int64)
    row_chain = np.empty(height + 1, np.int64)
    runs, chains = 0, 0
    for y in range(height):
        row_chain[y] = chains
        previous = -_FAR  # last core column of this row so far
        for i in range(starts[y], starts[y + 1]):
            if not core[i]:
                continue
            x = columns[i]
            if x - previous > 1:
                if x - previous > reach:
                    chain_run[chains], chain_row[chains] = runs, y
                    chains += 1
                first[runs] = x
                runs += 1
            last[runs - 1] = x
            previous = x
    row_chain[height] = chains
    chain_run[chains] = runs
    return first[:runs], last[:runs], chain_run[: chains + 1], row_chain, chain_row[:chains]


@Kernel
def _root(parent: NDArray[np.int64], node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@Kernel
def connect(runs: Runs, half: NDArray[np.int64], parent: NDArray[np.int64]) -> None:
    """Unite chains of rows at most eps apart; the earlier chain in raster order becomes the root."""
    first, last, chain_run, row_chain, _ = runs
    height = row_chain.size - 1
    for dy in range(1, min(half.size, height)):
        for y in range(height - dy):
            low = row_chain[y + dy]
            for a in range(row_chain[y], row_chain[y + 1]):
                left, right = first[chain_run[a]] - half[dy], last[chain_run[a + 1] - 1] + half[dy]
                while low < row_chain[y + dy + 1] and last[chain_run[low + 1] - 1] < left:
                    low += 1
                for b in range(low, row_chain[y + dy + 1]):
                    if first[chain_run[b]] > right:
                        break
                    one, other = _root(parent, a), _root(parent, b)
                    if one != other and _touch(runs, a, b, half[dy]):
                        parent[max(one, other)] = min(one, other)


@Kernel
def _touch(runs: Runs, a: int, b: int, gap: int) -> bool:
    """True where any run of chain a comes within `gap` columns of any run of chain b."""
    first, last, chain_run, _, _ = runs
    i, j = chain_run[a], chain_run[b]
    while i < chain_run[a + 1] and j < chain_run[b + 1]:
        if last[i] + gap < first[j]:
            i += 1
        elif last[j] + gap < first[i]:
            j += 1
        else:
            return True
    return False


@Kernel
def paint(runs: Runs, parent: NDArray[np.int64], labels: NDArray[np.int32]) -> None:
    """Write the labels of core pixels into labels of -1: roots are numbered in raster order."""
    first, last, chain_run, _, chain_row = runs
    number = np.empty(parent.size, np.int32)
    count = 0
    for chain in range(parent.size):
        root = _root(parent, chain)
        if root == chain:
            number[chain] = count
            count += 1
        for run in range(chain_run[chain], chain_run[chain + 1]):
            for x in range(first[run], last[run] + 1):
                labels[chain_row[chain], x] = number[root]


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
    tiles = _tiles(runs, labels.shape[0], labels.shape[1])
    for y in range(starts.size - 1):
        for i in range(starts[y], starts[y + 1]):
            if not core[i] and _is_near_core(tiles, half[0], columns[i], y):
                labels[y, columns[i]] = _nearest_label(runs, half, labels, columns[i], y)


@Kernel
def _tiles(runs: Runs, height: int, width: int) -> NDArray[np.bool_]:
    """Which tiles of the raster hold core pixels: most noise lies far from all of them."""
    first, last, chain_run, _, chain_row = runs
    tiles = np.zeros((height // _TILE + 1, width // _TILE + 1), np.bool_)
    for chain in range(chain_row.size):
        for run in range(chain_run[chain], chain_run[chain + 1]):
            tiles[chain_row[chain] // _TILE, first[run] // _TILE : last[run] // _TILE + 1] = True
    return tiles


@Kernel
def _is_near_core(tiles: NDArray[np.bool_], reach: int, x: int, y: int) -> bool:
    """True where any tile within `reach` rows and columns holds core pixels."""
    bottom, right = (
        min((y + reach) // _TILE + 1, tiles.shape[0]),
        min((x + reach) // _TILE + 1, tiles.shape[1]),
    )
    for row in range(max(y - reach, 0) // _TILE, bottom):
        for column in range(max(x - reach, 0) // _TILE, right):
            if tiles[row, column]:
                return True
    return False


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
    first, last, chain_run, row_chain, _ = runs
    begin, end = chain_run[row_chain[row]], chain_run[row_chain[row + 1]]
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
