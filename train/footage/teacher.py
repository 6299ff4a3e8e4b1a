"""The teacher of the data engine: what several detectors agree on in one image, so that captions can be true.

Only training needs it; the detectors are the user's (`train.footage.teachers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.boxes import Box, area, inside, intersection, iou, union
from models.families import family_of
from pipeline.sources import Image
from train.footage.teachers import TeacherFile, teachers
from train.footage.votes import TRUST, Vote, merged

LABELS = ("person", "bicycle", "car", "motorcycle", "bus", "truck", "bottle", "vehicle")
"""What is reported, of the names in `models.families`; the generated captions have words for these alone."""

UNNAMED = {"person": "person", "vehicle": "vehicle", "two-wheeler": "motorcycle"}
"""What a family is called of which no detector names the kind."""


_SAME, _INSIDE, _GROWN = 0.5, 0.8, 4.0  # intersection over union, share of an area, ratio of areas
_RIDDEN = 0.3  # least share of a cycle's box that its rider's box covers


@dataclass(frozen=True, slots=True)
class Detection:
    """One object that the teacher sees.

    Attributes:
        label: a value of `LABELS`, "cyclist" for a person on a bicycle, or "vehicle" where the teacher
            is not sure which.
        box: ``(x, y, width, height)`` in 0..1 of the frame.
        score: 0..1.
    """

    label: str
    box: Box
    score: float

    @property
    def family(self) -> str:
        """The label, or the family of labels that are easily confused with it."""
        return family_of(self.label)


class Teacher:
    """Finds objects in RGB images by the agreement of several detectors.

    Raises:
        TeacherError: see `train.footage.teachers`.
    """

    def __init__(self, files: Sequence[TeacherFile], *, min_score: float = 0.25) -> None:
        self._teachers = teachers(files)
        self.min_score = min_score

    def detect(self, image: Image) -> tuple[Detection, ...]:
        """Objects on the whole frame and on its tiles, merged, the surest first.

        Args:
            image: RGB uint8 ``(height, width, 3)``.
        """
        votes = merged([raw for _, raw in self._teachers(image, tiled=True)])
        found = [d for d in map(_detection, votes) if d is not None and d.score >= self.min_score]
        return merge_riders(suppress(found))


def _detection(vote: Vote) -> Detection | None:
    """A candidate as the captions tell it; None of what they have no word for.

    Its score is what a detector would have to give that sees it alone.
    """
    kind = max(vote.kinds, key=lambda each: each[1])[0] if vote.kinds else UNNAMED.get(vote.family)
    return Detection(kind, vote.box, min(vote.p / TRUST, 1.0)) if kind in LABELS else None


def suppress(found: Sequence[Detection]) -> tuple[Detection, ...]:
    """Non-maximum suppression within each family, the surest first.

    What overlaps a surer one is the same object, what lies in it a part of it, and what holds it the same
    again, unless it is much larger.
    """
    kept: list[Detection] = []
    for seen in sorted(found, key=lambda d: -d.score):
        rivals = [k for k in kept if k.family == seen.family]
        own = area(seen.box)
        same = any(
            iou(seen.box, k.box) > _SAME
            or intersection(seen.box, k.box) > _INSIDE * own
            or (
                seen.label == k.label
                and intersection(seen.box, k.box) > _INSIDE * area(k.box) > _INSIDE * own / _GROWN
            )
            for k in rivals
        )
        if not same:
            kept.append(seen)
    return tuple(kept)


def merge_riders(found: Sequence[Detection]) -> tuple[Detection, ...]:
    """A person on a bicycle becomes one cyclist, a person on a motorcycle a part of it."""
    people = [d for d in found if d.label == "person"]
    merged: list[Detection] = []
    riders: set[int] = set()
    for cycle in (d for d in found if d.label in ("bicycle", "motorcycle")):
        shares = [inside(cycle.box, p.box) for p in people]
        best = int(np.argmax(shares)) if shares else -1
        above = best >= 0 and people[best].box[1] < cycle.box[1] + 0.3 * cycle.box[3]
        if best >= 0 and best not in riders and shares[best] >= _RIDDEN and above:
            riders.add(best)
            label = "cyclist" if cycle.label == "bicycle" else "motorcycle"
            score = max(cycle.score, people[best].score)
            merged.append(Detection(label, union(cycle.box, people[best].box), score))
        else:
            merged.append(cycle)
    merged += [p for k, p in enumerate(people) if k not in riders]
    merged += [d for d in found if d.label not in ("bicycle", "motorcycle", "person")]
    return tuple(sorted(merged, key=lambda d: -d.score))
