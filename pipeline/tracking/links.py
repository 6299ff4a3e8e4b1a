"""Links: how likely a track that began is one that ended before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.boxes import overlaps
from pipeline.tracking.appearance import histogram_similarity
from pipeline.tracking.association import family_shares
from pipeline.tracking.motion import outside, sizes, velocity, whole_box
from pipeline.tracking.types import Floats, Track

LINK_S = 6.0
"""Longest gap between an end and a beginning that are compared."""

_OVERLAP_S = 0.3  # by so much the beginning may be earlier
_AHEAD_S = 1.5
_FAR = 6.0

TERMS = (
    "bias", "distance", "distance ahead", "distance back", "overlap", "height", "histogram", "embedding",
    "family", "log gap", "speed", "outside", "observations",
)  # fmt: skip
WEIGHTS = np.array([0.3, 1.3, -1.3, -1.2, 0.9, -0.7, 0.6, 0.9, 1.1, -0.85, 0.0, 0.3, -0.4])
"""Of `TERMS`. Fitted to broken tracks of the validation cameras: at even odds 65 of 100 links are right."""


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """N ends or beginnings of tracks as arrays.

    Attributes:
        times: ``(N,)``.
        boxes: ``(N, 4)``, as large as before the frame's edge cut them.
        velocities: ``(N, 2)``.
        histograms, embeddings, families: of the whole track.
        counts: observations, ``(N,)``.
    """

    times: Floats
    boxes: Floats
    velocities: Floats
    histograms: Floats
    embeddings: Floats
    families: Floats
    counts: Floats


def ends_of(tracks: list[Track], *, at_start: bool) -> Ends:
    """The beginnings (or ends) of tracks."""
    which = [t.first if at_start else t.last for t in tracks]
    return Ends(
        np.array([o.time_s for o in which]),
        np.array([whole_box(t.observations, at_start=at_start) for t in tracks]).reshape(-1, 4),
        np.array([velocity(t.observations, at_start=at_start) for t in tracks]).reshape(-1, 2),
        np.array([t.histogram for t in tracks]),
        np.array([t.embedding for t in tracks]),
        family_shares(np.array([t.classes for t in tracks])),
        np.array([len(t.observations) for t in tracks], np.float64),
    )


def link_terms(ended: Ends, begun: Ends, aspect: float) -> Floats:
    """What the log odds of links are made of, ``(M, N, len(TERMS))``."""
    gap = begun.times[None] - ended.times[:, None]
    reach = np.abs(gap).clip(max=_AHEAD_S)
    size = np.sqrt(sizes(ended.boxes, aspect)[:, None] * sizes(begun.boxes, aspect)[None])
    scale = size * np.maximum(np.abs(gap), 0.4) ** 0.5
    step = begun.boxes[None, :, :2] - ended.boxes[:, None, :2]
    step += (begun.boxes[None, :, 2:] - ended.boxes[:, None, 2:]) / 2
    ahead = step - ended.velocities[:, None] * reach[..., None]
    back = step - begun.velocities[None] * reach[..., None]
    far, far_ahead, far_back = (
        np.minimum(np.hypot(each[..., 0] * aspect, each[..., 1]) / scale, _FAR)
        for each in (step, ahead, back)
    )
    predicted = np.broadcast_to(ended.boxes[:, None], (*gap.shape, 4)).copy()
    predicted[..., :2] += ended.velocities[:, None] * reach[..., None]
    returned = np.broadcast_to(begun.boxes[None], (*gap.shape, 4)).copy()
    returned[..., :2] -= begun.velocities[None] * reach[..., None]
    gone = np.maximum(*(outside(each.reshape(-1, 4)).reshape(gap.shape) for each in (predicted, returned)))
    speed = np.hypot(
        (ended.velocities[:, None, 0] - begun.velocities[None, :, 0]) * aspect,
        ended.velocities[:, None, 1] - begun.velocities[None, :, 1],
    )
    each = (
        np.ones_like(gap), far, far_ahead, far_back, overlaps(ended.boxes, begun.boxes),
        np.abs(np.log(ended.boxes[:, None, 3] / begun.boxes[None, :, 3])).clip(max=2),
        10 * (histogram_similarity(ended.histograms, begun.histograms) - 0.96),
        ended.embeddings @ begun.embeddings.T if ended.embeddings.shape[1] else np.full_like(gap, 0.5),
        ended.families @ begun.families.T,
        np.log(np.maximum(np.abs(gap), 0.2) / 0.2),
        np.minimum(speed / size, 4.0),
        gone,
        np.log(np.minimum(np.minimum(ended.counts[:, None], begun.counts[None]), 10)),
    )  # fmt: skip
    return np.stack(each, axis=-1)


def link_odds(ended: list[Track], begun: list[Track], aspect: float) -> Floats:
    """Log odds ``(M, N)`` that a beginning is the end's track; -inf where the times do not fit."""
    odds = np.full((len(ended), len(begun)), -np.inf)
    gap = np.array([[b.first.time_s - a.last.time_s for b in begun] for a in ended]).reshape(odds.shape)
    fits = (gap >= -_OVERLAP_S) & (gap <= LINK_S)
    fits &= np.array([[a is not b for b in begun] for a in ended], bool).reshape(odds.shape)
    rows, columns = np.flatnonzero(fits.any(1)), np.flatnonzero(fits.any(0))
    if len(rows):
        one = ends_of([ended[k] for k in rows], at_start=False)
        two = ends_of([begun[k] for k in columns], at_start=True)
        odds[np.ix_(rows, columns)] = link_terms(one, two, aspect) @ WEIGHTS
    return np.where(fits, odds, -np.inf)
