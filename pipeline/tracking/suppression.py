"""Detections made fit for association: doubles go, and a rider and the two-wheeler below are one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.detections import Detections, overlaps, shared_areas, suppress
from models.families import OBJECTS, family_of
from models.grounded.observations import colour_histograms
from pipeline import settings
from pipeline.tracking.types import Floats

_PERSON = OBJECTS.index("person")
_WHEELS = np.array([family_of(name) == "two-wheeler" for name in OBJECTS])


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """N detections of a frame that may begin or continue tracks, the surest first."""

    boxes: Floats  # ``(N, 4)``, cut at the frame's edge
    scores: Floats  # ``(N,)``, 0..1
    classes: Floats  # ``(N, len(OBJECTS))``, probability 0..1 of each class
    embeddings: Floats  # ``(N, E)`` unit vectors of appearance; ``(N, 0)`` where there are none
    riding: Floats  # ``(N,)``, 1 where a person sits on a two-wheeler
    histograms: Floats  # ``(N, COLOUR_BINS)``

    def __len__(self) -> int:
        return len(self.scores)


def candidates(found: Detections, image: NDArray[np.uint8]) -> Candidates:
    """A frame's detections, with embeddings as their features, after suppression.

    Weak boxes as large as a road are left out, and of two boxes on one place the weaker one. A person on a
    two-wheeler becomes one detection: the box around both, with the classes of both.
    """
    arrays = found.box, found.score, found.label, found.feature
    boxes, scores, classes, embeddings = (np.asarray(each, np.float64) for each in arrays)
    order = np.lexsort((*boxes.T, -scores))  # equal scores: by place, not by chance
    large = boxes[:, 2:].prod(1) > settings.LARGE_SHARE
    rows = order[((scores >= settings.LEAST_SCORE) & ~(large & (scores < settings.LARGE_SCORE)))[order]]
    best = classes[rows].argmax(1)
    person, wheels = best == _PERSON, _WHEELS[best]
    same = overlaps(boxes[rows], boxes[rows]) > settings.SAME_DETECTION_IOU
    same &= ~(person[:, None] & wheels[None]) & ~(wheels[:, None] & person[None])
    keep = suppress(same)
    rows, person, wheels = rows[keep], person[keep], wheels[keep]
    boxes, scores, classes, embeddings = (each[rows] for each in (boxes, scores, classes, embeddings))
    riding, gone = np.zeros(len(rows)), np.zeros(len(rows), bool)
    people, machines = np.flatnonzero(person), np.flatnonzero(wheels)
    lower = boxes[people] * (1, 1, 1, 0.5)
    lower[:, 1] += lower[:, 3]
    astride = shared_areas(lower, boxes[machines]) / np.maximum(lower[:, 2:].prod(1), 1e-12)[:, None]
    pairs = np.argwhere(astride > settings.ASTRIDE_SHARE).tolist()
    for row, column in sorted(pairs, key=lambda rc: -astride[tuple(rc)]):
        rider, machine = people[row], machines[column]
        if riding[rider] or gone[machine]:
            continue
        low = np.minimum(boxes[rider, :2], boxes[machine, :2])
        high = np.maximum(boxes[rider, :2] + boxes[rider, 2:], boxes[machine, :2] + boxes[machine, 2:])
        boxes[rider] = [*low, *(high - low)]
        scores[rider] = max(scores[rider], scores[machine])
        classes[rider] = np.maximum(classes[rider], classes[machine])
        riding[rider], gone[machine] = 1.0, True
    boxes, scores, classes, embeddings, riding = (
        each[~gone] for each in (boxes, scores, classes, embeddings, riding)
    )
    histograms = np.asarray(colour_histograms(image, boxes, coarse=True), np.float64)
    return Candidates(boxes, scores, classes, embeddings, riding, histograms)
