"""The difference mask: which pixels of an aligned pair differ (Jhamtani 2018, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipeline.alignment import Shift, alignment_shift, shifted


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """How changes are found; the defaults are the paper's mode (size, eps and min_samples as its authors').

    Attributes:
        size: ``(height, width)`` in pixels at which frames are compared.
        max_shift: largest alignment shift along each axis, in pixels of `size`.
        delta: least L2 distance of two RGB vectors that makes a pixel active, grey levels.
        noise_factor: a pixel must also differ by this many times the median pixel distance of the pair.
        match_light: match gain and offset of each channel of before to after, robustly. The paper is silent.
        blur: side in pixels of the box that smooths both frames before they are compared; 1 for none.
        eps: DBSCAN radius in pixels of `size`.
        min_samples: DBSCAN's active pixels within eps that make a pixel core.
        min_area: clusters with fewer active pixels than this share of the frame are dropped.
        light_correlation: a cluster whose grey values still correlate above this between before and after is
            a change of light and is dropped; None keeps it.
        max_clusters: as many clusters are kept, those of most active pixels.
    """

    size: tuple[int, int] = (224, 224)
    max_shift: int = 4
    delta: float = 30.0
    noise_factor: float = 4.5
    match_light: bool = True
    blur: int = 3
    eps: float = 20.0
    min_samples: int = 9
    min_area: float = 0.0
    light_correlation: float | None = 0.7
    max_clusters: int = 8


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """An aligned pair at analysis size.

    Attributes:
        shift: ``(dx, dy)`` that lays before on after.
        before: before, moved, its light matched, smoothed; RGB uint8 ``(h, w, 3)``.
        after: after, smoothed; RGB uint8 ``(h, w, 3)``.
        mask: active pixels, bool ``(h, w)``.
    """

    shift: Shift
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    mask: NDArray[np.bool_]


def difference_mask(
    before: NDArray[np.uint8], after: NDArray[np.uint8], options: ChangeOptions
) -> NDArray[np.bool_]:
    """Active pixels of a pair: those whose RGB vectors differ by more than delta once the pair is aligned.

    Args:
        before: RGB uint8 ``(h, w, 3)`` of any size.
        after: RGB uint8 ``(h, w, 3)`` of any size.
        options: how frames are compared.

    Returns:
        bool of `options.size`, in the coordinates of the after frame. Pixels on which nothing of before
        comes to lie are inactive.

    Raises:
        ValueError: an image is not RGB uint8 ``(h, w, 3)``, or too small for the shift.
    """
    return difference(before, after, options).mask


def difference(before: NDArray[np.uint8], after: NDArray[np.uint8], options: ChangeOptions) -> Difference:
    """Align a pair, match its light, smooth it and threshold it; arguments and errors of `difference_mask`."""
    small, onto = _resized(before, options.size), _resized(after, options.size)
    shift = alignment_shift(small, onto, options.max_shift)
    moved = shifted(small, shift)
    if options.match_light:
        moved = light_matched(moved, onto)
    if options.blur > 1:
        box = (options.blur, options.blur)
        moved, onto = cv2.blur(moved, box), cv2.blur(onto, box)
    mask = _active(moved, onto, options.delta, options.noise_factor)
    dx, dy = shift
    height, width = mask.shape
    mask[:, : max(dx, 0)] = False
    mask[:, width + min(dx, 0) :] = False
    mask[: max(dy, 0)] = False
    mask[height + min(dy, 0) :] = False
    return Difference(shift, moved, onto, mask)


def _resized(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:  # noqa: PLR2004 - RGB
        raise ValueError(f"a frame is RGB uint8 (h, w, 3), not {image.dtype} {image.shape}")
    height, width = size
    if image.shape[:2] == size:
        return np.ascontiguousarray(image)
    shrinks = height <= image.shape[0] and width <= image.shape[1]
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=way), np.uint8)


def light_matched(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Before with each channel's gain and offset matched to after, by trimmed least squares on a pixel grid.

    Args:
        before: RGB uint8 ``(h, w, 3)``.
        after: RGB uint8, the same shape.

    Returns:
        RGB uint8 of the same shape; gains stay within 0.4..2.5.
    """
    step = max(1, round((before.shape[0] * before.shape[1] / 6000) ** 0.5))
    table = _light_table(
        np.ascontiguousarray(before[::step, ::step]).reshape(-1, 3),
        np.ascontiguousarray(after[::step, ::step]).reshape(-1, 3),
    )
    return np.asarray(cv2.LUT(before, table), np.uint8)


@njit(nogil=True, cache=True)
def _light_table(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Look-up table ``(1, 256, 3)`` from before's levels to after's."""
    table = np.empty((1, 256, 3), np.uint8)
    residuals = np.empty(before.shape[0])
    for channel in range(3):
        gain, offset, limit = 1.0, 0.0, 1e9
        for _ in range(5):
            n, sx, sy, sxx, sxy = 0, 0.0, 0.0, 0.0, 0.0
            for i in range(before.shape[0]):
                x, y = float(before[i, channel]), float(after[i, channel])
                if abs(y - gain * x - offset) <= limit:
                    n += 1
                    sx += x
                    sy += y
                    sxx += x * x
                    sxy += x * y
            spread = sxx - sx * sx / n
            gain = (sxy - sx * sy / n) / spread if spread > 25.0 * n else 1.0
            gain = min(max(gain, 0.4), 2.5)
            offset = (sy - gain * sx) / n
            for i in range(before.shape[0]):
                residuals[i] = abs(float(after[i, channel]) - gain * float(before[i, channel]) - offset)
            limit = max(2.5 * 1.4826 * np.median(residuals), 3.0)
        for level in range(256):
            table[0, level, channel] = np.uint8(min(max(round(gain * level + offset), 0), 255))
    return table


@njit(nogil=True, cache=True)
def _active(
    before: NDArray[np.uint8], after: NDArray[np.uint8], delta: float, noise_factor: float
) -> NDArray[np.bool_]:
    """Pixels whose squared RGB distance exceeds the square of max(delta, noise_factor x median distance)."""
    height, width = before.shape[:2]
    squares = np.empty((height, width), np.int32)
    counts = np.zeros(3 * 255 * 255 + 1, np.int32)
    for y in range(height):
        for x in range(width):
            total = 0
            for channel in range(3):
                d = int(before[y, x, channel]) - int(after[y, x, channel])
                total += d * d
            squares[y, x] = total
            counts[total] += 1
    half, seen, median = (height * width + 1) // 2, 0, 0
    while True:
        seen += counts[median]
        if seen >= half:
            break
        median += 1
    limit = max(delta, noise_factor * np.sqrt(median))
    return squares > limit * limit
