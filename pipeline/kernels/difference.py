"""Two frames: their L2 distance, the shift of the least, the light matched, which pixels differ, and how."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels import Kernel, ahead

MAX_WIDTH = 33_000  # elements a row: 33,000 * 255^2 < 2^31

_EVERY = 8  # of these, every eighth judges a first guess
_TRIALS = 40  # first guesses: with 40 % of the frame changed, all of them miss once in 10^7
_APART = 24  # grey levels between two pixels that can tell a gain


@ahead("i8[:,::1]", "u1[:,::1]", "u1[:,::1]", "i8", "i8")
def squared_blocks(a: NDArray[np.uint8], b: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.int64]:
    """Sums of squared differences over blocks of `rows` x `columns` elements of two contiguous planes."""
    height, width = a.shape
    sums = np.zeros(((height + rows - 1) // rows, (width + columns - 1) // columns), np.int64)
    for y in range(height):
        for k in range(sums.shape[1]):
            start, end = k * columns, (k + 1) * columns
            sums[y // rows, k] += _row_distance(a[y, start:end], b[y, start:end])
    return sums


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


@ahead("u1[:,:,::1]", "u1[:,::1]", "u1[:,::1]")
def light_table(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Look-up table ``(1, 256, 3)`` from before's levels to after's."""
    table = np.empty((1, 256, 3), np.uint8)
    for channel in range(3):
        gain, offset = _line(before[:, channel].astype(np.float32), after[:, channel].astype(np.float32))
        for level in range(256):
            table[0, level, channel] = np.uint8(min(max(round(gain * level + offset), 0), 255))
    return table


@Kernel
def _line(x: NDArray[np.float32], y: NDArray[np.float32]) -> tuple[float, float]:
    """Gain and offset of y over x: least squares over what lies within 2.5 deviations of the line so far."""
    gain, offset = _first_line(x, y)
    for _ in range(3):
        limit = np.float32(max(2.5 * 1.4826 * _median_residual(x, y, gain, offset), 3.0))
        n, sx, sy, sxx, sxy = 0, 0.0, 0.0, 0.0, 0.0
        for i in range(x.size):
            if abs(y[i] - gain * x[i] - offset) <= limit:
                n += 1
                sx += x[i]
                sy += y[i]
                sxx += x[i] * x[i]
                sxy += x[i] * y[i]
        if n == 0:
            break
        spread = sxx - sx * sx / n
        gain = np.float32(min(max((sxy - sx * sy / n) / spread, 0.4), 2.5) if spread > 25.0 * n else 1.0)
        offset = np.float32((sy - gain * sx) / n)
    return float(gain), float(offset)


@Kernel
def _first_line(x: NDArray[np.float32], y: NDArray[np.float32]) -> tuple[np.float32, np.float32]:
    """The line of least median residual among no change and those through two pixels.

    Least squares would follow a truck that fills a third of the frame, and then explain it away.
    """
    few_x, few_y = x[::_EVERY].copy(), y[::_EVERY].copy()
    gain, offset = np.float32(1.0), np.float32(0.0)
    least = _median_residual(few_x, few_y, gain, offset)
    for trial in range(_TRIALS):
        i, j = (trial * 7919) % x.size, (trial * 104_729 + x.size // 2) % x.size
        apart = x[i] - x[j]
        slope = np.float32((y[i] - y[j]) / apart) if abs(apart) >= _APART else np.float32(1.0)
        if not 0.4 <= slope <= 2.5:  # noqa: PLR2004 - the range of gains
            continue
        start = y[i] - slope * x[i]
        median = _median_residual(few_x, few_y, slope, start)
        if median < least:
            gain, offset, least = slope, start, median
    return gain, offset


@Kernel
def _median_residual(
    x: NDArray[np.float32], y: NDArray[np.float32], gain: np.float32, offset: np.float32
) -> float:
    """Median distance of y from the line, to a quarter of a grey level, by counting."""
    counts = np.zeros(1024, np.int32)
    for i in range(x.size):
        counts[min(int(abs(y[i] - gain * x[i] - offset) * 4), 1023)] += 1
    below, level = counts[0], 0
    while 2 * below < x.size:
        level += 1
        below += counts[level]
    return (level + 0.5) / 4


@ahead("b1[:,::1]", "u1[:,:,::1]", "u1[:,:,::1]", "f8", "f8")
def active_pixels(
    before: NDArray[np.uint8], after: NDArray[np.uint8], delta: float, noise_factor: float
) -> NDArray[np.bool_]:
    """Pixels whose squared RGB distance exceeds the square of max(delta, noise_factor x median distance)."""
    height, width = before.shape[:2]
    squares = np.empty((height, width), np.int32)
    for y in range(height):
        a, b, row = before[y], after[y], squares[y]
        for x in range(width):
            red = np.int32(a[x, 0]) - np.int32(b[x, 0])
            green = np.int32(a[x, 1]) - np.int32(b[x, 1])
            blue = np.int32(a[x, 2]) - np.int32(b[x, 2])
            row[x] = np.int32(red * red) + np.int32(green * green) + np.int32(blue * blue)
    median = _median_square(squares, 1 << 12)  # a short list of counts stays in the fastest cache
    if median < 0:
        median = _median_square(squares, 3 * 255 * 255 + 1)
    limit = max(delta, noise_factor * np.sqrt(median))
    active: NDArray[np.bool_] = squares > np.int32(min(limit * limit, 2e9))
    return active


@Kernel
def _median_square(squares: NDArray[np.int32], levels: int) -> int:
    """The lower median; -1 where it is not below `levels`."""
    counts = np.zeros((4, levels + 1), np.int32)  # four lists: equal neighbours do not wait for each other
    for row in squares:
        for x in range(row.size):
            counts[x & 3, min(row[x], levels)] += 1
    below = 0
    for level in range(levels):
        below += counts[0, level] + counts[1, level] + counts[2, level] + counts[3, level]
        if 2 * below >= squares.size:
            return level
    return -1


@ahead("i8[:,::1]", "u1[:,:,::1]", "u1[:,:,::1]", "i4[:,::1]", "i8")
def grey_moments(
    before: NDArray[np.uint8], after: NDArray[np.uint8], labels: NDArray[np.int32], count: int
) -> NDArray[np.int64]:
    """Pixels, sums, squared sums and product sum of the grey values R + 2 G + B per label, ``(K, 6)``."""
    moments = np.zeros((count, 6), np.int64)
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            label = labels[y, x]
            if label < 0:
                continue
            a = np.int64(before[y, x, 0]) + 2 * np.int64(before[y, x, 1]) + np.int64(before[y, x, 2])
            b = np.int64(after[y, x, 0]) + 2 * np.int64(after[y, x, 1]) + np.int64(after[y, x, 2])
            row = moments[label]
            row[0] += 1
            row[1] += a
            row[2] += b
            row[3] += a * a
            row[4] += b * b
            row[5] += a * b
    return moments
