"""Confidence that means what it says: fitted on cameras that were not trained on, measured on other pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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


@dataclass(frozen=True, slots=True)
class Calibration:
    """What fitting the confidence gave.

    Attributes:
        slope, offset: confidence = sigmoid(slope x logit(raw) + offset).
        threshold: least confidence of a sentence, that of the best F3-measure.
        sentences: how many were judged.
        error: expected calibration error 0..1 on pairs that the fit did not see (two halves, each judged by
            the fit of the other).
    """

    slope: float
    offset: float
    threshold: float
    sentences: int
    error: float


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
    scores, right, halves, tells, changes = [], [], [], [], 0
    captioner.something = False  # what is told for its size alone has no score to be fitted
    told = described(captioner, validation, lambda _sample: _EVERYTHING)
    captioner.something = True
    for position, (sample, sentences) in enumerate(zip(validation.samples, told, strict=True)):
        if sample.kind in GUESSED:
            continue
        changes += len(sample.changes)
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
    best = max(rows, key=_measure)
    captioner.fit_confidence(slope, offset, best.threshold)
    return Calibration(slope, offset, best.threshold, len(x), reliability(confidence, true).ece)


def _measure(row: Choice) -> float:
    """The F-measure in which recall counts `_RECALL` times as much as precision."""
    weight = _RECALL**2
    if not row.precision > 0 or not row.recall > 0:
        return 0.0
    return (1 + weight) * row.precision * row.recall / (weight * row.precision + row.recall)
