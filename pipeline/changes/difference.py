"""The difference mask: which pixels of an aligned pair differ (Jhamtani 2018, section 3)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import sqrt
from typing import Any, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.alignment import Shift, alignment_shift, shift_image
from pipeline.sources import Polygon, polygon_mask

Masks = tuple[Polygon, ...]
Floats = NDArray[np.float32]

_GRID = 4000  # pixels from which the light is matched: enough for two numbers a channel
_EVERY = 8  # of these, every eighth judges a first guess
_TRIALS = np.arange(40)  # first guesses: with 40 % of the frame changed, all of them miss once in 10^7
_APART = 24  # grey levels between two pixels that can tell a gain
_GAINS = 0.4, 2.5


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Options of change detection; size, eps and min_samples default to the paper authors' values."""

    size: tuple[int, int] = (224, 224)  # ``(height, width)`` in pixels at which frames are compared
    max_shift: int = 4  # along each axis, pixels of `size`; a pair that lies better beyond is not shifted
    delta: float = 30.0  # least L2 distance of two RGB vectors that makes a pixel active, grey levels
    noise_factor: float = 4.5  # a pixel must differ by so many times the pair's median distance, too
    match_light: bool = True  # match gain and offset of each channel of before to after, robustly
    blur: int = 3  # side in pixels of the box that smooths both frames first; 1 for none
    eps: float = 20.0  # DBSCAN radius in pixels of `size`
    min_samples: int = 9  # DBSCAN's active pixels within eps that make a pixel core
    min_area: float = 0.0  # clusters with fewer active pixels than this share of the frame are dropped
    # a cluster whose grey values still correlate above this between before and after is a change of
    # light and is dropped; None keeps it
    light_correlation: float | None = 0.7
    max_clusters: int = 8  # as many clusters are kept, those of most active pixels

    def __post_init__(self) -> None:
        if min(self.size) < 2 * self.max_shift + 1 or self.max_shift < 0:
            raise ValueError(f"size {self.size} must exceed twice max_shift, {self.max_shift}, on both sides")
        if self.blur < 1 or self.max_clusters < 1 or self.min_samples < 1 or not self.eps >= 1:
            raise ValueError("blur, max_clusters, min_samples and eps must be at least 1")
        if not (self.delta >= 0 and self.noise_factor >= 0 and 0 <= self.min_area <= 1):
            raise ValueError("delta and noise_factor must be 0 or more, min_area within 0..1")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Options from plain values by name, as a checkpoint's record or a configuration has them.

        ValueError where a name is not known, or the settings cannot find anything.
        """
        if unknown := sorted(set(values) - {field.name for field in fields(cls)}):
            raise ValueError(f"unknown change options {', '.join(unknown)}: update narrated")
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**plain)


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """An aligned pair at analysis size."""

    shift: Shift  # ``(dx, dy)`` that lays before on after
    before: NDArray[np.uint8]  # before, moved, its light matched, smoothed; RGB uint8 ``(h, w, 3)``
    after: NDArray[np.uint8]  # after, smoothed; RGB uint8 ``(h, w, 3)``
    mask: NDArray[np.bool_]  # active pixels, bool ``(h, w)``


def difference(
    before: NDArray[np.uint8], after: NDArray[np.uint8], options: ChangeOptions, masks: Masks = ()
) -> Difference:
    """Active pixels of a pair: those whose RGB vectors differ by more than delta once it is aligned.

    The frames are RGB uint8 ``(h, w, 3)`` of any size; others, or too small ones for the shift, raise
    `ValueError`. No pixel that a mask (a polygon in shares of the frame) touches is active, nor one on which
    nothing of before comes to lie.
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
    mask = _active_pixels(moved, onto, options)
    dx, dy = shift
    height, width = mask.shape
    mask[:, : max(dx, 0)] = False
    mask[:, width + min(dx, 0) :] = False
    mask[: max(dy, 0)] = False
    mask[height + min(dy, 0) :] = False
    if masks:
        hidden = polygon_mask(masks, options.size, options.blur // 2)  # and what blur spreads of it
        mask &= ~(hidden | np.roll(hidden, shift[::-1], axis=(0, 1)))  # of both frames
    return Difference(shift, moved, onto, mask)


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

    All are RGB uint8 of one shape ``(h, w, 3)``; gains stay within 0.4..2.5.
    """
    step = max(1, round((before.shape[0] * before.shape[1] / _GRID) ** 0.5))
    grids = (each[::step, ::step].reshape(-1, 3).T.astype(np.float32, "C") for each in (before, after))
    lines = [_line(x, y) for x, y in zip(*grids, strict=True)]
    levels = np.stack([np.rint(gain * np.arange(256) + offset) for gain, offset in lines], axis=-1)
    return np.asarray(cv2.LUT(before, levels.clip(0, 255).astype(np.uint8)[None]), np.uint8)


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Gain and offset of y over x: least squares over what lies within 2.5 deviations of the line so far."""
    gain, offset = _first_line(x, y)
    for _ in range(3):
        residuals = np.abs(y - gain * x - offset)
        near = residuals <= np.float32(max(2.5 * 1.4826 * float(_medians(residuals)), 3.0))
        if not (n := np.count_nonzero(near)):
            break
        a, b = x[near].astype(np.float64), y[near].astype(np.float64)
        sx, sy = a.sum(), b.sum()
        spread = a @ a - sx * sx / n
        slope = (a @ b - sx * sy / n) / spread if spread > 25.0 * n else 1.0
        gain = np.float32(min(max(slope, _GAINS[0]), _GAINS[1]))
        offset = np.float32((sy - gain * sx) / n)
    return float(gain), float(offset)


def _first_line(x: Floats, y: Floats) -> tuple[np.float32, np.float32]:
    """The line of least median residual among no change and those through two pixels.

    Least squares would follow a truck that fills a third of the frame, and then explain it away.
    """
    i, j = _TRIALS * 7919 % x.size, (_TRIALS * 104_729 + x.size // 2) % x.size
    apart = x[i] - x[j]
    slopes = np.divide(y[i] - y[j], apart, out=np.ones_like(apart), where=np.abs(apart) >= _APART)
    fits = (slopes >= _GAINS[0]) & (slopes <= _GAINS[1])
    gains = np.append(np.float32(1), slopes[fits])
    offsets = np.append(np.float32(0), (y[i] - slopes * x[i])[fits])
    best = _medians(np.abs(y[::_EVERY] - gains[:, None] * x[::_EVERY] - offsets[:, None])).argmin()
    return gains[best], offsets[best]


def _medians(residuals: Floats) -> NDArray[np.float64]:
    """Lower medians of residuals ``(..., N)``, to a quarter of a grey level."""
    quarters = np.sort(np.minimum(residuals * 4, 1023).astype(np.int32))
    return np.asarray((quarters[..., (residuals.shape[-1] - 1) // 2] + 0.5) / 4)


def _active_pixels(
    before: NDArray[np.uint8], after: NDArray[np.uint8], options: ChangeOptions
) -> NDArray[np.bool_]:
    """Pixels whose squared RGB distance exceeds the square of max(delta, noise_factor x median distance)."""
    apart = cv2.absdiff(before, after)
    squares = cv2.transform(cv2.multiply(apart, apart, dtype=cv2.CV_32F), np.ones((1, 3), np.float32))
    median = np.sort(squares, axis=None)[(squares.size - 1) // 2]
    limit = max(options.delta, options.noise_factor * sqrt(median))
    return np.asarray(squares > int(limit * limit))
