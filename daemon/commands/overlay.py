"""A camera's areas, drawn on a picture of it."""

from __future__ import annotations

import cv2
import numpy as np

from daemon.config.settings import Camera
from pipeline.sources import Image

ZONE, MASK, PRIVACY, LINE = (0, 150, 100), (230, 100, 20), (0, 130, 220), (200, 40, 140)
"""RGB of the outlines."""

_LETTERS, _RULED = (255, 255, 255), (60, 60, 60)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_PALE = 0.35


def draw_areas(image: Image, camera: Camera) -> Image:
    """The picture with a ruler in tenths, and every zone, line, mask and privacy area drawn and named.

    Args:
        image: RGB uint8 ``(height, width, 3)``.
        camera: its areas.

    Returns:
        A copy of the same shape.
    """
    height, width = image.shape[:2]
    grid = image.copy()
    for tenth in range(1, 10):
        x, y = width * tenth // 10, height * tenth // 10
        cv2.line(grid, (x, 0), (x, height - 1), _LETTERS, 1)
        cv2.line(grid, (0, y), (width - 1, y), _LETTERS, 1)
        _write(grid, f".{tenth}", (x + 2, height - 5), _RULED)
        _write(grid, f".{tenth}", (2, y - 5), _RULED)
    drawn = np.asarray(cv2.addWeighted(grid, _PALE, image, 1 - _PALE, 0), np.uint8)
    areas = [(ZONE, f"zone {zone.name}", zone.polygon) for zone in camera.zones]
    areas += [(MASK, f"mask {name}", polygon) for name, polygon in camera.masks.items()]
    areas += [(PRIVACY, f"privacy {name}", polygon) for name, polygon in camera.privacy.items()]
    areas += [(LINE, f"line {line.name}", line.points) for line in camera.lines]
    for colour, label, polygon in areas:
        corners = np.round(np.array(polygon) * (width, height) - 0.5).astype(np.int32)
        cv2.polylines(drawn, [corners], colour != LINE, colour, max(1, width // 800), cv2.LINE_AA)
        x, y = corners[corners[:, 1].argmin()]
        _write(drawn, label, (int(x) + 4, int(y) + width // 50), colour)
    return drawn


def _write(image: Image, text: str, place: tuple[int, int], ground: tuple[int, int, int]) -> None:
    """White letters on a ground of their own, moved into the picture where it is near an edge."""
    plain = text.encode("ascii", "replace").decode()  # OpenCV's own fonts know no other letters
    scale = max(0.35, image.shape[1] / 1600)
    (width, height), below = cv2.getTextSize(plain, _FONT, scale, 1)
    x = max(1, min(place[0], image.shape[1] - 1 - width))
    y = max(height + 1, min(place[1], image.shape[0] - 1 - below))
    cv2.rectangle(image, (x - 1, y - height - 1), (x + width, y + below), ground, cv2.FILLED)
    cv2.putText(image, plain, (x, y), _FONT, scale, _LETTERS, 1, cv2.LINE_AA)
