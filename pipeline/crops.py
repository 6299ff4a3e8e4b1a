"""Crops: square windows around clusters, cut from both frames at full resolution.

A whole frame at the encoder's size shows a person at the far end of a car park as three pixels; a crop shows
each change as large as the camera saw it.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.alignment import Shift
from pipeline.clusters import Box, Cluster

Image = NDArray[np.uint8]

MARGIN = 1.3
"""A window's side, in the longer side of the cluster's box."""
LEAST_SIDE = 0.1
"""Least side of a window, as a share of the frame's width: a sliver of a person must show the person."""


def window(box: Box, height: int, width: int) -> Box:
    """The square window around a cluster, moved into the frame where it fits.

    Args:
        box: of the cluster, in 0..1.
        height: of the frame in pixels.
        width: of the frame in pixels.

    Returns:
        ``(x, y, width, height)`` in 0..1 of the frame; a square in pixels, which reaches beyond the frame
        where it is larger than that.
    """
    x, y, w, h = box
    side = max(MARGIN * max(w * width, h * height), LEAST_SIDE * width, 16.0)
    across, down = side / width, side / height
    return _placed(x + w / 2, across), _placed(y + h / 2, down), across, down


def _placed(middle: float, size: float) -> float:
    """Where a window of this size begins so that it lies in 0..1 or, if it is larger, around it."""
    if size >= 1:
        return (1 - size) / 2
    return min(max(middle - size / 2, 0.0), 1 - size)


def cut_crops(
    before: Image,
    after: Image,
    shift: Shift,
    clusters: Sequence[Cluster],
    size: int,
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Both frames' crops of every cluster.

    Args:
        before: RGB uint8 ``(h, w, 3)``.
        after: RGB uint8 ``(h, w, 3)``.
        shift: ``(dx, dy)`` in pixels of the clusters' masks that lays before on after.
        clusters: K clusters.
        size: side of a crop in pixels.

    Returns:
        uint8 ``(K, 2, size, size, 3)``, before and after, and the windows, float32 ``(K, 4)``, in 0..1 of
        the frame. Beyond the frame its edge is repeated.
    """
    height, width = after.shape[:2]
    crops = np.empty((len(clusters), 2, size, size, 3), np.uint8)
    windows = np.empty((len(clusters), 4), np.float32)
    for k, cluster in enumerate(clusters):
        mask_height, mask_width = cluster.mask.shape
        moved = (shift[0] * width / mask_width, shift[1] * height / mask_height)
        where = window(cluster.box, height, width)
        windows[k] = where
        crops[k, 0] = _cut(before, where, size, moved)
        crops[k, 1] = _cut(after, where, size, (0.0, 0.0))
    return crops, windows


def _cut(image: Image, where: Box, size: int, moved: tuple[float, float]) -> Image:
    """A window of an image whose content is moved by so many pixels, at the crop's size."""
    height, width = image.shape[:2]
    left, top, side = where[0] * width - moved[0], where[1] * height - moved[1], where[2] * width
    if side > size:  # shrinking by area first: bilinear sampling alone would drop thin things
        margin = 2
        x0, y0 = int(max(np.floor(left) - margin, 0)), int(max(np.floor(top) - margin, 0))
        x1 = int(min(np.ceil(left + side) + margin, width))
        y1 = int(min(np.ceil(top + side) + margin, height))
        scale = size / side
        shrunk = (max(round((x1 - x0) * scale), 1), max(round((y1 - y0) * scale), 1))
        part = np.asarray(cv2.resize(image[y0:y1, x0:x1], shrunk, interpolation=cv2.INTER_AREA), np.uint8)
        sx, sy = shrunk[0] / (x1 - x0), shrunk[1] / (y1 - y0)
        left, top, across, down = (left - x0) * sx, (top - y0) * sy, side * sx, side * sy
    else:
        part, across, down = image, side, side
    step_x, step_y = across / size, down / size
    # Output pixel centres to source pixel centres.
    matrix = np.array([[step_x, 0, left + step_x / 2 - 0.5], [0, step_y, top + step_y / 2 - 0.5]], np.float32)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    cut = cv2.warpAffine(part, matrix, (size, size), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(cut, np.uint8)
