"""The exact clusters of a generated pair, read from the file beside it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray


def read_clusters(folder: Path, name: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks bool ``(n, side, side)`` of a pair's changes, and of what changed but nobody tells."""
    labels = cv2.imread(str(folder / f"{name}_clusters.png"), cv2.IMREAD_GRAYSCALE)
    values = np.unique(labels[labels > 0])
    masks = labels[None] == values[:, None, None]
    return masks[values < 128], masks[values >= 128]
