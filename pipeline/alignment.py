"""Alignment of a frame pair: the small integer shift of least L2 distance (Jhamtani 2018, section 3)."""

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.alignment import MAX_WIDTH, least_offset

Shift = tuple[int, int]  # ``(dx, dy)`` in pixels: before, moved by this, lies on after


def alignment_shift(before: NDArray[np.uint8], after: NDArray[np.uint8], max_shift: int) -> Shift:
    """Integer shift ``(dx, dy)`` of least L2 distance under RGB, searched in ``-max_shift..max_shift``.

    Every shift is judged on the same central window of the after frame, `max_shift` pixels away from its
    edges, so that all of them compare the same number of pixels. Ties go to the smallest shift. Images that
    are not uint8 ``(h, w, 3)`` (or any one number of channels) of one shape, or leave no window, raise
    `ValueError`.
    """
    _check(before, after, max_shift)
    if max_shift == 0:
        return (0, 0)
    height, width, channels = before.shape
    span = range(-max_shift, max_shift + 1)
    shifts = [(dx, dy) for dy in span for dx in span]
    shifts.sort(key=lambda shift: (shift[0] ** 2 + shift[1] ** 2, shift[1], shift[0]))
    offsets = np.array([((max_shift - dx) * channels, max_shift - dy) for dx, dy in shifts], np.int64)
    window = after[max_shift : height - max_shift, max_shift : width - max_shift]
    lines = np.ascontiguousarray(window).reshape(height - 2 * max_shift, -1)
    return shifts[least_offset(np.ascontiguousarray(before).reshape(height, -1), lines, offsets)]


def _check(before: NDArray[np.uint8], after: NDArray[np.uint8], max_shift: int) -> None:
    if before.shape != after.shape or before.ndim != 3 or {before.dtype, after.dtype} != {np.dtype(np.uint8)}:  # noqa: PLR2004 - axes
        raise ValueError(
            f"alignment takes two uint8 (h, w, 3) images of one shape, not {before.dtype} {before.shape} "
            f"and {after.dtype} {after.shape}"
        )
    height, width, channels = before.shape
    if max_shift < 0:
        raise ValueError(f"max_shift is {max_shift}; it must be 0 or more pixels")
    if 2 * max_shift >= min(height, width):
        raise ValueError(f"images of {width}x{height} are too small for shifts of {max_shift} pixels")
    if width * channels > MAX_WIDTH:
        raise ValueError(f"images {width} pixels wide are too wide to align: resize them to analysis size")


def shift_image(image: NDArray[np.uint8], shift: Shift) -> NDArray[np.uint8]:
    """Move an image ``(h, w)`` or ``(h, w, c)`` by ``(dx, dy)`` pixels, positive to the right and down.

    The edge is replicated where nothing comes in. ``(0, 0)`` gives the image itself, else it is a new one.
    """
    dx, dy = shift
    if (dx, dy) == (0, 0):
        return image
    height, width = image.shape[:2]
    left, top = max(dx, 0), max(dy, 0)
    framed = cv2.copyMakeBorder(image, top, max(-dy, 0), left, max(-dx, 0), cv2.BORDER_REPLICATE)
    y, x = top - dy, left - dx
    return np.ascontiguousarray(framed[y : y + height, x : x + width])
