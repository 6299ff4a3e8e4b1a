"""Pixels labelled by DBSCAN, by union-find over runs of core pixels: see `pipeline.changes.clusters`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels import Kernel, ahead

Active = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Columns of the active pixels in raster order; the place of each row's first one, and last their number."""

Runs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""First and last column of every run; first run of every chain; first chain of every row; row of every chain.

A chain is a maximal sequence of runs of one row whose gaps are at most eps, thus surely of one cluster."""

_SMALL_DISC = 8  # rows from centre to edge: smaller discs are counted for a whole row at once
_CROWDED = 16  # where at least one pixel in 16 of the row is active
_TILE = 16  # pixels
_FAR = 1 << 40  # beyond every half width


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
    runs = _core_runs(active, core, half[0])
    parent = np.arange(runs[4].size)
    _connect(runs, half, parent)
    _paint(runs, parent, labels)
    _join_borders(active, core, runs, half, labels)


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


@Kernel
def _core_runs(active: Active, core: NDArray[np.bool_], reach: int) -> Runs:
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
def _connect(runs: Runs, half: NDArray[np.int64], parent: NDArray[np.int64]) -> None:
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
def _paint(runs: Runs, parent: NDArray[np.int64], labels: NDArray[np.int32]) -> None:
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
def _join_borders(
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
