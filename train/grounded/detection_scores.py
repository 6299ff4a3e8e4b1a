"""Average precision of a detector at half overlap, against the pseudo-labels.

Sure candidates are the truth, all-point interpolated (Everingham et al. 2010); what meets an unsure one is
neither right nor wrong.
"""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from models.detections import Detections, Detector, overlaps
from models.families import OBJECTS, family_of
from models.grounded.inference import canvas
from pipeline.sources import Image
from train.footage.frames import LabelledFrame, picture
from train.footage.votes import Vote

MEASURED = ("person", "vehicle", "two-wheeler")  # the families that are measured

FEWEST = 15  # with fewer sure candidates of a family on a camera, nothing is measured there
_SAME, _DOUBT = 0.5, 0.4


def average_precision(
    detector: Detector, folder: Path, frames: Sequence[LabelledFrame], every: int = 1
) -> dict[str, float]:
    """Average precision 0..1 by ``CAMERA FAMILY``."""
    answers: dict[str, list[tuple[float, bool]]] = {}
    true: dict[str, int] = {}
    for frame in frames[::every]:
        (found,) = detector.detect([fit_canvas(picture(folder, frame))])
        for family in MEASURED:
            key = f"{frame.camera} {family}"
            votes = [vote for vote in frame.votes if vote.family == family]
            true[key] = true.get(key, 0) + sum(vote.sure for vote in votes)
            answers.setdefault(key, []).extend(_answers(found, family, votes))
    return {key: area(answers[key], n) for key, n in true.items() if n >= FEWEST}


def mean(scores: dict[str, float]) -> float:
    """Mean over cameras and families, 0..1; 0 where nothing could be measured."""
    return sum(scores.values()) / max(len(scores), 1)


def fit_canvas(image: Image) -> Image:
    high, wide = canvas(*image.shape[:2])
    way = cv2.INTER_AREA if image.shape[1] > wide else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (wide, high), interpolation=way), np.uint8)


def _answers(found: Detections, family: str, votes: Sequence[Vote]) -> list[tuple[float, bool]]:
    """Score of each detection of a family, and whether it is right; doubtful ones are left out."""
    rows = [i for i, best in enumerate(found.label.argmax(1).tolist()) if family_of(OBJECTS[best]) == family]
    boxes = [tuple(box) for box in found.box[rows].tolist()]
    shares = overlaps(boxes, [vote.box for vote in votes]) if boxes else np.zeros((0, len(votes)))
    taken: set[int] = set()
    judged = []
    for n, row in enumerate(rows):
        there = [m for m, vote in enumerate(votes) if vote.sure and m not in taken and shares[n, m] >= _SAME]
        doubtful = any(not vote.sure and shares[n, m] >= _DOUBT for m, vote in enumerate(votes))
        if there:
            taken.add(max(there, key=lambda m: shares[n, m]))
        if there or not doubtful:
            judged.append((float(found.score[row]), bool(there)))
    return judged


def area(answers: list[tuple[float, bool]], true: int) -> float:
    right = np.cumsum([good for _, good in sorted(answers, key=lambda each: -each[0])], dtype=np.float64)
    if not len(right):
        return 0.0
    precision = np.maximum.accumulate((right / np.arange(1, len(right) + 1))[::-1])[::-1]
    return float((np.diff(right / true, prepend=0.0) * precision).sum())
