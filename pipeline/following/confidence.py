"""How sure a fact of a track is: a logistic form of its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

WEIGHTS: dict[str, tuple[float, ...]] = {
    "appeared": (
        -4.81, 1.10, 0.40, 3.05, 0.17, 3.65, 0.71, 0.12, 0.18,
        -0.63, 1.04, 0.45, 0.63, 0.28, -0.18, -1.46, 0.14,
    ),
    "disappeared": (
        -4.00, 1.67, -0.31, 1.18, 0.65, 1.92, 0.74, 0.48, 0.11,
        -0.11, -0.31, 1.21, 0.60, 0.07, -2.24, 0.75, -0.09,
    ),
    "moved": (
        -11.11, 3.07, 1.94, 1.18, 1.88, 0.77, 0.57, 0.03, -0.03,
        0.00, 0.00, 1.07, 0.34, -0.29, 0.00, -1.02, 0.19,
    ),
}  # fmt: skip
"""Bias and a weight for each of `pipeline.following.events.EVIDENCE`, by type. Fitted with a ridge to facts
of training cameras, judged by tracks of eight frames a second that several detectors confirm."""

CALIBRATION = {"appeared": (1.26, 1.18)}
"""Slope and offset of the log odds, by type: those detectors deny many an entrance that people see. Fitted to
`benchmarks/validation_tracks.jsonl`; without any one camera they are 1.15 to 1.31 and 1.04 to 1.35."""


def confidence(kind: str, evidence: Sequence[float]) -> float:
    """Probability 0..1 that an event of this type is so."""
    bias, *weights = WEIGHTS[kind]
    slope, offset = CALIBRATION.get(kind, (1.0, 0.0))
    odds = bias + sum(w * x for w, x in zip(weights, evidence, strict=True))
    return 1 / (1 + exp(-slope * odds - offset))
