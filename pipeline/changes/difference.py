"""The difference mask: a pair is aligned, and which pixels differ (Jhamtani 2018, section 3)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.difference import MAX_WIDTH, active_pixels, least_offset, light_table
from pipeline.sources import Polygon, polygon_mask

Masks = tuple[Polygon, ...]
Shift = tuple[int, int]  # ``(dx, dy)`` in pixels: before, moved by this, lies on after

_GRID = 4000  # pixels from which the light is matched: enough for two numbers a channel


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
        if self.blur < 1 or self.max_clusters < 1 or self.min_samples < 1 or not self.eps >= 0:
            raise ValueError("blur, max_clusters and min_samples must be at least 1, eps at least 0")
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
    mask = active_pixels(moved, onto, options.delta, options.noise_factor)
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
    table = light_table(
        np.ascontiguousarray(before[::step, ::step]).reshape(-1, 3),
        np.ascontiguousarray(after[::step, ::step]).reshape(-1, 3),
    )
    return np.asarray(cv2.LUT(before, table), np.uint8)


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
