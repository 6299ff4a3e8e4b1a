"""Privacy areas and masks of the picture: polygons in shares of the frame."""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

Polygon = tuple[tuple[float, float], ...]
"""Corners ``(x, y)`` in 0..1 of the frame from its top left, in the order of a walk around the area."""

_FRACTION_BITS = 8


@lru_cache(maxsize=64)
def polygon_mask(polygons: tuple[Polygon, ...], shape: tuple[int, int], margin: int = 0) -> NDArray[np.bool_]:
    """The pixels of a frame that any polygon touches, and `margin` more around; `shape` is (height, width).

    bool ``(height, width)``, read-only: it is kept for the next call.
    """
    height, width = shape
    plane = np.zeros(shape, np.uint8)
    for polygon in polygons:
        # Pixel i reaches from i - 0.5 to i + 0.5 in OpenCV's coordinates; each is drawn on its own, because
        # fillPoly leaves out where two overlap.
        corners = np.clip(np.array(polygon) * (width, height) - 0.5, 0, (width - 1, height - 1))
        fixed = np.round(corners * (1 << _FRACTION_BITS)).astype(np.int32)
        cv2.fillPoly(plane, [fixed], 1, lineType=cv2.LINE_8, shift=_FRACTION_BITS)
    # fillPoly rounds: pixels that an edge only grazes are found in the next row or column.
    reach = 2 * (margin + 1) + 1
    mask = cv2.dilate(plane, np.ones((reach, reach), np.uint8)).astype(bool)
    mask.setflags(write=False)
    return mask
