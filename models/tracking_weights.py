"""The fitted weights of tracking, which a grounded captioner's checkpoint holds as ``tracking.NAME``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TrackingWeights:
    """Of logistic regressions; how each was fitted is in the checkpoint's record, under "tracking"."""

    association: Floats  # ``(12,)``, of the terms of `pipeline.tracking.association.association_odds`
    entrance: Floats  # ``(9,)``, of `pipeline.tracking.evidence.EVIDENCE`
    departure: Floats  # the same
    same_person: Floats  # ``(2,)``, of the cosine of two people's embeddings, and the constant

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(*(arrays[f"tracking.{each.name}"] for each in fields(cls)))

    def arrays(self) -> dict[str, Floats]:
        return {f"tracking.{each.name}": getattr(self, each.name) for each in fields(self)}
