"""Confidence of entrances and departures: logistic in their evidence, fitted on validation cameras."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from pipeline.tracking.types import Floats

FILE = Path(__file__).with_name("confidence.json")
"""Weights, and with which command, on what and when they were fitted."""


UNSEEN = 2.0
"""Log odds by which sentences read by eye on cameras that nothing was fitted on are less often right than the
tracks of validation cameras say: 118 of 142 stated at .98 on average, 12 of 37 at .81 (docs/narrations.md)."""


@dataclass(frozen=True, slots=True, eq=False)
class Confidence:
    """Weights of `pipeline.tracking.evidence.EVIDENCE`.

    Attributes:
        entrance, departure: ``(len(EVIDENCE),)`` each.
    """

    entrance: Floats
    departure: Floats

    def __call__(self, evidence: Floats, *, coming: bool) -> float:
        """Probability 0..1 that an entrance (coming) or a departure is so, on a camera that was never seen."""
        odds = evidence @ (self.entrance if coming else self.departure) - UNSEEN
        return float(1 / (1 + np.exp(-odds)))


@lru_cache(maxsize=1)
def load_confidence() -> Confidence:
    """The weights in `FILE`."""
    held = json.loads(FILE.read_text(encoding="utf-8"))
    return Confidence(np.array(held["entrance"], np.float64), np.array(held["departure"], np.float64))
