"""Changes: from a frame pair to its aligned difference mask, clusters and salience."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pipeline.clusters import Cluster
from pipeline.pairs import FramePair


class SceneEvent(StrEnum):
    """What happened to the scene as a whole."""

    NONE = "none"
    LIGHT = "light_changed"
    VIEW = "view_changed"
    OBSTRUCTED = "obstructed"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What differs between the frames of one pair.

    Attributes:
        pair: the frame pair.
        shift: ``(dx, dy)`` in analysis pixels: content of `before` moved by this lies on `after`.
        clusters: most salient first.
        salience: float32 ``(K,)``, one score per cluster, descending.
        event: what happened to the scene as a whole; clusters are empty unless it is NONE.
    """

    pair: FramePair
    shift: tuple[int, int]
    clusters: tuple[Cluster, ...]
    salience: NDArray[np.float32]
    event: SceneEvent
