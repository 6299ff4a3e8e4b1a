"""Facts: what changed between two pictures, before it is worded."""

from __future__ import annotations

from dataclasses import dataclass

from models.boxes import Box

TYPES = ("appeared", "disappeared", "moved", "replaced", "more", "fewer", "unknown")


@dataclass(frozen=True, slots=True)
class Fact:
    """One change of one object or several.

    Attributes:
        pair: which pair of the batch.
        type: one of `TYPES`.
        object: one of `models.families.KINDS`.
        count: how many.
        before, after: where on each side; None where it is not there.
        confidence: calibrated probability 0..1 that all of it is so.
        large: a vehicle that is a bus or lorry, it is not known which.
        doubtful: two of a kind, one gone and one come, that may or may not be one; its type is moved.
    """

    pair: int
    type: str
    object: str
    count: int
    before: Box | None
    after: Box | None
    confidence: float
    large: bool = False
    doubtful: bool = False
