"""Staging of a generated pair: where objects stand, and which of them change.

Changes are drawn in the proportions that Spot-the-diff reports: appeared 40 %, disappeared 31 %, moved
12 %, more or fewer 7 %, the rest replaced; one change in 46 % of the changed pairs, two in 34 %, three in
13 %, four in 7 %.

In a crowd the caption is needed: three things of one class and one colour stand in different places, and two
of them may change in the same way. A pair and its sibling have the same before frame, and after frames that
differ in nothing but which of the two changed. What a caption says first ("there is now a red car ...") fits
both, and only its second half ("... on the left") tells them apart. Other things are of other classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from train.papers.generated.scenery import SURFACES, THINGS, VARIANTS, Scenery, sprite_size

Edges = tuple[float, float, float, float]  # ``(left, top, right, bottom)`` in pixels of the canvas

TYPES = ("appeared", "disappeared", "moved", "number", "replaced")
"""The five types; "number" is worded as more or as fewer."""

TYPE_SHARES = (0.40, 0.31, 0.12, 0.07, 0.10)
NUMBER_SHARES = (0.46, 0.34, 0.13, 0.07)
"""Of 1, 2, 3 and 4 changes in a changed pair (1,634 and more annotations of Spot-the-diff)."""

_STILL_THINGS = 5
_GROUPED = ("person", "car")
_TRIES = 40
APART = 0.1
"""Between two changes, as a share of the frame: more than the DBSCAN radius of 20 at 224, so that they are
two clusters."""
BESIDE = 0.012  # between a change and what stays


class NoRoomError(ValueError):
    """No change finds room in a scene; another view may have it."""


@dataclass(frozen=True, slots=True)
class Prop:
    label: str  # a key of `THINGS`
    left: int  # left, top, width, height: whole pixels of the canvas
    top: int
    width: int
    height: int
    colour: str  # a key of `scenery.COLOURS`
    flip: bool  # it looks to the left
    variant: int  # shade of its colour
    surface: int = 0  # index into `SURFACES`, what it stands on

    @property
    def box(self) -> Edges:
        return (self.left, self.top, self.left + self.width, self.top + self.height)


@dataclass(frozen=True, slots=True)
class StagedChange:
    type: str  # appeared, disappeared, moved, more, fewer or replaced
    before: tuple[Prop, ...]  # things on one frame only, the same ones in the same order
    after: tuple[Prop, ...]

    @property
    def named(self) -> Prop:
        return self.after[0] if self.type in ("appeared", "more") else self.before[0]

    @property
    def box(self) -> Edges:
        lefts, tops, rights, bottoms = zip(*(t.box for t in (*self.before, *self.after)), strict=True)
        return min(lefts), min(tops), max(rights), max(bottoms)

    @property
    def area(self) -> float:
        left, top, right, bottom = self.box
        return (right - left) * (bottom - top)


@dataclass(frozen=True, slots=True)
class Stage:
    scenery: Scenery  # of the camera
    still: tuple[Prop, ...]  # things on both frames
    changes: tuple[StagedChange, ...]  # what differs, the largest first; empty in a distractor
    # ``(x, y, radius)`` in pixels of the canvas, small changes that no caption mentions
    ignored: tuple[tuple[float, float, float], ...] = ()
    places: tuple[str, ...] = ()  # where its change is, to tell it from others alike; may be empty


def stage(scenery: Scenery, rng: np.random.Generator, *, changed: bool, ignored: float) -> Stage:
    """Draw what stands in a scene and what changes; NoRoomError where no change finds room."""
    changes: list[StagedChange] = []
    still: list[Prop] = []
    if changed:
        for _ in range(1 + int(rng.choice(4, p=NUMBER_SHARES))):
            kind = str(rng.choice(TYPES, p=TYPE_SHARES))
            for _ in range(_TRIES):
                made = _change(kind, scenery, rng, [c.box for c in changes], [t.box for t in still])
                if made is not None:
                    changes.append(made[0])
                    still += made[1]
                    break
        if not changes:
            raise NoRoomError(f"no change finds room in {scenery.name} at {scenery.side} pixels")
    for _ in range(int(rng.integers(1, _STILL_THINGS + 1))):
        thing = _place(scenery, rng, _draw_label(rng))
        taken = [*(c.box for c in changes), *(t.box for t in still)]
        if thing is not None and is_free(thing.box, taken, BESIDE * scenery.side):
            still.append(thing)
    changes.sort(key=lambda c: -c.area)
    small = _distractors(scenery, rng, changes, still) if changed and rng.random() < ignored else ()
    return Stage(scenery, tuple(still), tuple(changes), small)


def _change(
    kind: str, scenery: Scenery, rng: np.random.Generator, others: Sequence[Edges], still: Sequence[Edges]
) -> tuple[StagedChange, tuple[Prop, ...]] | None:
    """A change of this type and the things that it needs beside it, or None where there is no room."""
    label = str(rng.choice(_GROUPED)) if kind == "number" else _draw_label(rng)
    first = _place(scenery, rng, label)
    if first is None:
        return None
    things: tuple[Prop, ...] = (first,)
    stays: tuple[Prop, ...] = ()
    if kind == "number":
        several, stay = int(rng.integers(2, 4)), int(rng.integers(1, 3))
        row = _row(first, several + stay, scenery, rng)
        kind = "more" if rng.random() < 0.5 else "fewer"  # noqa: PLR2004
        things, stays = row[:several], row[several:]
    elif kind in ("appeared", "disappeared") and label in _GROUPED:
        things = _row(first, int(rng.choice((1, 2, 3), p=(0.85, 0.11, 0.04))), scenery, rng)
    made = _stage_change(kind, things, scenery, rng)
    if made is None:
        return None
    apart, beside = APART * scenery.side, BESIDE * scenery.side
    free = is_free(made.box, others, apart) and is_free(made.box, still, beside)
    if not free or any(not is_free(t.box, [*others, *still], beside) for t in stays):
        return None
    return made, stays


def _stage_change(
    kind: str, things: tuple[Prop, ...], scenery: Scenery, rng: np.random.Generator
) -> StagedChange | None:
    """A change of things that stand there; None of none, or where there is no room."""
    if not things:
        return None
    if kind in ("appeared", "more"):
        return StagedChange(kind, (), things)
    if kind in ("disappeared", "fewer"):
        return StagedChange(kind, things, ())
    second = (_move if kind == "moved" else _replace)(things[0], scenery, rng)
    return None if second is None else StagedChange(kind, things, (second,))


def _draw_label(rng: np.random.Generator) -> str:
    return str(rng.choice(list(THINGS), p=[thing.share for thing in THINGS.values()]))


def _place(scenery: Scenery, rng: np.random.Generator, label: str) -> Prop | None:
    for _ in range(_TRIES):
        x = rng.uniform(scenery.margin, scenery.margin + scenery.side)
        y = rng.uniform(scenery.horizon + 0.03 * scenery.side, scenery.margin + 0.99 * scenery.side)
        thing = _stand(scenery, label, x, y, rng)
        if thing is not None:
            return thing
    return None


def _stand(scenery: Scenery, label: str, x: float, y: float, rng: np.random.Generator) -> Prop | None:
    """A thing whose foot is at ``(x, y)``; None where it would not stand on its ground or be cut off."""
    width, height = sprite_size(label, scenery.person_height(y))
    left, top = round(x - width / 2), round(y - height)
    return _on_ground(Prop(label, left, top, width, height, *_draw_look(label, rng)), scenery)


def _draw_look(label: str, rng: np.random.Generator) -> tuple[str, bool, int]:
    """Colour, whether it looks to the left, and the shade of a thing."""
    colours = THINGS[label].colours
    return colours[int(rng.integers(len(colours)))], bool(rng.integers(2)), int(rng.integers(VARIANTS))


def _on_ground(thing: Prop, scenery: Scenery) -> Prop | None:
    low, high = 2 * scenery.margin, scenery.side
    left, top, right, bottom = thing.left, thing.top, thing.left + thing.width, thing.top + thing.height
    if not (low <= left and right <= high and low <= top and bottom <= high):
        return None
    feet = (left, (left + right) // 2, right - 1)
    under = {int(scenery.ground[bottom - 1, x]) for x in feet}
    if len(under) != 1 or SURFACES[min(under)] not in THINGS[thing.label].ground:
        return None
    return replace(thing, surface=under.pop())


def _row(first: Prop, number: int, scenery: Scenery, rng: np.random.Generator) -> tuple[Prop, ...]:
    """So many things side by side; none where there is no room."""
    row = [first]
    for _ in range(number - 1):
        left = row[-1].left + first.width + round(rng.uniform(0.008, 0.03) * scenery.side)
        top = first.top + round(rng.uniform(-0.06, 0.06) * first.height)
        beside = Prop(first.label, left, top, first.width, first.height, *_draw_look(first.label, rng))
        standing = _on_ground(beside, scenery)
        if standing is None:
            return ()
        row.append(standing)
    return tuple(row)


def _move(first: Prop, scenery: Scenery, rng: np.random.Generator) -> Prop | None:
    way = round(rng.uniform(0.6, 1.0) * first.width + rng.uniform(0.0, 0.06) * scenery.side)
    way = way if rng.random() < 0.5 else -way  # noqa: PLR2004
    return _on_ground(replace(first, left=first.left + way), scenery)


def _replace(first: Prop, scenery: Scenery, rng: np.random.Generator) -> Prop | None:
    """Something else in the same place: another class, or the same in another colour."""
    vehicles = ("car", "van", "truck") if first.label in ("car", "van", "truck", "bus") else ()
    labels = [n for n in vehicles or ("person", "bicycle", "cyclist") if n != first.label]
    label = first.label if rng.random() < 0.4 else labels[int(rng.integers(len(labels)))]  # noqa: PLR2004
    foot = (first.left + first.width / 2, first.top + first.height)
    other = _stand(scenery, label, *foot, rng)
    return None if other is None or other.colour == first.colour else other


def _distractors(
    scenery: Scenery, rng: np.random.Generator, changes: Sequence[StagedChange], still: Sequence[Prop]
) -> tuple[tuple[float, float, float], ...]:
    results: list[tuple[float, float, float]] = []
    taken = [c.box for c in changes]
    for _ in range(int(rng.integers(1, 3))):
        for _ in range(_TRIES // 4):
            radius = rng.uniform(0.012, 0.028) * scenery.side
            x, y = rng.uniform(2 * scenery.margin + radius, scenery.side - radius, 2)
            box = (x - radius, y - radius, x + radius, y + radius)
            if is_free(box, taken, APART * scenery.side) and is_free(box, [t.box for t in still], 1.0):
                results.append((float(x), float(y), float(radius)))
                taken.append(box)
                break
    return tuple(results)


def surface_name(thing: Prop) -> str:
    return SURFACES[thing.surface]


def is_free(box: Edges, taken: Sequence[Edges], gap: float) -> bool:
    return all(
        box[0] - gap > t[2] or t[0] > box[2] + gap or box[1] - gap > t[3] or t[1] > box[3] + gap
        for t in taken
    )


CROWD_TYPES = ("appeared", "disappeared", "moved", "replaced")
ALIKE = 3  # things of one look
SIBLINGS = 2  # of them may change, each in a pair of its own
_CROWD_TRIES = 60
_CROWD_STILL = 3


_PHRASES: dict[str, tuple[int, float, float]] = {
    "on the left": (0, 0.35, 0.47),
    "on the right": (0, 0.65, 0.53),
    "in the background": (1, 0.33, 0.42),
    "in the foreground": (1, 0.72, 0.63),
}
"""The axis (x, y) of a phrase, and from which share of the frame on, towards the nearer edge, it is said of a
thing, and might be meant of another."""


def crowd(scenery: Scenery, rng: np.random.Generator, sibling: int | None) -> Stage:
    """Draw things alike of which `sibling` changes, or none; NoRoomError where it cannot be."""
    for _ in range(_CROWD_TRIES):
        kind = str(rng.choice(CROWD_TYPES))
        alike = _draw_alike(scenery, rng)
        changes = _crowd_changes(kind, alike, scenery, rng)
        if len(changes) < SIBLINGS:
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


def _draw_alike(scenery: Scenery, rng: np.random.Generator) -> list[Prop]:
    """Things of one look; none where one of them finds no room."""
    first = _place(scenery, rng, _draw_label(rng))
    things = [first] if first is not None else []
    while first is not None and len(things) < ALIKE:
        thing = _place(scenery, rng, first.label)
        if thing is None or not is_free(thing.box, [t.box for t in things], APART * scenery.side):
            return []
        things.append(replace(thing, colour=first.colour, variant=first.variant))
    return things


def _crowd_changes(
    kind: str, alike: Sequence[Prop], scenery: Scenery, rng: np.random.Generator
) -> list[StagedChange]:
    """The change of each thing that may change; none where there is no room for all of them."""
    made: list[StagedChange] = []
    for k, thing in enumerate(alike[:SIBLINGS]):
        change = _stage_change(kind, (thing,), scenery, rng)
        taken = [*(t.box for number, t in enumerate(alike) if number != k), *(c.box for c in made)]
        if change is None or not is_free(change.box, taken, APART * scenery.side):
            return []
        made.append(change)
    return made


def _places(number: int, alike: Sequence[Prop], scenery: Scenery) -> tuple[str, ...]:
    thing = alike[number]
    rest = [_middle(t, scenery) for k, t in enumerate(alike) if k != number]
    own, results = _middle(thing, scenery), []
    for words, (axis, says, fits) in _PHRASES.items():
        sign = 1 if says > 0.5 else -1  # noqa: PLR2004 - the half of the frame
        if sign * own[axis] > sign * says and all(sign * each[axis] <= sign * fits for each in rest):
            results.append(words)
    surface = surface_name(thing)
    if all(surface_name(t) != surface for k, t in enumerate(alike) if k != number):
        results.append(f"{'in' if surface == 'parking lot' else 'on'} the {surface}")
    return tuple(results)


def _middle(thing: Prop, scenery: Scenery) -> tuple[float, float]:
    x, y = thing.left + thing.width / 2, thing.top + thing.height / 2
    return (x - scenery.margin) / scenery.side, (y - scenery.margin) / scenery.side


def _others(scenery: Scenery, rng: np.random.Generator, taken: Sequence[Prop]) -> list[Prop]:
    results: list[Prop] = []
    for _ in range(int(rng.integers(1, _CROWD_STILL + 1))):
        thing = _place(scenery, rng, _draw_label(rng))
        if thing is None or thing.label in {t.label for t in taken}:
            continue
        if is_free(thing.box, [t.box for t in (*taken, *results)], BESIDE * scenery.side):
            results.append(thing)
    return results
