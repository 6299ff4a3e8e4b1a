"""Clusters of differing pixels: exact DBSCAN on a raster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float]
"""``(x, y, width, height)`` in 0..1 of the frame."""


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """One cluster of active pixels.

    Attributes:
        mask: bool ``(height, width)`` at analysis size, in the coordinates of the after frame.
        box: tight box of the mask, ``(x, y, width, height)`` in 0..1.
        active_pixels: number of True in `mask`.
    """

    mask: NDArray[np.bool_]
    box: Box
    active_pixels: int
