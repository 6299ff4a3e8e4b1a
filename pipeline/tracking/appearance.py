"""Colour histograms of boxes, and how alike two appearances are."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.tracking.types import Floats

_HUES, _LIGHTS = 8, 8
_PART = _HUES + 1 + _LIGHTS
BINS = 2 * _PART
_ROWS, _COLUMNS = 16, 8  # sampled points of a box
_VIVID = 0.25  # chroma 0..1 from which a hue counts in full
_PARTS = 4  # coefficients in the product of two histograms


def histograms(image: NDArray[np.uint8], boxes: Floats) -> Floats:
    """Colours of the upper and the lower half of boxes, their middle before their rim.

    Args:
        image: RGB ``(h, w, 3)``.
        boxes: ``(N, 4)`` in 0..1 of the image.

    Returns:
        ``(N, BINS)``: for each half square roots of the shares of 8 hues and grey, then of 8 steps of
        lightness, so that a product of two is a sum of Bhattacharyya coefficients.
    """
    rows, columns = (np.arange(_ROWS) + 0.5) / _ROWS, (np.arange(_COLUMNS) + 0.5) / _COLUMNS
    height, width = image.shape[:2]
    y = ((boxes[:, 1:2] + boxes[:, 3:] * rows) * height).astype(np.int64).clip(0, height - 1)
    x = ((boxes[:, :1] + boxes[:, 2:3] * columns) * width).astype(np.int64).clip(0, width - 1)
    pixels = image[y[:, :, None], x[:, None, :]].astype(np.float64) / 255
    red, green, blue = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    high, low = pixels.max(-1), pixels.min(-1)
    hue = np.arctan2(np.sqrt(3) * (green - blue), 2 * red - green - blue) / (2 * np.pi) % 1
    vivid = ((high - low) / _VIVID).clip(max=1)
    apart = (hue[..., None] * _HUES - np.arange(_HUES) + _HUES / 2) % _HUES - _HUES / 2
    hues = (1 - np.abs(apart)).clip(min=0) * vivid[..., None]
    steps = (high + low)[..., None] / 2 * (_LIGHTS - 1) - np.arange(_LIGHTS)
    shares = np.concatenate([hues, 1 - vivid[..., None], (1 - np.abs(steps)).clip(min=0)], axis=-1)
    weight = np.exp(-4 * (columns - 0.5) ** 2) * np.exp(-2 * (rows[:, None] - 0.5) ** 2)
    weighted = (shares * weight[..., None]).reshape(len(boxes), 2, _ROWS * _COLUMNS // 2, _PART)
    found = np.sqrt((weighted.sum(2) / weight[: _ROWS // 2].sum()).clip(min=0))
    return np.asarray(found.reshape(len(boxes), BINS))


def histogram_similarity(one: Floats, two: Floats) -> Floats:
    """Mean Bhattacharyya coefficient ``(N, M)``, 0..1; above .96 or so speaks for one object."""
    return np.asarray(one @ two.T / _PARTS)


def grey_plane(image: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """A small grey picture of this width."""
    size = (width, max(1, round(image.shape[0] * width / image.shape[1])))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.uint8)
