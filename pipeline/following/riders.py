"""Riders: a person on two wheels is one who is told of, not two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from models.boxes import Box, inside
from models.language.facts import Fact

_NAMES = {"bicycle": "cyclist", "motorcycle": "motorcyclist"}
_ASTRIDE = 0.3  # share of the person's lower half that lies on the wheels


def with_riders(facts: Sequence[Fact]) -> list[Fact]:
    """Facts in which a person and the two-wheeler that the same happens to are one."""
    people = [fact for fact in facts if fact.object == "person"]
    kept, ridden = [], []
    for fact in facts:
        if fact.object not in _NAMES:
            continue
        rider = next(
            (p for p in people if p not in ridden and p.type == fact.type and _astride(p, fact)), None
        )
        if rider:
            ridden += [rider, fact]
            kept.append(
                replace(
                    rider,
                    object=_NAMES[fact.object],
                    before=_both(rider.before, fact.before),
                    after=_both(rider.after, fact.after),
                    confidence=min(rider.confidence, fact.confidence),
                )
            )
    return [*(fact for fact in facts if fact not in ridden), *kept]


def _astride(person: Fact, wheels: Fact) -> bool:
    """Whether the person's lower half lies on the wheels, wherever both are."""
    sides = [(a, b) for a, b in ((person.before, wheels.before), (person.after, wheels.after)) if a and b]
    return bool(sides) and all(
        inside((a[0], a[1] + a[3] / 2, a[2], a[3] / 2), b) > _ASTRIDE for a, b in sides
    )


def _both(a: Box | None, b: Box | None) -> Box | None:
    """The box around two."""
    if a is None or b is None:
        return a or b
    x, y = min(a[0], b[0]), min(a[1], b[1])
    return x, y, max(a[0] + a[2], b[0] + b[2]) - x, max(a[1] + a[3], b[1] + b[3]) - y
