"""Exact DBSCAN of the active pixels of a raster, without neighbour lists (Ester et al. 1996).

A pixel is core when the disc of radius eps around it holds at least `min_samples` active pixels, itself
included (as scikit-learn counts): a disc is a run per row, so the count is one difference of prefix sums per
row. Clusters are the connected components of core pixels under "distance <= eps": two horizontal runs of core
pixels, dy rows apart, are connected exactly when the gap between them is at most the disc's half width at dy.
An active pixel that is not core joins the cluster of the nearest core pixel within eps, else it is noise.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

_CORE = np.uint8(2)
_FAR = 1 << 40  # beyond every half width
_SMALL_DISC = 8  # discs of so many rows from centre to edge are counted for a whole row at once

Runs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""First and last column of every run; first run of every chain; first chain of every row; row of every chain.

A chain is a maximal sequence of runs of one row whose gaps are at most eps, thus surely of one cluster."""


def dbscan(
    mask: NDArray[np.bool_], eps: float, min_samples: int, device: str | None = None
) -> NDArray[np.int32]:
    """Label the clusters of active pixels, exactly as DBSCAN on their coordinates would.

    The partition of core pixels and the noise equal scikit-learn's; labels count 0, 1, 2, ... in the raster
    order of each cluster's first core pixel. A border pixel joins its nearest core pixel's cluster (of
    equally near ones that of the nearest row, the upper before the lower, the left before the right).

    Args:
        mask: bool ``(h, w)``, or ``(n, h, w)`` for n masks at once.
        eps: radius in pixels, >= 0; a distance of exactly eps counts.
        min_samples: active pixels, itself included, that make a pixel core; >= 1.
        device: None runs numba on the CPU; a torch device (``"cuda"``, ``"cpu"``) runs the tensor version.

    Returns:
        int32 labels of the mask's shape, -1 for inactive pixels and noise.

    Raises:
        ValueError: a mask that is not bool with two or three axes, or parameters out of range.
    """
    if mask.dtype != np.bool_ or mask.ndim not in {2, 3}:
        raise ValueError(f"a mask is bool (h, w) or (n, h, w), not {mask.dtype} {mask.shape}")
    if not (math.isfinite(eps) and eps >= 0) or min_samples < 1:
        raise ValueError(f"eps is {eps} and min_samples {min_samples}; they must be >= 0 and >= 1")
    stack = np.ascontiguousarray(mask if mask.ndim == 3 else mask[None])  # noqa: PLR2004 - axes
    half = half_widths(eps, max(stack.shape[1:]))
    if half[0] == 0:
        labels = _alone(stack, min_samples)
    elif device is None:
        labels = np.empty(stack.shape, np.int32)
        for plane, out in zip(stack, labels, strict=True):
            _label(plane.view(np.uint8), half, min_samples, out)
    else:
        from pipeline.clusters.tensor import label_tensor  # noqa: PLC0415 - torch only where it is asked for

        labels = label_tensor(stack, half, min_samples, device)
    return labels.reshape(mask.shape)


def _alone(masks: NDArray[np.bool_], min_samples: int) -> NDArray[np.int32]:
    """Labels where not even neighbouring pixels are within eps: runs of pixels would join what is apart."""
    if min_samples > 1:
        return np.full(masks.shape, -1, np.int32)
    numbers = masks.reshape(len(masks), masks[:1].size).cumsum(axis=1, dtype=np.int32).reshape(masks.shape)
    return np.where(masks, numbers - 1, np.int32(-1))


def half_widths(eps: float, longest: int) -> NDArray[np.int64]:
    """Half width in pixels of the disc of radius eps at 0, 1, 2, ... rows from its centre, int64.

    Args:
        eps: radius in pixels.
        longest: longer side of the raster; a disc beyond it is cut, which changes nothing.
    """
    rows = np.arange(min(int(eps), longest) + 1, dtype=np.int64)
    widths = np.floor(np.sqrt(np.maximum(eps * eps - rows * rows, 0.0))).astype(np.int64)
    widths += (widths + 1) ** 2 + rows * rows <= eps * eps  # a root that rounding cut short
    widths -= widths**2 + rows * rows > eps * eps  # or made too long
    cut: NDArray[np.int64] = np.minimum(widths, longest)
    return cut


@njit(nogil=True, cache=True)
def _label(
    mask: NDArray[np.uint8], half: NDArray[np.int64], min_samples: int, labels: NDArray[np.int32]
) -> None:
    kind = _cores(mask, half, min_samples)
    runs = _core_runs(kind, half[0])
    parent = np.arange(runs[4].size)
    _connect(runs, half, parent)
    _paint(runs, parent, labels)
    _join_borders(kind, runs, half, labels)


@njit(nogil=True, cache=True)
def _cores(mask: NDArray[np.uint8], half: NDArray[np.int64], min_samples: int) -> NDArray[np.uint8]:
    """Kind of every pixel: 0 inactive, 1 active, 2 core."""
    height, width = mask.shape
    sums = _row_sums(mask, half)
    kind = np.zeros((height, width), np.uint8)
    for y in range(height):
        if sums[y + half.size - 1, -1] == 0:
            continue
        if half.size <= _SMALL_DISC:
            count = _row_counts(sums, half, y, width)
            for x in range(width):
                kind[y, x] = mask[y, x] * (np.uint8(1) + np.uint8(count[x] >= min_samples))
        else:
            for x in range(width):
                if mask[y, x]:
                    kind[y, x] = 2 if _dense(sums, half, min_samples, x, y) else 1
    return kind


@njit(nogil=True, cache=True)
def _row_sums(mask: NDArray[np.uint8], half: NDArray[np.int64]) -> NDArray[np.int32]:
    """Prefix sums of every row, with so wide a margin that a disc around any pixel stays inside."""
    height, width = mask.shape
    above, left = half.size - 1, half[0]
    sums = np.zeros((height + 2 * above, width + 1 + 2 * left), np.int32)
    for y in range(height):
        total = np.int32(0)
        row = sums[y + above]
        for x in range(width):
            total += mask[y, x]
            row[x + left + 1] = total
        row[left + width + 1 :] = total
    return sums


@njit(nogil=True, cache=True)
def _row_counts(sums: NDArray[np.int32], half: NDArray[np.int64], y: int, width: int) -> NDArray[np.int32]:
    """Active pixels in the discs around all pixels of a row: faster than one by one if discs are small."""
    counts = np.zeros(width, np.int32)
    above, left = half.size - 1, half[0]
    for dy in range(-above, above + 1):
        row, reach = sums[y + above + dy], half[abs(dy)]
        ends, starts = row[left + reach + 1 :][:width], row[left - reach :][:width]
        for x in range(width):
            counts[x] += ends[x] - starts[x]
    return counts


@njit(nogil=True, cache=True)
def _dense(sums: NDArray[np.int32], half: NDArray[np.int64], min_samples: int, x: int, y: int) -> bool:
    """Whether the disc around a pixel holds enough; nearest rows first, so that most pixels need few."""
    above, left = half.size - 1, half[0]
    found = 0
    for dy in range(half.size):
        start, end = left + x - half[dy], left + x + half[dy] + 1
        found += sums[y + above - dy, end] - sums[y + above - dy, start]
        if dy > 0:
            found += sums[y + above + dy, end] - sums[y + above + dy, start]
        if found >= min_samples:
            return True
    return False


@njit(nogil=True, cache=True)
def _count_runs(kind: NDArray[np.uint8]) -> int:
    """Number of runs of core pixels, so that the lists of runs are no longer than needed."""
    runs = 0
    for y in range(kind.shape[0]):
        row = kind[y]
        runs += row[0] == _CORE
        for x in range(1, row.size):
            runs += (row[x] == _CORE) & (row[x - 1] != _CORE)
    return runs


@njit(nogil=True, cache=True)
def _core_runs(kind: NDArray[np.uint8], reach: int) -> Runs:
    height, width = kind.shape
    most = _count_runs(kind) + 1
    first, last, chain_run = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    chain_row = np.empty(most, np.int64)
    row_chain = np.empty(height + 1, np.int64)
    runs, chains = 0, 0
    for y in range(height):
        row_chain[y] = chains
        previous = -1  # last core column of this row so far
        for x in range(width):
            if kind[y, x] != _CORE:
                continue
            if previous < 0 or x - previous > 1:
                if previous < 0 or x - previous > reach:
                    chain_run[chains], chain_row[chains] = runs, y
                    chains += 1
                first[runs] = x
                runs += 1
            last[runs - 1] = x
            previous = x
    row_chain[height] = chains
    chain_run[chains] = runs
    return first[:runs], last[:runs], chain_run[: chains + 1], row_chain, chain_row[:chains]


@njit(nogil=True, cache=True)
def _root(parent: NDArray[np.int64], node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _touch(runs: Runs, a: int, b: int, gap: int) -> bool:
    """Whether any run of chain a comes within `gap` columns of any run of chain b."""
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


@njit(nogil=True, cache=True)
def _paint(runs: Runs, parent: NDArray[np.int64], labels: NDArray[np.int32]) -> None:
    """Write the labels of core pixels: roots are numbered in raster order."""
    first, last, chain_run, _, chain_row = runs
    labels[:] = -1
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


@njit(nogil=True, cache=True)
def _join_borders(
    kind: NDArray[np.uint8], runs: Runs, half: NDArray[np.int64], labels: NDArray[np.int32]
) -> None:
    height, width = kind.shape
    for y in range(height):
        for x in range(width):
            if kind[y, x] == 1:
                labels[y, x] = _nearest(runs, half, labels, x, y)


@njit(nogil=True, cache=True)
def _nearest(runs: Runs, half: NDArray[np.int64], labels: NDArray[np.int32], x: int, y: int) -> int:
    """Label of the nearest core pixel within eps, else -1."""
    height, width = labels.shape
    least, label = height * height + width * width, -1
    for dy in range(half.size):
        if dy * dy >= least:
            break
        for row in (y - dy, y + dy):
            if row < 0 or row >= height:
                continue
            for dx in _beside(runs, row, x):
                if abs(dx) <= half[dy] and dx * dx + dy * dy < least:
                    least, label = dx * dx + dy * dy, int(labels[row, x + dx])
    return label


@njit(nogil=True, cache=True)
def _beside(runs: Runs, row: int, x: int) -> tuple[int, int]:
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
