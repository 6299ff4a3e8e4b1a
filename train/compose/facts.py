"""Facts: what one sentence tells, whether two stills or tracks through the frames between showed it."""

from __future__ import annotations

from dataclasses import dataclass

from models.boxes import Box

TYPES = ("appeared", "disappeared", "moved", "replaced", "more", "fewer", "unknown")

MANNERS = (
    "",
    "came in",
    "left",
    "arrived",
    "drove off",
    "stopped",
    "parked",
    "put down",
    "taken away",
    "crossed",
)
"""How it happened, where that was seen: through the frame's edge (came in, left), from or to somewhere in the
picture that hid it, such as a door (arrived, drove off is a vehicle that set out), and so on."""

SIDES = ("left", "right", "far", "near")
"""Where from or where to, as a person names it: a side of the picture, or away from, towards the camera."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What one sentence tells.

    Attributes:
        pair: which pair of the batch.
        type: one of `TYPES`.
        object: one of `models.families.KINDS`.
        count: how many.
        before, after: where on each side; None where it is not there.
        confidence: calibrated probability 0..1 that all of it is so.
        manner: one of `MANNERS`; empty where that was not seen.
        origin, target: one of `SIDES` or empty: where it came from, where it went to.
        rests: True where it stands still at the end, False where it still goes, None where nobody knows.
        waited_s: how long it has rested already, or had rested before it went; None where nobody knows.
        moment_s: seconds after the before frame at which it happened; None where that was not seen.
        path: the middles of its feet, ``(x, y)`` in 0..1 of the frame, in order of time; empty for stills.
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
    manner: str = ""
    origin: str = ""
    target: str = ""
    rests: bool | None = None
    waited_s: float | None = None
    moment_s: float | None = None
    path: tuple[tuple[float, float], ...] = ()
    large: bool = False
    doubtful: bool = False

    @property
    def box(self) -> Box:
        """Where the sentence is about: where it is now, or where it was."""
        box = self.after or self.before
        if box is None:
            raise ValueError(f"a fact without a place: {self}")
        return box
