"""Association: which detection continues which track, by a minimum-cost assignment.

The cost of a pair is minus its log odds, logistic in distance, overlap, size, appearance and class, so that a
pair below even odds is left alone. Sure detections find their tracks first, weak ones continue what is left
(Zhang et al. 2022, "ByteTrack"); velocity comes from observations, not from a filter left alone (Cao et al.
2023, "OC-SORT").
"""

from collections.abc import Sequence

import lap
import numpy as np

from models.detections import overlaps
from models.families import OBJECTS, family_of
from pipeline.tracking.motion import distances, share_outside
from pipeline.tracking.suppression import Candidates
from pipeline.tracking.types import Floats, Track

_NAMES = sorted({family_of(name) for name in OBJECTS})
FAMILY = np.array([[family_of(name) == family for name in OBJECTS] for family in _NAMES], np.float64).T
"""``(len(OBJECTS), families)``: which class is of which family."""


_PARTS = 4  # Bhattacharyya coefficients in the product of two histograms


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
    shares = classes @ FAMILY
    return np.asarray(np.sqrt(shares / np.maximum(shares.sum(-1, keepdims=True), 1e-9)))


def assign(odds: Floats) -> list[tuple[int, int]]:
    """Pairs (row, column) with positive log odds, of the largest sum: a sure one does not outweigh many."""
    rows, columns = lap.lapjvx(-np.clip(odds, 0, 30), extend_cost=True, return_cost=False)
    return [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if odds[r, c] > 0]
