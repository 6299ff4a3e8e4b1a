"""Detections: the objects in one picture."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from models.families import OBJECTS


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """N objects in one picture, by falling score.

    Attributes:
        box: float32 ``(N, 4)``, ``x, y, width, height`` in 0..1 of the frame, cut at its edge.
        score: float32 ``(N,)``, 0..1, that an object of its family is there.
        label: float32 ``(N, len(OBJECTS))``, score 0..1 of each object's name there.
        feature: float32 ``(N, F)``, features of the neck within the box, for association.
    """

    box: Tensor
    score: Tensor
    label: Tensor
    feature: Tensor

    def __len__(self) -> int:
        return len(self.box)

    def select(self, rows: Tensor) -> Detections:
        """The given rows, int64 or bool ``(M,)``, in the given order."""
        return Detections(self.box[rows], self.score[rows], self.label[rows], self.feature[rows])

    def name(self, row: int) -> str:
        """The most likely object's name."""
        return OBJECTS[int(self.label[row].argmax())]
