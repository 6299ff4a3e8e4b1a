"""Confidence that means what it says: fitted on cameras that were not trained on, measured on other pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.captioner import Captioner, DescribeOptions
from models.grounded import Grounded
from train.batches import Split
from train.calibration import Choice, calibrated, choices, fit_confidence, logit, reliability
from train.evaluate import described
from train.truth import GUESSED
from train.verdicts import judge

_EVERYTHING = DescribeOptions(min_confidence=0.0, max_sentences=64)
_FEWEST = 20
_THRESHOLDS = tuple(round(0.02 * k, 2) for k in range(1, 50))
_RECALL = 3.0
"""How much recall counts beside precision: composed pairs are far harder than real ones (two of five false
sentences about them are one of ten on the benchmark), so that equal weights would keep silent too often."""
_ALARMED = 0.25
"""Largest share of composed pairs without a change that may be told of: their screens, shadows and leaves are
far stronger than what cameras show (one in four of them is one in thirty of the benchmark's negatives)."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What fitting the confidence gave.

    Attributes:
        slope, offset: confidence = sigmoid(slope x logit(raw) + offset).
        threshold: least confidence of a sentence: that of the best F3-measure among those at which no more
            than one in four of the pairs without a change is told of.
        sentences: how many were judged.
        error: expected calibration error 0..1 on pairs that the fit did not see (two halves, each judged by
            the fit of the other).
        alarmed: share 0..1 of the pairs without a change that are told of at the threshold; None where the
            validation holds no such pair.
    """

    slope: float
    offset: float
    threshold: float
    sentences: int
    error: float
    alarmed: float | None = None


def calibrate(captioner: Captioner, validation: Split) -> Calibration | None:
    """Fit a captioner's confidence to how often it is right.

    Only pairs are used of which everything is known, since what a teacher overlooked would count as false.

    Args:
        captioner: a grounded one takes the fit; any other confidence is left as it is.
        validation: pairs of cameras that it was not trained on.

    Returns:
        What was fitted; None for other captioners, and where too few sentences can be judged.
    """
    if not isinstance(captioner, Grounded):
        return None
    captioner.fit_confidence(1.0, 0.0)
    scores, right, halves, tells, changes, surest = [], [], [], [], 0, []
    captioner.something = False  # what is told for its size alone has no score to be fitted
    told = described(captioner, validation, lambda _sample: _EVERYTHING)
    captioner.something = True
    for position, (sample, sentences) in enumerate(zip(validation.samples, told, strict=True)):
        if sample.kind in GUESSED:
            continue
        changes += len(sample.changes)
        if not sample.changes:
            surest.append(max((s.confidence for s in sentences), default=0.0))
        for verdict in judge(sentences, sample):
            if verdict.counted:
                scores.append(verdict.sentence.confidence)
                right.append(verdict.right)
                halves.append(position % 2)
                tells.append([(position, k) for k in verdict.tells])
    if len(scores) < _FEWEST or len(set(right)) == 1:
        return None
    x, true, half = logit(np.array(scores)), np.array(right), np.array(halves)
    confidence = np.empty(len(x))
    for own in (0, 1):
        slope, offset = fit_confidence(x[half != own], true[half != own])
        confidence[half == own] = calibrated(x[half == own], slope, offset)
    slope, offset = fit_confidence(x, true)
    rows = choices(calibrated(x, slope, offset), true, tells, changes, _THRESHOLDS)
    alarms = calibrated(logit(np.array(surest)), slope, offset)
    best = max(_quiet(rows, alarms), key=_measure)
    captioner.fit_confidence(slope, offset, best.threshold)
    error = reliability(confidence, true).ece
    return Calibration(slope, offset, best.threshold, len(x), error, _alarmed(best, alarms))


def _alarmed(row: Choice, alarms: NDArray[np.float64]) -> float | None:
    """Share of the pairs without a change that are told of, by the surest sentence about each."""
    return float((alarms >= row.threshold).mean()) if len(alarms) else None


def _quiet(rows: Sequence[Choice], alarms: NDArray[np.float64]) -> list[Choice]:
    """The rows at which few enough pairs without a change are told of, or else the strictest."""
    return [row for row in rows if (_alarmed(row, alarms) or 0.0) <= _ALARMED] or [rows[-1]]


def _measure(row: Choice) -> float:
    """The F-measure in which recall counts `_RECALL` times as much as precision."""
    weight = _RECALL**2
    if not row.precision > 0 or not row.recall > 0:
        return 0.0
    return (1 + weight) * row.precision * row.recall / (weight * row.precision + row.recall)
