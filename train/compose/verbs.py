"""Verbs that fit an object: people walk, vehicles drive, cyclists ride, animals run off."""

from __future__ import annotations

from dataclasses import dataclass

from models.families import ANIMALS, THINGS, VEHICLES

FROM = {
    "left": "from the left",
    "right": "from the right",
    "middle": "from the middle",
    "far": "from the background",
    "near": "from the foreground",
}
TO = {
    "left": "to the left",
    "right": "to the right",
    "middle": "to the middle",
    "far": "towards the background",
    "near": "towards the camera",
}
"""Words for a way out of the picture; within it "to the foreground" is said of what came there."""


@dataclass(frozen=True, slots=True)
class Verbs:
    """Participles, and the past of resting.

    Attributes:
        come: into the picture, the plain one first; "in" follows.
        off: out of it, the plain one first.
        on: within it.
        stood: at one place.
    """

    come: tuple[str, ...]
    off: tuple[str, ...]
    on: str
    stood: str = "stood"


_WALKS = Verbs(("come", "walked"), ("walked off", "walked away"), "walked")
_DRIVES = Verbs(("driven", "come"), ("driven off", "driven away"), "driven")
_RIDES = Verbs(("ridden", "come"), ("ridden off",), "ridden")
_RUNS = Verbs(("come", "run"), ("run off",), "run", "was")
_MOVES = Verbs(("come",), ("moved off",), "moved")
_LIES = Verbs(("come",), ("moved off",), "moved", "was")


def verbs_of(name: str) -> Verbs:
    """The verbs that fit an object."""
    if name in ("cyclist", "motorcyclist"):
        return _RIDES
    if name in VEHICLES | {"motorcycle"}:
        return _DRIVES
    if name in THINGS:
        return _LIES
    return _WALKS if name == "person" else _RUNS if name in ANIMALS else _MOVES
