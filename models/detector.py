"""The detector's interface: images in, objects out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.detections import Detections

LEAST = 0.05
"""Objects with a lower score are left out."""


class Detector(Protocol):
    """Finds objects: in this process on a CPU or a GPU, or elsewhere."""

    def detect(self, images: Sequence[NDArray[np.uint8]], least: float = LEAST) -> list[Detections]:
        """The objects in each image, RGB uint8 ``(height, width, 3)``, sides multiples of 32.

        Args:
            images: of any sizes.
            least: score, 0..1, below which objects are left out.
        """
        ...
