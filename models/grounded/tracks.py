"""Tracks: where one object was, frame by frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from models.family_tensors import FAMILY

LOOK_ALIKE = 0.96
"""Likeness of colours, a mean of Bhattacharyya coefficients, that speaks neither for nor against."""

_PARTS = 4  # coefficients in the product of two looks
SPEED_S = 1.5
"""For no longer a lost track is thought to go on as it went."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A track in one frame.

    Attributes:
        seconds: when.
        box: where, ``(x, y, width, height)`` in 0..1 of the frame.
        score: of the detection, 0..1.
        likeness: probability 0..1 that it is the one that was seen before.
        since: seconds from which on it has rested where it is.
    """

    seconds: float
    box: Box
    score: float
    likeness: float
    since: float


@dataclass(slots=True, eq=False)
class Track:
    """One object.

    Attributes:
        number: counts the tracks of a camera.
        sights: in the order of time.
        label: float64 ``(len(OBJECTS),)``, sum of its detections' labels.
        velocity: shares of the frame a second, x and y.
        looks: float64 ``(LOOKS,)``, mean of its last looks (`models.grounded.linker`); None if not known.
        missed: frames in a row, up to the last one, in which it was not seen though nothing hid it.
        hidden: ... and those in which something may have hidden it.
        ended: no longer looked for.
    """

    number: int
    sights: list[Sight]
    label: NDArray[np.float64]
    velocity: tuple[float, float] = (0.0, 0.0)
    looks: NDArray[np.float64] | None = None
    missed: int = 0
    hidden: int = 0
    ended: bool = False

    @property
    def first(self) -> Sight:
        """Where it was first seen."""
        return self.sights[0]

    @property
    def last(self) -> Sight:
        """Where it was last seen."""
        return self.sights[-1]

    @property
    def family(self) -> int:
        """The first object's number of its family."""
        return int(FAMILY[int(self.label.argmax())])

    def at(self, seconds: float) -> Sight | None:
        """Where it was, between two sights on the straight line; None before the first and after the last."""
        if not self.first.seconds - 1e-6 <= seconds <= self.last.seconds + 1e-6:
            return None
        later = next(s for s in self.sights if s.seconds >= seconds - 1e-6)
        if later.seconds <= seconds + 1e-6:
            return later
        earlier = self.sights[self.sights.index(later) - 1]
        share = (seconds - earlier.seconds) / (later.seconds - earlier.seconds)
        x, y, w, h = (a + share * (b - a) for a, b in zip(earlier.box, later.box, strict=True))
        since = earlier.since if later.since <= earlier.seconds else seconds
        return Sight(seconds, (x, y, w, h), min(earlier.score, later.score), later.likeness, since)

    def expected(self, seconds: float) -> Box:
        """Where it would be if it went on as it went."""
        ahead = max(-SPEED_S, min(seconds - self.last.seconds, SPEED_S))
        x, y, w, h = self.last.box
        return x + self.velocity[0] * ahead, y + self.velocity[1] * ahead, w, h


def alike(looks: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much more alike colours are than `LOOK_ALIKE`, -1..0.04.

    Args:
        looks: ``(..., LOOKS)``, see `models.grounded.linker.looks`.
        other: ``(LOOKS,)``.
    """
    return np.asarray(looks @ other / _PARTS - LOOK_ALIKE)
