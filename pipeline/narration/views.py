"""Views: a pair's frames at the size at which a detector sees them, and tiles where something small differs.

A whole frame at the detector's size shows a person at the far end of a car park as ten pixels; a tile shows
each small change as large as the camera saw it.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from models.grounded.inference import canvas
from models.grounded.settings import SETTINGS
from pipeline.alignment import Shift
from pipeline.changes.difference import reduce_image
from pipeline.clusters import Cluster
from pipeline.sources import Image

TILE = 192
"""Side of a tile in pixels."""

MOST = 4
"""Tiles of one pair at most, those of its most salient small clusters."""

SMALL = 80.0
"""A cluster is small where its longer side is shorter than so many pixels of the view."""

_MARGIN = 2.5  # a tile's side in the longer side of its cluster
_LEAST = 0.16  # ... and as a share of the frame's width: neighbours must be seen with it


def whole_views(
    before: Image, after: Image, shift: tuple[float, float], pixels: int = SETTINGS.pixels
) -> NDArray[np.uint8]:
    """Both frames, before laid on after, uint8 ``(2, h, w, 3)``, see `models.grounded.inference.canvas`.

    Args:
        before: RGB uint8 ``(h, w, 3)``.
        after: RGB uint8 of the same size.
        shift: ``(dx, dy)`` in shares of the frame that lays before on after.
        pixels: about how many a view has.
    """
    height, width = after.shape[:2]
    high, wide = canvas(height, width, pixels)
    frame = (0.0, 0.0, 1.0, 1.0)
    return np.stack(
        [_crop(before, frame, (high, wide), shift), _crop(after, frame, (high, wide), (0.0, 0.0))]
    )


def tile_views(
    before: Image,
    after: Image,
    shift: tuple[float, float],
    clusters: Sequence[Cluster],
    pixels: int = SETTINGS.pixels,
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Tiles around the small ones of clusters, of which the most salient come first; see `whole_views`.

    Returns:
        uint8 ``(T, 2, TILE, TILE, 3)``, and their windows float32 ``(T, 4)`` in 0..1 of the frame.
    """
    height, width = after.shape[:2]
    windows = tile_windows([c.box for c in clusters], height, width, pixels)
    tiles = [
        np.stack(
            [_crop(image, w, (TILE, TILE), moved) for image, moved in ((before, shift), (after, (0.0, 0.0)))]
        )
        for w in windows
    ]
    shape = (0, 2, TILE, TILE, 3)
    return np.stack(tiles) if tiles else np.zeros(shape, np.uint8), np.array(windows, np.float32).reshape(
        -1, 4
    )


def tile_windows(boxes: Sequence[Box], height: int, width: int, pixels: int = SETTINGS.pixels) -> list[Box]:
    """Square windows, within the frame where they fit, around the small ones of some boxes.

    Args:
        boxes: of clusters, most salient first.
        height: of the frame in pixels.
        width: of the frame in pixels.
        pixels: about how many a view has.
    """
    high, wide = canvas(height, width, pixels)
    windows: list[Box] = []
    for x, y, w, h in boxes:
        if max(w * wide, h * high) >= SMALL or len(windows) == MOST:
            continue
        if any(a <= x and b <= y and x + w <= a + c and y + h <= b + d for a, b, c, d in windows):
            continue
        side = max(_MARGIN * max(w * width, h * height), _LEAST * max(width, height))
        c, d = min(side / width, 1.0), min(side / height, 1.0)
        windows.append((min(max(x + w / 2 - c / 2, 0), 1 - c), min(max(y + h / 2 - d / 2, 0), 1 - d), c, d))
    return windows


def _crop(image: Image, window: Box, size: tuple[int, int], moved: tuple[float, float]) -> Image:
    """A window of an image whose content is moved by shares of the frame, at ``(height, width)``."""
    height, width = image.shape[:2]
    x, y, w, h = window
    whole = window == (0.0, 0.0, 1.0, 1.0) and moved == (0.0, 0.0)
    if whole:
        if height * width > size[0] * size[1]:
            return reduce_image(image, size)
        return np.asarray(cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_LINEAR), np.uint8)
    left, top = (x - moved[0]) * width, (y - moved[1]) * height
    scale_x, scale_y = size[1] / (w * width), size[0] / (h * height)
    blur = (max(1, round(1 / scale_x)), max(1, round(1 / scale_y)))
    if blur != (1, 1):  # bilinear sampling alone would drop thin things; only the window is smoothed
        x0, y0 = max(int(left) - blur[0], 0), max(int(top) - blur[1], 0)
        x1, y1 = int(left + w * width) + blur[0] + 1, int(top + h * height) + blur[1] + 1
        image = np.asarray(cv2.blur(image[y0:y1, x0:x1], blur), np.uint8)
        left, top = left - x0, top - y0
    way_in = np.array(
        [[scale_x, 0, (0.5 - left) * scale_x - 0.5], [0, scale_y, (0.5 - top) * scale_y - 0.5]], np.float32
    )
    return np.asarray(
        cv2.warpAffine(image, way_in, (size[1], size[0]), borderMode=cv2.BORDER_REPLICATE), np.uint8
    )


def in_shares(shift: Shift, mask_size: tuple[int, int]) -> tuple[float, float]:
    """A shift in pixels of masks of this height and width as shares of the frame."""
    return shift[0] / mask_size[1], shift[1] / mask_size[0]
