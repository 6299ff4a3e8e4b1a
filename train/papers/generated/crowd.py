"""Scenes in which the caption is needed: several things alike, one of which changes.

Three things of one class and one colour stand in different places, and two of them may change in the same
way: a pair and its sibling have the same before frame, and after frames that differ in nothing but which of
the two changed. What a caption says first ("there is now a red car ...") fits both, and only its second half
("... on the left") tells them apart. Other things are of other classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from train.papers.generated.scenery import Scenery
from train.papers.generated.stage import (
    APART,
    BESIDE,
    NoRoomError,
    Prop,
    Stage,
    StagedChange,
    draw_label,
    is_free,
    move,
    other,
    place,
    surface_name,
)

TYPES = ("appeared", "disappeared", "moved", "replaced")
ALIKE = 3
"""Things of one look."""

SIBLINGS = 2
"""Of them may change, each in a pair of its own."""

_TRIES = 60
_STILL = 3


@dataclass(frozen=True, slots=True)
class _Phrase:
    words: str
    says: Callable[[float, float], bool]
    fits: Callable[[float, float], bool]


_PHRASES = (
    _Phrase("on the left", lambda x, _: x < 0.35, lambda x, _: x < 0.47),  # noqa: PLR2004 - shares of the frame
    _Phrase("on the right", lambda x, _: x > 0.65, lambda x, _: x > 0.53),  # noqa: PLR2004
    _Phrase("in the background", lambda _, y: y < 0.33, lambda _, y: y < 0.42),  # noqa: PLR2004
    _Phrase("in the foreground", lambda _, y: y > 0.72, lambda _, y: y > 0.63),  # noqa: PLR2004
)


def crowd(scenery: Scenery, rng: np.random.Generator, sibling: int | None) -> Stage:
    """Draw things alike of which `sibling` changes, or none; NoRoomError where it cannot be."""
    for _ in range(_TRIES):
        kind = str(rng.choice(TYPES))
        alike = _draw_alike(scenery, rng)
        changes = [] if alike is None else _changes(kind, alike, scenery, rng)
        if alike is None or len(changes) < SIBLINGS:
            continue
        places = [_places(k, alike, scenery) for k in range(SIBLINGS)]
        if not all(places):
            continue
        others = _others(scenery, rng, [*alike, *(t for c in changes for t in c.after)])
        if sibling is None:
            return Stage(scenery, (*alike, *others), ())
        away = range(SIBLINGS) if kind == "appeared" else (sibling,)
        still = tuple(thing for k, thing in enumerate(alike) if k not in away)
        return Stage(scenery, (*still, *others), (changes[sibling],), places=places[sibling])
    raise NoRoomError(f"nothing alike finds room in {scenery.name} at {scenery.side} pixels")


def _draw_alike(scenery: Scenery, rng: np.random.Generator) -> list[Prop] | None:
    first = place(scenery, rng, draw_label(rng))
    things = [] if first is None else [first]
    for _ in range(ALIKE - 1):
        thing = None if first is None else place(scenery, rng, first.label)
        if first is None or thing is None:
            return None
        thing = replace(thing, colour=first.colour, variant=first.variant)
        if not is_free(thing.box, [t.box for t in things], APART * scenery.side):
            return None
        things.append(thing)
    return things or None


def _changes(
    kind: str, alike: Sequence[Prop], scenery: Scenery, rng: np.random.Generator
) -> list[StagedChange]:
    made: list[StagedChange] = []
    for k, thing in enumerate(alike[:SIBLINGS]):
        if kind == "appeared":
            change = StagedChange(kind, (), (thing,))
        elif kind == "disappeared":
            change = StagedChange(kind, (thing,), ())
        else:
            second = move(thing, scenery, rng) if kind == "moved" else other(thing, scenery, rng)
            if second is None:
                return []
            change = StagedChange(kind, (thing,), (second,))
        taken = [t.box for number, t in enumerate(alike) if number != k]
        if not is_free(change.box, [*taken, *(c.box for c in made)], APART * scenery.side):
            return []
        made.append(change)
    return made


def _places(number: int, alike: Sequence[Prop], scenery: Scenery) -> tuple[str, ...]:
    thing = alike[number]
    rest = [_middle(t, scenery) for k, t in enumerate(alike) if k != number]
    results = [
        p.words for p in _PHRASES if p.says(*_middle(thing, scenery)) and not any(p.fits(*m) for m in rest)
    ]
    surface = surface_name(thing)
    if all(surface_name(t) != surface for k, t in enumerate(alike) if k != number):
        results.append(f"{'in' if surface == 'parking lot' else 'on'} the {surface}")
    return tuple(results)


def _middle(thing: Prop, scenery: Scenery) -> tuple[float, float]:
    """The middle of a thing, as shares of the frame."""
    x, y = thing.left + thing.width / 2, thing.top + thing.height / 2
    return (x - scenery.margin) / scenery.side, (y - scenery.margin) / scenery.side


def _others(scenery: Scenery, rng: np.random.Generator, taken: Sequence[Prop]) -> list[Prop]:
    results: list[Prop] = []
    for _ in range(int(rng.integers(1, _STILL + 1))):
        thing = place(scenery, rng, draw_label(rng))
        if thing is None or thing.label in {t.label for t in taken}:
            continue
        if is_free(thing.box, [t.box for t in (*taken, *results)], BESIDE * scenery.side):
            results.append(thing)
    return results
