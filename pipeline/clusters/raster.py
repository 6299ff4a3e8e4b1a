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
from numpy.typing import NDArray

from pipeline.clusters.runs import Active, connect, core_runs, join_borders, paint
from pipeline.kernels import Kernel, ahead

_SMALL_DISC = 8  # rows from centre to edge: smaller discs are counted for a whole row at once
_CROWDED = 16  # where at least one pixel in 16 of the row is active


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
        labels = _label_singletons(stack, min_samples)
    elif device is None:
        labels = np.empty(stack.shape, np.int32)
        for plane, out in zip(stack, labels, strict=True):
            words = _words(plane)
            _label(words.view(np.uint8), words, half, min_samples, out)
    else:
        from pipeline.clusters.tensor import label_tensor  # noqa: PLC0415 - torch only where it is asked for

        labels = label_tensor(stack, half, min_samples, device)
    return labels.reshape(mask.shape)


def _label_singletons(masks: NDArray[np.bool_], min_samples: int) -> NDArray[np.int32]:
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


def _words(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A mask, its rows padded to whole words of eight pixels, so that empty ones are skipped at once."""
    height, width = mask.shape
    words = np.zeros((height, (width + 7) // 8), np.uint64)
    words.view(np.bool_)[:, :width] = mask
    return words


@ahead("void", "u1[:,::1]", "u8[:,::1]", "i8[::1]", "i8", "i4[:,::1]")
def _label(
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
