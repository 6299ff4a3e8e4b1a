"""Confidence that means what it says: fitted on cameras that were not trained on, measured on other pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.captioner import Captioner, DescribeOptions
from models.grounded import Grounded
from train.batches import Split
from train.calibration import fit_confidence, logit, reliability
from train.evaluate import described
from train.truth import GUESSED
from train.verdicts import judge

_EVERYTHING = DescribeOptions(min_confidence=0.0, max_sentences=64)
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """What fitting the confidence gave.

    Attributes:
        slope, offset: confidence = sigmoid(slope x logit(raw) + offset).
        sentences: how many were judged.
        error: expected calibration error 0..1 on pairs that the fit did not see (two halves, each judged by
            the fit of the other).
    """

    slope: float
    offset: float
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
    scores, right, halves = [], [], []
    told = described(captioner, validation, lambda _sample: _EVERYTHING)
    for position, (sample, sentences) in enumerate(zip(validation.samples, told, strict=True)):
        if sample.kind in GUESSED:
            continue
        for verdict in judge(sentences, sample):
            if verdict.counted:
                scores.append(verdict.sentence.confidence)
                right.append(verdict.right)
                halves.append(position % 2)
    if len(scores) < _FEWEST or len(set(right)) == 1:
        return None
    x, true, half = logit(np.array(scores)), np.array(right), np.array(halves)
    confidence = np.empty(len(x))
    for own in (0, 1):
        slope, offset = fit_confidence(x[half != own], true[half != own])
        confidence[half == own] = 1 / (1 + np.exp(-(slope * x[half == own] + offset)))
    slope, offset = fit_confidence(x, true)
    captioner.fit_confidence(slope, offset)
    return Calibration(slope, offset, len(x), reliability(confidence, true).ece)
