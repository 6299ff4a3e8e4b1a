"""The difference mask: which pixels of an aligned pair differ (Jhamtani 2018, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.alignment import Shift, alignment_shift, shift_image
from pipeline.kernels import Kernel, ahead
from pipeline.sources import Polygon, polygon_mask

Masks = tuple[Polygon, ...]

_GRID = 4000  # pixels from which the light is matched: enough for two numbers a channel
_EVERY = 8  # of these, every eighth judges a first guess
_TRIALS = 40  # first guesses: with 40 % of the frame changed, all of them miss once in 10^7
_APART = 24  # grey levels between two pixels that can tell a gain


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Options of change detection; size, eps and min_samples default to the paper authors' values.

    Attributes:
        size: ``(height, width)`` in pixels at which frames are compared.
        max_shift: largest alignment shift along each axis, in pixels of `size`; a pair that would lie better
            beyond it is not shifted at all.
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

    def __post_init__(self) -> None:
        """Refuse settings that cannot find anything."""
        if min(self.size) < 2 * self.max_shift + 1 or self.max_shift < 0:
            raise ValueError(f"size {self.size} must exceed twice max_shift, {self.max_shift}, on both sides")
        if self.blur < 1 or self.max_clusters < 1 or self.min_samples < 1 or not self.eps >= 0:
            raise ValueError("blur, max_clusters and min_samples must be at least 1, eps at least 0")
        if not (self.delta >= 0 and self.noise_factor >= 0 and 0 <= self.min_area <= 1):
            raise ValueError("delta and noise_factor must be 0 or more, min_area within 0..1")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Options from plain values, as a checkpoint's record or a configuration has them.

        Args:
            values: by name, lists in place of tuples; what is missing has its default.

        Raises:
            ValueError: a name is not known, or the settings cannot find anything.
        """
        if unknown := sorted(set(values) - {field.name for field in fields(cls)}):
            raise ValueError(f"unknown change options {', '.join(unknown)}: update narrated")
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**plain)


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


def difference(
    before: NDArray[np.uint8], after: NDArray[np.uint8], options: ChangeOptions, masks: Masks = ()
) -> Difference:
    """Active pixels of a pair: those whose RGB vectors differ by more than delta once it is aligned.

    Args:
        before: RGB uint8 ``(h, w, 3)`` of any size.
        after: RGB uint8 ``(h, w, 3)`` of any size.
        options: how frames are compared.
        masks: polygons in shares of the frame; no pixel that one of them touches is active, nor one on which
            nothing of before comes to lie.

    Raises:
        ValueError: an image is not RGB uint8 ``(h, w, 3)``, or too small for the shift.
    """
    small, onto = resize(before, options.size), resize(after, options.size)
    shift = alignment_shift(small, onto, options.max_shift and options.max_shift + 1)
    if max(map(abs, shift)) > options.max_shift:
        shift = (0, 0)  # still falling beyond the range: a truck that fills the frame, not a shake
    moved = shift_image(small, shift)
    if options.match_light:
        moved = match_light_levels(moved, onto)
    if options.blur > 1:
        box = (options.blur, options.blur)
        moved, onto = np.asarray(cv2.blur(moved, box), np.uint8), np.asarray(cv2.blur(onto, box), np.uint8)
    mask = _active(moved, onto, options.delta, options.noise_factor)
    dx, dy = shift
    height, width = mask.shape
    mask[:, : max(dx, 0)] = False
    mask[:, width + min(dx, 0) :] = False
    mask[: max(dy, 0)] = False
    mask[height + min(dy, 0) :] = False
    if masks:
        mask &= ~_masked_pixels(masks, options, shift)
    return Difference(shift, moved, onto, mask)


def _masked_pixels(masks: Masks, options: ChangeOptions, shift: Shift) -> NDArray[np.bool_]:
    """Pixels that either frame's masks touch, before's where they come to lie, with what blur spreads."""
    onto = polygon_mask(masks, options.size, options.blur // 2)
    moved = np.roll(onto, shift[::-1], axis=(0, 1))
    return onto | moved


def resize(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """An RGB uint8 ``(h, w, 3)`` image at ``(height, width)``: by area, by interpolation where it grows."""
    if image.dtype != np.uint8 or image.shape[2:] != (3,) or image.size == 0:
        raise ValueError(f"a frame is RGB uint8 (h, w, 3), not {image.dtype} {image.shape}")
    height, width = size
    if image.shape[:2] == size:
        return np.ascontiguousarray(image)
    if height > image.shape[0] or width > image.shape[1]:
        return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)
    return reduce_image(image, size)


def reduce_image(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """An RGB uint8 ``(h, w, 3)`` image at a smaller ``(height, width)``, by area.

    It is halved as often as that goes: of a 1080p frame the whole takes less than half of the time.
    """
    height, width = image.shape[:2]
    while height >= 2 * size[0] and width >= 2 * size[1] and not height % 2 and not width % 2:
        height, width = height // 2, width // 2
        image = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    return np.asarray(cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_AREA), np.uint8)


def match_light_levels(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Before with each channel's gain and offset matched to after, by trimmed least squares on a pixel grid.

    Args:
        before: RGB uint8 ``(h, w, 3)``.
        after: RGB uint8, the same shape.

    Returns:
        RGB uint8 of the same shape; gains stay within 0.4..2.5.
    """
    step = max(1, round((before.shape[0] * before.shape[1] / _GRID) ** 0.5))
    table = _light_table(
        np.ascontiguousarray(before[::step, ::step]).reshape(-1, 3),
        np.ascontiguousarray(after[::step, ::step]).reshape(-1, 3),
    )
    return np.asarray(cv2.LUT(before, table), np.uint8)


@ahead("u1[:,:,::1]", "u1[:,::1]", "u1[:,::1]")
def _light_table(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> NDArray[np.uint8]:
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
def _active(
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
