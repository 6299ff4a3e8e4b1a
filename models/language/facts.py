"""Facts: changes between two pictures, before they are worded."""

from __future__ import annotations

from dataclasses import dataclass

from models.boxes import Box

TYPES = ("appeared", "disappeared", "moved")


@dataclass(frozen=True, slots=True)
class Fact:
    """One change of one object or several.

    Attributes:
        pair: which pair of the batch.
        type: one of `TYPES`.
        object: one of `models.families.KINDS`.
        before, after: box on each side; None where it is absent.
        confidence: calibrated probability 0..1 of all of it.
        large: a vehicle, either a bus or a lorry.
        doubtful: a move of which `before` and `after` may show two objects; an arrival or departure of what
            may be elsewhere in the other picture.
    """

    pair: int
    type: str
    object: str
    before: Box | None
    after: Box | None
    confidence: float
    large: bool = False
    doubtful: bool = False
