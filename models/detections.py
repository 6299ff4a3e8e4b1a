"""Detections: the objects in one picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.families import CLASSES, OBJECTS, family_of, first_of, object_of

GROUPS = np.array([[object_of(label) == name for label in CLASSES] for name in OBJECTS])
"""Bool ``(len(OBJECTS), len(CLASSES))``: which classes an object's name stands for."""

FAMILY = np.array([first_of(family_of(name)) for name in OBJECTS])
"""int64 ``(len(OBJECTS),)``: the first object of each one's family."""


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """N objects in one picture, by falling score.

    Attributes:
        box: float32 ``(N, 4)``, ``x, y, width, height`` in 0..1 of the frame, cut at its edge.
        score: float32 ``(N,)``, 0..1, that an object of its family is there.
        label: float32 ``(N, len(OBJECTS))``, score 0..1 of each object's name there.
        feature: float32 ``(N, F)``, features of the neck within the box, for association.
    """

    box: NDArray[np.float32]
    score: NDArray[np.float32]
    label: NDArray[np.float32]
    feature: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.box)

    @property
    def family(self) -> NDArray[np.int64]:
        """The number of each one's family's first object, int64 ``(N,)``."""
        return np.asarray(FAMILY[self.label.argmax(1)])

    def select(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Detections:
        """The given rows, int64 or bool ``(M,)``, in the given order."""
        return Detections(self.box[rows], self.score[rows], self.label[rows], self.feature[rows])

    def name(self, row: int) -> str:
        """The most likely object's name."""
        return OBJECTS[int(self.label[row].argmax())]
