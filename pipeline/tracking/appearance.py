"""Colour histograms of boxes, and how alike two appearances are."""

from __future__ import annotations

from functools import lru_cache

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
    red, green, blue = np.moveaxis(image[y[:, :, None], x[:, None, :]].astype(np.int64) >> 3, -1, 0)
    shares = _shares()[(red << 10) | (green << 5) | blue]
    weight = np.exp(-4 * (columns - 0.5) ** 2) * np.exp(-2 * (rows[:, None] - 0.5) ** 2)
    half = (weight.reshape(2, -1) / weight[: _ROWS // 2].sum()).astype(np.float32)
    weighted = np.einsum("nhpb,hp->nhb", shares.reshape(len(boxes), *half.shape, _PART), half)
    return np.asarray(np.sqrt(weighted).reshape(len(boxes), BINS), np.float64)


@lru_cache(maxsize=1)
def _shares() -> NDArray[np.float32]:
    """Shares of hues, grey and lightness of every colour of 5 bits a channel, ``(32768, _PART)``."""
    steps = np.arange(32) / 31
    red, green, blue = (each.ravel() for each in np.meshgrid(steps, steps, steps, indexing="ij"))
    pixels = np.stack([red, green, blue])
    high, low = pixels.max(0), pixels.min(0)
    hue = np.arctan2(np.sqrt(3) * (green - blue), 2 * red - green - blue) / (2 * np.pi) % 1
    vivid = ((high - low) / _VIVID).clip(max=1)[:, None]
    apart = (hue[:, None] * _HUES - np.arange(_HUES) + _HUES / 2) % _HUES - _HUES / 2
    hues = (1 - np.abs(apart)).clip(min=0) * vivid
    lights = (1 - np.abs((high + low)[:, None] / 2 * (_LIGHTS - 1) - np.arange(_LIGHTS))).clip(min=0)
    return np.concatenate([hues, 1 - vivid, lights], axis=1).astype(np.float32)


def histogram_similarity(one: Floats, two: Floats) -> Floats:
    """Mean Bhattacharyya coefficient ``(N, M)``, 0..1; above .96 or so speaks for one object."""
    return np.asarray(one @ two.T / _PARTS)


def grey_plane(image: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """A small grey picture of this width."""
    size = (width, max(1, round(image.shape[0] * width / image.shape[1])))
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.uint8)
