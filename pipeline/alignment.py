"""Alignment of a frame pair by small integer shifts, the one of least L2 distance (Jhamtani 2018, section 3)."""

from __future__ import annotations

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

Shift = tuple[int, int]
"""``(dx, dy)`` in pixels: content of the before frame moved by this lies on the after frame."""

_ROW_STRIDE = 16


def alignment_shift(before: NDArray[np.uint8], after: NDArray[np.uint8], max_shift: int) -> Shift:
    """Integer shift of least L2 distance under RGB, searched exhaustively.

    Every shift is judged on the same central window of the after frame, `max_shift` pixels away from its
    edges, so that all of them compare the same number of pixels. Ties go to the smallest shift.

    Args:
        before: RGB uint8 ``(h, w, 3)`` (or any one number of channels).
        after: the same shape.
        max_shift: largest shift in pixels along each axis; 0 gives ``(0, 0)``.

    Returns:
        ``(dx, dy)``, each within ``-max_shift..max_shift``.

    Raises:
        ValueError: images of different shapes or not uint8, a negative `max_shift`, or no window left.
    """
    if before.shape != after.shape or before.ndim != 3 or before.dtype != np.uint8 or after.dtype != np.uint8:  # noqa: PLR2004 - axes
        raise ValueError(
            f"alignment takes two uint8 (h, w, 3) images of one shape, not {before.dtype} {before.shape} "
            f"and {after.dtype} {after.shape}"
        )
    if max_shift < 0:
        raise ValueError(f"max_shift is {max_shift}; it must be 0 or more pixels")
    height, width, channels = before.shape
    if 2 * max_shift >= min(height, width):
        raise ValueError(f"images of {width}x{height} are too small for shifts of {max_shift} pixels")
    if max_shift == 0:
        return (0, 0)
    span = range(-max_shift, max_shift + 1)
    shifts = sorted(
        ((dx, dy) for dy in span for dx in span), key=lambda s: (s[0] ** 2 + s[1] ** 2, s[1], s[0])
    )
    flat = (np.ascontiguousarray(image).reshape(height, -1) for image in (before, after))
    best = _least(*flat, np.array(shifts, np.int64), max_shift, channels)
    return shifts[best]


def shifted(image: NDArray[np.uint8], shift: Shift) -> NDArray[np.uint8]:
    """Move an image by ``(dx, dy)`` pixels; the edge is replicated where nothing comes in.

    Args:
        image: ``(h, w)`` or ``(h, w, c)``.
        shift: ``(dx, dy)``; positive moves to the right and down.

    Returns:
        A new image of the same shape and dtype, or the image itself for the shift ``(0, 0)``.
    """
    dx, dy = shift
    if (dx, dy) == (0, 0):
        return image
    height, width = image.shape[:2]
    left, top = max(dx, 0), max(dy, 0)
    framed = cv2.copyMakeBorder(image, top, max(-dy, 0), left, max(-dx, 0), cv2.BORDER_REPLICATE)
    y, x = top - dy, left - dx
    return np.ascontiguousarray(framed[y : y + height, x : x + width])


@njit(nogil=True, cache=True)
def _least(
    before: NDArray[np.uint8], after: NDArray[np.uint8], shifts: NDArray[np.int64], margin: int, channels: int
) -> int:
    """Index of the shift of least squared distance; the first of equals.

    A shift is dropped as soon as its partial sum reaches the least so far, which is exact because sums only
    grow. Rows are taken at a stride, so that a few of them already stand for the whole frame.
    """
    height, width = after.shape
    start = margin * channels
    count = width - 2 * start
    least = np.int64(2**62)
    best = 0
    for s in range(shifts.shape[0]):
        dx, dy = shifts[s, 0] * channels, shifts[s, 1]
        total = np.int64(0)
        for phase in range(_ROW_STRIDE):
            for y in range(margin + phase, height - margin, _ROW_STRIDE):
                total += _squared(
                    after[y, start : start + count], before[y - dy, start - dx : start - dx + count]
                )
                if total >= least:
                    break
            if total >= least:
                break
        if total < least:
            least = total
            best = s
    return best


@njit(nogil=True, cache=True)
def _squared(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> int:
    total = np.int32(0)  # overflows from 33,025 elements a row: 11,008 RGB pixels
    for x in range(a.size):
        d = np.int32(a[x]) - np.int32(b[x])
        total = np.int32(total + np.int32(d * d))
    return np.int64(total)
