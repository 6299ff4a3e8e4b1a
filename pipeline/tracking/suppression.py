"""Detections made fit for association: doubles go, and a rider and the two-wheeler below are one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.boxes import overlaps
from models.families import OBJECTS, family_of
from pipeline.tracking.motion import cover
from pipeline.tracking.types import Detections, Floats

Rows = NDArray[np.int64]

LOW = 0.12
"""Least score of a detection that may continue a track."""

_SAME = 0.7  # intersection over union from which two detections of any class are one
_ASTRIDE = 0.4  # share of a person's lower half that lies on the two-wheeler
_LARGE, _SURE = 0.1, 0.35  # area of the frame from which a detection needs this score
_PERSON = OBJECTS.index("person")
_WHEELS = np.array([family_of(name) == "two-wheeler" for name in OBJECTS])


def suppress(found: Detections) -> tuple[Detections, Floats]:
    """A frame's detections after suppression, surest first, and which of them ride: 1 or 0 ``(N,)``.

    Weak boxes as large as a road are left out, and of two boxes on one place the weaker one. A person on a
    two-wheeler becomes one detection: the box around both, with the classes of both.
    """
    order = np.lexsort((*found.boxes.T, -found.scores))  # equal scores: by place, not by chance
    large = found.boxes[:, 2:].prod(1) > _LARGE
    order = order[((found.scores >= LOW) & ~(large & (found.scores < _SURE)))[order]]
    found = found.select(order)
    best = found.classes.argmax(1) if len(found) else np.zeros(0, np.int64)
    person, wheels = best == _PERSON, _WHEELS[best]
    same = overlaps(found.boxes, found.boxes) > _SAME
    same &= ~(person[:, None] & wheels[None]) & ~(wheels[:, None] & person[None])
    keep = np.ones(len(found), bool)
    for k in range(len(found)):
        keep[k] = not (same[k, :k] & keep[:k]).any()
    found, person, wheels = found.select(keep), person[keep], wheels[keep]
    return _with_riders(found, *(np.flatnonzero(each).astype(np.int64) for each in (person, wheels)))


def _with_riders(found: Detections, people: Rows, machines: Rows) -> tuple[Detections, Floats]:
    riding = np.zeros(len(found))
    if not len(people) or not len(machines):
        return found, riding
    boxes, scores, classes = found.boxes.copy(), found.scores.copy(), found.classes.copy()
    lower = boxes[people].copy()
    lower[:, 1] += lower[:, 3] / 2
    lower[:, 3] /= 2
    astride = cover(lower, boxes[machines])
    gone = np.zeros(len(found), bool)
    for row, column in sorted(np.argwhere(astride > _ASTRIDE).tolist(), key=lambda rc: -astride[tuple(rc)]):
        rider, machine = people[row], machines[column]
        if riding[rider] or gone[machine]:
            continue
        low = np.minimum(boxes[rider, :2], boxes[machine, :2])
        high = np.maximum(boxes[rider, :2] + boxes[rider, 2:], boxes[machine, :2] + boxes[machine, 2:])
        boxes[rider] = [*low, *(high - low)]
        scores[rider] = max(scores[rider], scores[machine])
        classes[rider] = np.maximum(classes[rider], classes[machine])
        riding[rider], gone[machine] = 1.0, True
    merged = Detections(boxes, scores, classes, found.embeddings)
    return merged.select(~gone), riding[~gone]
