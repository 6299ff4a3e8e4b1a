"""Detections: the objects in one picture, the interface of what finds them, and how many boxes overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.boxes import LEAST_AREA, Box
from models.families import CLASSES, OBJECTS, family_of, first_of, object_of

GROUPS = np.array([[object_of(label) == name for label in CLASSES] for name in OBJECTS])
"""Bool ``(len(OBJECTS), len(CLASSES))``: which classes an object's name stands for."""

FAMILY = np.array([first_of(family_of(name)) for name in OBJECTS])
"""int64 ``(len(OBJECTS),)``: the first object of each one's family."""

Boxes = Sequence[Box] | NDArray[np.floating]  # N boxes, or ``(N, 4)``

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


def shared_areas(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Areas that N boxes and M others share, float64 ``(N, M)``."""
    one, two = (np.asarray(boxes, np.float64).reshape(-1, 4) for boxes in (a, b))
    # one plane after the other: hundreds of boxes take a third of the time
    x, y, width, height = one.T[:, :, None]
    others = two.T[:, None]
    across = np.minimum(x + width, others[0] + others[2]) - np.maximum(x, others[0])
    down = np.minimum(y + height, others[1] + others[3]) - np.maximum(y, others[1])
    return np.asarray(across.clip(min=0) * down.clip(min=0))


def overlaps(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Intersection over union of N boxes and M others, float64 ``(N, M)``."""
    shared = shared_areas(a, b)
    areas = [np.asarray(boxes, np.float64).reshape(-1, 4)[:, 2:].prod(1) for boxes in (a, b)]
    return np.asarray(shared / np.maximum(areas[0][:, None] + areas[1] - shared, LEAST_AREA))


def suppress(rivals: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The rows int64 ``(M,)`` that stay where each that stays sends away its `rivals` ``(N, N)`` after it."""
    table = np.triu(rivals, 1)
    gone = np.zeros(len(table), np.bool_)
    for i, row in enumerate(table):
        if not gone[i]:
            gone |= row
    return np.flatnonzero(~gone)
