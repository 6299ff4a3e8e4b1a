"""Association between two stills: which observation before is which after, and what became of each.

Three sets of weights, fitted to pairs that were labelled by eye (`train.grounded.decisions`):

1. `PAIR_SIGNS`: are these two one object? With odds w the probability of a set of matches, in which each
   observation has one partner or none, is in proportion to the product of theirs; belief propagation
   (Williams and Lau 2014, "Approximate evaluation of marginal association probabilities with belief
   propagation") gives the probability of each match. The weights are those by which these probabilities fit.
2. `SIGNS` of one observation, of which these probabilities are a part: is it a visible change?
3. The same: is what changed elsewhere in the other still, whichever of its candidates it may be?

The third is far surer than any single match: in a queue that moves up all have moved, whoever is who. Signs
are the same when the two stills are exchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.detections import overlaps
from models.families import first_of
from models.grounded.observations import colour_likeness
from models.grounded.settings import SETTINGS

Floats = NDArray[np.float64]

PAIR_SIGNS = (
    *("cosine of features", "cosine of appearance", "log distance", "log distance, log gap"),
    *("log distance, person", "vertical distance", "overlap", "at its place", "at its place, long gap"),
    *("ratio of sizes", "hue above", "lightness above", "hue below", "lightness below", "names"),
    *("person", "vehicle", "long gap", "log gap", "at edge", "at edge, log gap", "distance to edge"),
    *("distance to edge, log gap", "log height", "log height, person"),
)
SIGNS = (
    *("sum of matches", "best match", "sum of matches, changed or not", "log gap", "long gap"),
    *("log gap, person", "candidates", "rivals", "nearest candidate", "nearest candidate, person", "at edge"),
    *("distance to edge", "log height", "person", "vehicle", "change", "score", "best appearance", "stays"),
    *("own family there", "other family there", "log height, person", "change, short gap"),
    *("candidates against rivals", "at edge, log gap", "distance to edge, log gap"),
)

CHANGE_SIGNS = (
    *("sum of matches, changed or not", "at edge", "distance to edge", "log height", "person", "vehicle"),
    *("change", "score", "stays", "own family there", "other family there", "log height, person"),
)
"""The `SIGNS` of a change; those of candidates and matches say nothing in an empty scene."""

CHANGE_COLUMNS = [SIGNS.index(name) for name in CHANGE_SIGNS]

LOGIT_MOST = 8.0
"""Log odds of a match without rivals are clipped to so much and its negative."""

_FAR = 50.0  # sizes: no candidate


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The N observations of one still, as arrays."""

    box: Floats  # ``(N, 4)``, ``x, y, width, height`` in 0..1 of the frame
    score: Floats  # ``(N,)``, 0..1
    label: Floats  # ``(N, len(OBJECTS))``, 0..1
    family: NDArray[np.int64]  # ``(N,)``, the number of its family's first object
    change: Floats  # ``(N,)``, p(change) by the change classifier
    embedding: Floats  # ``(N, E)`` unit vectors of the detector's features
    appearance: Floats  # ``(N, D)`` unit vectors; zeros where it is not known
    colours: NDArray[np.floating]  # ``(N, COLOUR_BINS)``, see `observations.colour_histograms`

    def __len__(self) -> int:
        return len(self.box)


@dataclass(frozen=True, slots=True, eq=False)
class Association:
    """Two stills and the features of each pair of S observations before and T after."""

    sides: tuple[Side, Side]
    gap_s: float  # seconds between the stills, NaN where that is not known
    signs: Floats  # ``(S, T, len(PAIR_SIGNS))``
    family: NDArray[np.bool_]  # ``(S, T)``, of one family
    apart: Floats  # ``(S, T)``, distance in own sizes, along the longer way
    overlap: Floats  # ``(S, T)``, intersection over union
    appearance: Floats  # ``(S, T)``, cosine; 0 where it is not known

    @property
    def elsewhere(self) -> NDArray[np.bool_]:
        """Bool ``(S, T)``: of one family, and not at the same place."""
        return self.family & (self.apart >= SETTINGS.stayed)

    def swap(self) -> Association:
        """The same with before and after exchanged."""
        planes = self.family.T, self.apart.T, self.overlap.T, self.appearance.T
        return Association(self.sides[::-1], self.gap_s, self.signs.transpose(1, 0, 2), *planes)

    def match(self, weights: Floats) -> Floats:
        """Probability ``(S, T)`` that two are one, considering all their rivals.

        What is left to 1 of a row or column is the probability that this one has no partner. Of the weights
        ``(len(PAIR_SIGNS) + 1,)`` the last is the constant.
        """
        logits = np.clip(self.signs @ weights[:-1] + weights[-1], -LOGIT_MOST, LOGIT_MOST)
        return np.asarray(propagate_beliefs(np.where(self.family, np.exp(logits), 0.0)), np.float64)

    def outcome_signs(self, match: Floats) -> tuple[Floats, Floats]:
        """Features of each outcome by matches ``(S, T)``: ``(S, len(SIGNS))`` and ``(T, len(SIGNS))``."""
        return _outcome_signs(self, match), _outcome_signs(self.swap(), match.T)


def associate(before: Side, after: Side, gap_s: float) -> Association:
    """Features by which two observations are one object or two; `gap_s` as in `Association`."""
    one, two = before.box, after.box
    middle = (one[:, None, :2] + one[:, None, 2:] / 2) - (two[None, :, :2] + two[None, :, 2:] / 2)
    size_one, size_two = np.maximum(one[:, None, 2:], 2e-3), np.maximum(two[None, :, 2:], 2e-3)
    way = np.abs(middle) / np.sqrt(size_one * size_two)
    distance = np.minimum(np.log(np.hypot(way[..., 0], way[..., 1]) + 0.1), 3.0)
    apart = (np.abs(middle) / ((size_one + size_two) / 2)).max(-1)
    ratio = np.minimum(np.abs(np.log(size_one / size_two)).sum(-1), 3.0)
    overlap = overlaps(one, two)
    family = before.family[:, None] == after.family[None]
    people = before.family == first_of("person")
    person = family & people[:, None]
    vehicle = family & (before.family == first_of("vehicle"))[:, None]
    appearance = before.appearance @ after.appearance.T
    names = [side.label / np.maximum(side.label.sum(1, keepdims=True), 1e-6) for side in (before, after)]
    short, log_gap = _time(gap_s)
    at_edge, to_edge, height = (
        a[:, None] + b for a, b in zip(_edge_and_height(before), _edge_and_height(after), strict=True)
    )
    stays = apart < SETTINGS.stayed
    signs = (
        *(before.embedding @ after.embedding.T, appearance, distance * short),
        *(distance * short * log_gap, distance * short * person, np.minimum(way[..., 1], 5.0), overlap),
        *(stays, stays * (1 - short), ratio, *colour_likeness(before.colours, after.colours)),
        *(np.sqrt(names[0]) @ np.sqrt(names[1]).T, person, vehicle, 1 - short, log_gap),
        *(at_edge, at_edge * short * log_gap, to_edge, to_edge * short * log_gap, height, height * person),
    )
    stacked = np.stack([np.broadcast_to(sign, family.shape) for sign in signs], axis=-1, dtype=np.float64)
    return Association((before, after), gap_s, stacked, family, apart, overlap, appearance)


def propagate_beliefs(odds: Any) -> Any:
    """Probability of each match ``(S, T)`` from its odds without rivals, arrays of NumPy or of torch."""
    forth = back = odds * 0 + 1
    for _ in range(SETTINGS.rounds):
        sent, got = odds * back, odds * forth
        forth, back = (
            (forth + 1 / (1 + (sent.sum(1, keepdims=True) - sent).clip(0))) / 2,
            (back + 1 / (1 + (got.sum(0, keepdims=True) - got).clip(0))) / 2,
        )
    odds = odds * forth * back
    return odds / (1 + odds)


def _outcome_signs(pair: Association, match: Floats) -> Floats:
    """Features of the outcome of each of the N observations before, ``(N, len(SIGNS))``."""
    own, other = pair.sides
    if not len(own):
        return np.zeros((0, len(SIGNS)))
    elsewhere = pair.elsewhere
    matched = match * elsewhere
    changed = matched * other.change[None]
    candidates = (elsewhere * other.change[None] * (other.score >= SETTINGS.candidate_score)[None]).sum(1)
    rivals = ((own.family[:, None] == own.family[None]) * own.change[None]).sum(1)
    candidate = elsewhere & (other.change > SETTINGS.candidate_change)[None]
    nearest = np.where(candidate, pair.apart, _FAR).min(1, initial=_FAR)
    distance = np.minimum(np.log(nearest + 0.1), 3.0)
    appearance = _most(np.where(candidate, pair.appearance, 0.0))
    there = pair.overlap * other.score[None]
    at_edge, distance_to_edge, log_height = _edge_and_height(own)
    person, vehicle = (own.family == first_of(name) for name in ("person", "vehicle"))
    short, log_gap = _time(pair.gap_s)
    change, log_candidates, log_rivals = logit(own.change, 0.01), np.log1p(candidates), np.log1p(rivals)
    columns = (
        *(logit(changed.sum(1)), logit(_most(changed)), logit(matched.sum(1)), short * log_gap, 1 - short),
        *(person * short * log_gap, log_candidates, log_rivals, distance * short, distance * short * person),
        *(at_edge, distance_to_edge, log_height, person, vehicle, change, logit(own.score, 0.02)),
        *(appearance * person * short, (match * (pair.family & ~elsewhere)).sum(1)),
        *(_most(there * pair.family), _most(there * ~pair.family), log_height * person, change * short),
        *(np.abs(log_candidates - log_rivals), at_edge * short * log_gap, distance_to_edge * short * log_gap),
    )
    return np.stack([np.broadcast_to(each, (len(own),)) for each in columns], axis=1, dtype=np.float64)


def _edge_and_height(side: Side) -> tuple[Floats, Floats, Floats]:
    """Of each of N whether it is at an edge, 0 or 1, its distance to it in own sizes, its log height."""
    x, y, width, height = side.box.T
    edge = np.minimum(
        np.minimum(x, 1 - x - width) / np.maximum(width, 1e-3),
        np.minimum(y, 1 - y - height) / np.maximum(height, 1e-3),
    )
    at_edge = np.asarray(edge < 0.05, np.float64)  # noqa: PLR2004
    return at_edge, np.clip(edge, 0, 3), np.log(np.maximum(height, 0.01))


def probability(signs: Floats, weights: Floats) -> Floats:
    """Logistic regression of N observations, ``(N,)``; the last weight is the constant."""
    return np.asarray(1 / (1 + np.exp(-np.clip(signs @ weights[:-1] + weights[-1], -30, 30))), np.float64)


def _time(gap_s: float) -> tuple[float, float]:
    """1 for a gap of less than a minute, else 0; and its logarithm."""
    known = SETTINGS.unknown_gap_s if math.isnan(gap_s) else gap_s
    return float(known < SETTINGS.long_gap_s), math.log(max(known, 0.3))


def _most(values: Floats) -> Floats:
    return np.asarray(values.max(1, initial=0.0), np.float64)


def logit(p: Floats, least: float = 1e-3) -> Floats:
    """Log odds of probabilities, which are clipped to `least` and 1 - `least`."""
    p = np.clip(p, least, 1 - least)
    return np.asarray(np.log(p / (1 - p)), np.float64)
