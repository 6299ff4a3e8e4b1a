"""Association: which detection continues which track, by a minimum-cost assignment.

The cost of a pair is minus its log odds, logistic in distance, overlap, size, appearance and class, so that a
pair below even odds is left alone. Sure detections find their tracks first, weak ones continue what is left
(Zhang et al. 2022, "ByteTrack"); velocity comes from observations, not from a filter left alone (Cao et al.
2023, "OC-SORT"). Before that doubles go, and a rider and the two-wheeler below become one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import lap
import numpy as np
from numpy.typing import NDArray

from models.detections import FAMILY, Detections, overlaps, shared_areas, suppress
from models.families import OBJECTS, family_of
from models.grounded.observations import colour_histograms
from pipeline import settings
from pipeline.tracking.tracks import Floats, Track, distances, share_outside

_PERSON = OBJECTS.index("person")
_WHEELS = np.array([family_of(name) == "two-wheeler" for name in OBJECTS])
_FAMILIES = np.equal.outer(FAMILY, np.unique(FAMILY)).astype(np.float64)  # ``(len(OBJECTS), families)``
_PARTS = 4  # Bhattacharyya coefficients in the product of two histograms


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


def association_odds(tracks: Sequence[Track], found: Candidates, aspect: float, weights: Floats) -> Floats:
    """Log odds ``(M, N)`` that each of M tracks is continued by each of N candidates.

    The terms are computed as they were when their `weights`, ``(12,)``, were fitted.
    """
    boxes, velocities = np.array([t.last.box for t in tracks]), np.array([t.velocity for t in tracks])
    ages = np.array([t.unseen_s for t in tracks])
    ahead = boxes.copy()
    ahead[:, :2] += velocities * ages.clip(max=1.0)[:, None]
    size = np.sqrt(np.sqrt(boxes[:, 2:].prod(1)[:, None] * found.boxes[:, 2:].prod(1)[None]) * aspect)
    reach = np.maximum(ages / 0.4, 0.5)[:, None] ** 0.75
    apart = distances(ahead, found.boxes, aspect) / np.maximum(size, 1e-6)
    step = np.minimum(apart / reach, 8.0)
    shared = overlaps(ahead, found.boxes)
    ratio = np.abs(np.log(boxes[:, None, 2:] / found.boxes[None, :, 2:])).clip(max=2)
    once = np.array([len(t.observations) == 1 for t in tracks])[:, None]
    resting = np.array([t.rests_since_s is not None for t in tracks])[:, None]
    histograms, embeddings = (np.array([getattr(t, k) for t in tracks]) for k in ("histogram", "embedding"))
    known = embeddings.shape[1] and found.embeddings.shape[1]
    families = _family_shares(np.array([t.classes for t in tracks]))
    each = (
        1.0,
        step,
        step * once,
        step * resting,
        shared,
        shared * resting,
        ratio[..., 1],
        ratio[..., 0],
        10 * (histograms @ found.histograms.T / _PARTS - 0.96),
        embeddings @ found.embeddings.T if known else 0.5,
        families @ _family_shares(found.classes).T,
        share_outside(ahead)[:, None],
    )
    terms = np.stack([np.broadcast_to(term, step.shape) for term in each], axis=-1)
    return np.asarray(terms @ weights)


def _family_shares(classes: Floats) -> Floats:
    """Square roots of the shares of families ``(N, families)``: a product of two is 1 where they agree."""
    shares = classes @ _FAMILIES
    return np.asarray(np.sqrt(shares / np.maximum(shares.sum(-1, keepdims=True), 1e-9)))


def assign(odds: Floats) -> list[tuple[int, int]]:
    """Pairs (row, column) with positive log odds, of the largest sum: a sure one does not outweigh many."""
    rows, columns = lap.lapjvx(-np.clip(odds, 0, 30), extend_cost=True, return_cost=False)
    return [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if odds[r, c] > 0]
