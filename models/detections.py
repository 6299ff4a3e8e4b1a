"""Detections: the objects in one picture, and the interface of what finds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.families import CLASSES, OBJECTS, family_of, first_of, object_of

GROUPS = np.array([[object_of(label) == name for label in CLASSES] for name in OBJECTS])
"""Bool ``(len(OBJECTS), len(CLASSES))``: which classes an object's name stands for."""

FAMILY = np.array([first_of(family_of(name)) for name in OBJECTS])
"""int64 ``(len(OBJECTS),)``: the first object of each one's family."""

LEAST = 0.05  # objects with a lower score are left out


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """N objects in one picture, by falling score."""

    box: NDArray[np.float32]  # float32 ``(N, 4)``, ``x, y, width, height`` in 0..1, cut at the edge
    score: NDArray[np.float32]  # float32 ``(N,)``, 0..1, that an object of its family is there
    label: NDArray[np.float32]  # float32 ``(N, len(OBJECTS))``, score 0..1 of each object's name there
    feature: NDArray[np.float32]  # float32 ``(N, F)``, of the neck within the box, for association
    # float32 ``(N, COLOUR_BINS)``, see `models.grounded.observations`; without rows where a detector
    # gives them
    colours: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def __len__(self) -> int:
        return len(self.box)

    @property
    def family(self) -> NDArray[np.int64]:
        """The number of each one's family's first object, int64 ``(N,)``."""
        return np.asarray(FAMILY[self.label.argmax(1)])

    def select(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Detections:
        colours = self.colours[rows] if len(self.colours) else self.colours
        return Detections(self.box[rows], self.score[rows], self.label[rows], self.feature[rows], colours)


class Detector(Protocol):
    """Finds objects: in this process on a CPU or a GPU, or elsewhere."""

    def detect(self, images: Sequence[NDArray[np.uint8]], least: float = LEAST) -> list[Detections]:
        """The objects in each image, RGB uint8 ``(height, width, 3)``, sides multiples of 32.

        Objects whose score, 0..1, is below `least` are left out.
        """
        ...
