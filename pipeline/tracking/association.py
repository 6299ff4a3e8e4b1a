"""Association: which detection continues which track, by a minimum-cost assignment.

The cost of a pair is minus its log odds, logistic in distance, overlap, size, appearance and class, so that a
pair below even odds is left alone. Sure detections find their tracks first, weak ones continue what is left
(Zhang et al. 2022, "ByteTrack"); velocity comes from observations, not from a filter left alone (Cao et al.
2023, "OC-SORT").
"""

from __future__ import annotations

from dataclasses import dataclass

import lap
import numpy as np
from numpy.typing import NDArray

from models.boxes import overlaps
from models.families import OBJECTS, family_of
from pipeline.tracking.motion import AHEAD_S, distances, share_outside
from pipeline.tracking.suppression import Candidates
from pipeline.tracking.types import Floats

_NAMES = sorted({family_of(name) for name in OBJECTS})
FAMILY = np.array([[family_of(name) == family for name in OBJECTS] for family in _NAMES], np.float64).T
"""``(len(OBJECTS), families)``: which class is of which family."""

TERMS = (
    "bias", "distance", "distance, seen once", "distance, resting", "overlap", "overlap, resting", "height",
    "width", "histogram", "embedding", "family", "outside",
)  # fmt: skip
WEIGHTS = np.array([-8.0, -2.5, 0.9, -3.8, 3.3, -1.3, -0.6, -1.0, 3.0, 4.3, 5.3, -4.0])
"""Weights of `TERMS`. Fitted to tracks of the validation cameras, but for the last, which is set."""

_FAR = 8.0  # own sizes beyond which nothing is compared
_ODDS = 30.0
_PARTS = 4  # Bhattacharyya coefficients in the product of two histograms


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """M tracks as arrays, to be found again.

    Attributes:
        boxes: last ones ``(M, 4)``.
        velocities: ``(M, 2)``, shares of the frame a second.
        ages: ``(M,)``, seconds since the last observation.
        counts: observations ``(M,)``.
        resting: bool ``(M,)``.
        histograms, embeddings, families: appearance ``(M, ...)``.
    """

    boxes: Floats
    velocities: Floats
    ages: Floats
    counts: NDArray[np.int64]
    resting: NDArray[np.bool_]
    histograms: Floats
    embeddings: Floats
    families: Floats


def family_shares(classes: Floats) -> Floats:
    """Square roots of the shares of families ``(N, families)``: a product of two is 1 where they agree."""
    shares = classes @ FAMILY
    return np.asarray(np.sqrt(shares / np.maximum(shares.sum(-1, keepdims=True), 1e-9)))


def association_terms(targets: Targets, candidates: Candidates, aspect: float) -> Floats:
    """Terms of the log odds, ``(M, N, len(TERMS))``."""
    count, many = len(targets.ages), len(candidates)
    ahead = targets.boxes.copy()
    ahead[:, :2] += targets.velocities * targets.ages.clip(max=AHEAD_S)[:, None]
    size = np.sqrt(
        np.sqrt(targets.boxes[:, 2:].prod(1)[:, None] * candidates.boxes[:, 2:].prod(1)[None]) * aspect
    )
    reach = np.maximum(targets.ages / 0.4, 0.5)[:, None] ** 0.75
    step = np.minimum(distances(ahead, candidates.boxes, aspect) / np.maximum(size, 1e-6) / reach, _FAR)
    shared = overlaps(ahead, candidates.boxes)
    ratio = np.abs(np.log(targets.boxes[:, None, 2:] / candidates.boxes[None, :, 2:])).clip(max=2)
    once = (targets.counts == 1)[:, None]
    resting = targets.resting[:, None]
    likeness = (
        targets.embeddings @ candidates.embeddings.T
        if targets.embeddings.shape[1] and candidates.embeddings.shape[1]
        else np.full((count, many), 0.5)
    )
    each = (
        np.ones((count, many)),
        step,
        step * once,
        step * resting,
        shared,
        shared * resting,
        ratio[..., 1],
        ratio[..., 0],
        10 * (targets.histograms @ candidates.histograms.T / _PARTS - 0.96),
        likeness,
        targets.families @ family_shares(candidates.classes).T,
        np.broadcast_to(share_outside(ahead)[:, None], (count, many)),
    )
    return np.stack(each, axis=-1)


def assign(odds: Floats) -> list[tuple[int, int]]:
    """Pairs (row, column) with positive log odds, of the largest sum."""
    rows, columns = lap.lapjvx(-np.clip(odds, 0, _ODDS), extend_cost=True, return_cost=False)
    return [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if odds[r, c] > 0]
