"""Outlines: the contour of the pixels that differ, inside the box of one thing."""

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from models.captioner import Outline

MOST_CORNERS = 32
_LEAST_CORNERS = 3
_GAP = 0.15
_SQUARE = 3  # the smallest kernel
_FINE = 4  # contours run through the centres of pixels: on a finer raster a small thing keeps its area


def outline(mask: NDArray[np.bool_], box: Box | None) -> Outline:
    """The outer contour of the largest patch of active pixels inside a box ``(x, y, width, height)`` in 0..1.

    Gaps of two pixels, of large things a seventh of their smaller side, are closed first: where a thing has
    the colour of what is behind it nothing differs. 3 to `MOST_CORNERS` corners, or none.
    """
    if box is None:
        return ()
    height, width = mask.shape
    low = np.clip(box[:2], 0.0, 1.0)
    high = np.clip((box[0] + box[2], box[1] + box[3]), 0.0, 1.0)
    left, top = np.floor(low * (width, height)).astype(int)
    right, bottom = np.ceil(high * (width, height)).astype(int)
    inside = mask[top:bottom, left:right]
    if not inside.any():
        return ()
    pixels = (_simplify(_contour(inside)) + 0.5) / _FINE + (left, top)
    corners = np.clip(pixels / (width, height), low, high)
    return tuple((float(x), float(y)) for x, y in corners)


def _contour(inside: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The contour ``(n, 1, 2)`` around the largest area, on a raster `_FINE` times as fine."""
    reach = max(_SQUARE, round(_GAP * min(inside.shape)) | 1)
    kernel = cv2.getStructuringElement(
        cv2.MORPH_ELLIPSE if reach > _SQUARE else cv2.MORPH_RECT, (reach, reach)
    )
    padded = np.pad(inside.astype(np.uint8), reach)  # closing must not take the border for active
    closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, kernel)[reach:-reach, reach:-reach]
    fine = closed.repeat(_FINE, axis=0).repeat(_FINE, axis=1)
    contours, _ = cv2.findContours(fine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return np.asarray(max(contours, key=cv2.contourArea), np.int32)


def _simplify(contour: NDArray[np.int32]) -> NDArray[np.int32]:
    """Its corners ``(n, 2)`` after Douglas and Peucker (1973), at the least tolerance that leaves few."""
    tolerance, corners = _FINE / 2, contour
    while len(corners) > MOST_CORNERS or tolerance == _FINE / 2:
        corners = np.asarray(cv2.approxPolyDP(contour, tolerance, closed=True), np.int32)
        tolerance *= 1.25
    if len(corners) < _LEAST_CORNERS:  # a torn line: what is left of it would enclose nothing
        x, y, width, height = cv2.boundingRect(contour)
        corners = np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], np.int32)
    return corners.reshape(-1, 2)
