"""Calibration: how often a fact of a confidence is so, on cameras that nothing was learnt from.

A fact about stills is right when the teacher is sure of each of its ends and the family, and wrong when it
knows better about one of them; of the others nothing is learnt. The threshold is the least at which no more
than a stated share of what is told is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, overlaps
from models.families import family_of
from models.grounded.grounded import Grounded
from models.language.facts import Fact
from train.footage.frames import LabelledFrame
from train.footage.votes import UNLIKELY, Vote
from train.grounded.change_classifier import looked
from train.grounded.pairs import FramePairing, pairings
from train.reliability import calibrated, fit_confidence, logit, reliability

FALSE_RATE = 0.15
"""Share of what is told that may be false on the validation cameras."""

_SAME, _NEAR = 0.4, 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """Facts with the teacher's word.

    Attributes:
        confidence: float64 ``(N,)``, of each fact.
        right: bool ``(N,)``.
        camera: str ``(N,)``.
    """

    confidence: NDArray[np.float64]
    right: NDArray[np.bool_]
    camera: NDArray[np.str_]


def checked(
    captioner: Grounded, folder: Path, frames: Sequence[LabelledFrame], number: int, seed: int
) -> Checked:
    """What the captioner would tell of pairs of these frames, and whether it is so."""
    confidence, right, camera = [], [], []
    for pair, sides in looked(captioner, folder, list(pairings(frames, number, seed)), seed):
        for fact in captioner.facts_of_sides(sides, 0):
            word = verdict(fact, pair)
            if word is not None:
                confidence.append(fact.confidence)
                right.append(word)
                camera.append(pair.before.camera)
    return Checked(np.array(confidence), np.array(right, np.bool_), np.array(camera))


def verdict(fact: Fact, pair: FramePairing) -> bool | None:
    """Whether a fact is so; None where the teacher does not know."""
    votes = pair.before.votes, pair.after.votes
    words = []
    for side, box in enumerate((fact.before, fact.after)):
        if box is not None:
            words.append(_end(fact.object, box, votes[side], votes[1 - side]))
    if False in words:
        return False
    return None if None in words else True


def _end(name: str, box: Box, here: Sequence[Vote], there: Sequence[Vote]) -> bool | None:
    family = family_of(name)
    own = [v for v in here if v.family == family]
    shares = overlaps([box], [v.box for v in own])[0] if own else np.zeros(0)
    if not own or shares.max() < _NEAR:
        return False
    best = own[int(shares.argmax())]
    if not best.sure or shares.max() < _SAME:
        return None
    stays = [v for v in there if v.family == family and v.p >= UNLIKELY]
    across = overlaps([best.box], [v.box for v in stays])[0].max() if stays else 0.0
    return True if across < _SAME else None if across < 0.7 else False  # noqa: PLR2004 - the very same place


def calibrate(
    captioner: Grounded, folder: Path, frames: Sequence[LabelledFrame], seed: int, number: int = 1500
) -> dict[str, Any]:
    """Fit a captioner's confidence to how often it is right, and choose its threshold, on unseen cameras.

    Returns:
        What it gave, for the record.
    """
    captioner.fit_confidence(1.0, 0.0, 0.0)
    known = checked(captioner, folder, frames, number, seed)
    decided = logit(np.clip(known.confidence, 1e-4, 1 - 1e-4))
    slope, offset = fit_confidence(decided, known.right)
    fitted = calibrated(decided, slope, offset)
    threshold = threshold_for(fitted, known.right, FALSE_RATE)
    captioner.fit_confidence(slope, offset, threshold)
    kept = fitted >= threshold
    return {
        "slope": round(slope, 4),
        "offset": round(offset, 4),
        "threshold": round(threshold, 3),
        "facts": len(known.right),
        "told": int(kept.sum()),
        "false rate": round(float(1 - known.right[kept].mean()), 4) if kept.any() else None,
        "error": round(float(reliability(fitted, known.right).ece), 4),
    }


def threshold_for(confidence: NDArray[np.float64], right: NDArray[np.bool_], false_rate: float) -> float:
    """The least threshold at which no larger share of what is told is false."""
    order = np.argsort(-confidence)
    false = np.cumsum(~right[order]) / np.arange(1, len(order) + 1)
    allowed = np.flatnonzero(false <= false_rate)
    return float(confidence[order][allowed[-1]]) if len(allowed) else 1.0
