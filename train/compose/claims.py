"""Claims: what one sentence says of a fact, in words that a person would use for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from models.boxes import Box, area, hull
from models.families import ANIMALS, PEOPLE, THINGS, VEHICLES
from models.language.places import Zone, place, side, way, zone_of
from models.language.wording import COLOURS, places_in
from train.compose.facts import TYPES, Fact

CLOTHES = ("dark", "light", *COLOURS)
"""What people wear, where it is told: "in dark clothes", "in red"."""

MANNERS = {
    "appeared": ("came in", "arrived", "stopped", "parked", "put down"),
    "disappeared": ("left", "taken away"),
    "moved": ("crossed", "stopped", "parked", "closer", "further"),
}
"""How it happened, as far as a sentence of a type can say it."""

LEAST_WAIT_S = 20.0
"""A shorter rest is not worth a word."""
_SECONDS = 55.0  # below, a rest is told in seconds
_UNITS = (("minute", 60.0), ("hour", 3600.0), ("day", 86400.0))
_LARGEST = {"minute": 55 * 60.0, "hour": 23.5 * 3600, "day": float("inf")}
COUNTED = 3
"""More than these are several: nobody counts them at a glance, and one of many is easily seen twice."""

_NEAR_EACH_OTHER = 6.0
"""Equal things are told in one sentence where the box around them is at most so many times the smallest."""
_LEAST_AREA = 1e-9  # so that nothing is divided by 0


@dataclass(frozen=True, slots=True)
class Claims:
    """What one sentence says.

    Attributes:
        type: one of `train.compose.facts.TYPES`.
        object: a key of `train.compose.phrases.NOUNS`.
        count: how many, at least 1; of more and fewer it is not said.
        manner: one of the type's `MANNERS`, or empty.
        origin, target: where it came from and where it went: of left, right, middle, far and near, or empty.
        place: words for where it is, or was before it went: `models.language.places.PLACES`, or a zone's.
        end: the zone's words for where a moved thing is now; empty for no zone, or the same.
        rests: whether it is said that it stands there.
        look: one of `models.language.wording.COLOURS` of a vehicle, one of `CLOTHES` of people, or empty.
        waited: how long it has rested, or had rested before it went, such as "3 minutes"; or empty.
        seen: whether it was followed on its way, and not only found at both ends: it walked, it drove.
        other: whether the same has been said before, of another one.
        among: whether others of its kind are told of at the same place: it is "a car", not "the car".
    """

    type: str
    object: str
    count: int = 1
    manner: str = ""
    origin: str = ""
    target: str = ""
    place: str = ""
    end: str = ""
    rests: bool = False
    look: str = ""
    waited: str = ""
    seen: bool = False
    other: bool = False
    among: bool = False


@dataclass(frozen=True, slots=True)
class Merged:
    """What is said once of one or several facts.

    Attributes:
        claims: of all of them.
        members: their positions among the claims that were merged, in order.
    """

    claims: Claims
    members: tuple[int, ...]


def claims_of(fact: Fact, *, look: str = "", zones: Sequence[Zone] = (), depth: bool = False) -> Claims:
    """What a sentence about a fact says: only what is known, nothing twice, everything true of the boxes.

    Args:
        fact: what happened.
        look: a colour of a vehicle, or what people wear, see `CLOTHES`; other objects' looks are not told.
        zones: parts of the picture that have names: they are said in place of the picture's own places.
        depth: see `models.language.places.place`.

    Raises:
        ValueError: the type is not known, the count is below 1, or a place is missing.
    """
    if fact.type not in TYPES or fact.count < 1:
        raise ValueError(f"no words for {fact.count} {fact.object} that {fact.type}")
    look = (
        look
        if look in (COLOURS if fact.object in VEHICLES else CLOTHES if fact.object in PEOPLE else ())
        else ""
    )
    claims = Claims(
        fact.type, fact.object, fact.count, _manner(fact), look="" if fact.type == "replaced" else look
    )
    if fact.type == "moved":
        return _moved(claims, fact, zones, depth=depth)
    first, second = (
        (fact.after, fact.before) if fact.type in ("appeared", "more") else (fact.before, fact.after)
    )
    box = first or second
    if box is None:
        raise ValueError(f"a fact without a place: {fact}")
    zone = zone_of(box, zones)
    at = zone.phrase if zone else place(box, depth=depth)
    claims = replace(claims, place=at)
    said = frozenset() if zone else places_in(at)
    if fact.type == "appeared":
        return _arrival(claims, fact, said)
    if fact.type == "disappeared":
        goes = claims.manner == "left" and fact.target not in said
        return replace(claims, target=fact.target if goes else "", waited=duration(fact.waited_s))
    return claims


def duration(seconds: float | None) -> str:
    """Words for a time, such as "40 seconds", "a minute" or "3 hours"; none below `LEAST_WAIT_S`."""
    if seconds is None or seconds < LEAST_WAIT_S:
        return ""
    if seconds < _SECONDS:
        return f"{round(seconds / 10) * 10} seconds"
    unit, length = next(each for each in _UNITS if seconds < _LARGEST[each[0]])
    number = max(round(seconds / length), 1)
    return f"{'an' if unit == 'hour' else 'a'} {unit}" if number == 1 else f"{number} {unit}s"


def merged(claims: Sequence[Claims], boxes: Sequence[tuple[Box | None, Box | None]]) -> list[Merged]:
    """Say nothing twice: equal claims about neighbours become one about all of them, else "another one".

    Args:
        claims: of one narration.
        boxes: per claims where that was before and after.

    Returns:
        What is to be said, in the order of the first of each; no two of them are worded the same.
    """
    kinds: dict[Claims, list[tuple[int, ...]]] = {}
    for k, each in enumerate(claims):
        groups = kinds.setdefault(replace(each, count=1), [])
        near = next((n for n, g in enumerate(groups) if _neighbours([boxes[i] for i in (*g, k)])), None)
        if near is None:
            groups.append((k,))
        else:
            groups[near] += (k,)
    said = [each for kind, groups in kinds.items() for each in _apart(kind, groups, claims, boxes)]
    there = Counter(_whose(each.claims) for each in said)
    return [
        replace(each, claims=replace(each.claims, among=there[_whose(each.claims)] > 1))
        if each.claims.type in ("disappeared", "moved")
        else each
        for each in sorted(said, key=lambda each: each.members)
    ]


def _whose(claims: Claims) -> tuple[bool, str, str]:
    """Equal for what "the car on the left" could be: one that went and one that moved are two."""
    place = claims.place or {"middle": "in the middle"}.get(claims.origin, f"on the {claims.origin}")
    return claims.type in ("disappeared", "moved"), claims.object, place


def _apart(
    kind: Claims,
    groups: list[tuple[int, ...]],
    claims: Sequence[Claims],
    boxes: Sequence[tuple[Box | None, Box | None]],
) -> list[Merged]:
    """Of two groups with one wording the second is told as another; of more, the nearest two are one."""
    once = kind.type in ("more", "fewer", "unknown", "replaced")
    while True:
        counted: dict[int, list[tuple[int, ...]]] = {}
        for group in groups:
            count = (
                1 if kind.type in ("more", "fewer") else min(sum(claims[k].count for k in group), COUNTED + 1)
            )
            counted.setdefault(count, []).append(group)
        crowd = next((g for n, g in counted.items() if len(g) > (1 if once or n > COUNTED else 2)), None)
        if crowd is None:
            break
        near = min(combinations(crowd, 2), key=lambda two: _spread([boxes[k] for k in (*two[0], *two[1])]))
        groups = [g for g in groups if g not in near] + [tuple(sorted((*near[0], *near[1])))]
    return [
        Merged(replace(kind, count=sum(claims[k].count for k in group), other=n > 0), group)
        for same in counted.values()
        for n, group in enumerate(sorted(same))
    ]


def _neighbours(boxes: Sequence[tuple[Box | None, Box | None]]) -> bool:
    return _spread(boxes) <= _NEAR_EACH_OTHER


def _spread(boxes: Sequence[tuple[Box | None, Box | None]]) -> float:
    """How many times the smallest box the box around all is, on the side where that is more."""
    most = 0.0
    for own in zip(*boxes, strict=True):
        there = [box for box in own if box is not None]
        around = hull(there)
        if around:
            most = max(most, area(around) / max(min(area(box) for box in there), _LEAST_AREA))
    return most


def _manner(fact: Fact) -> str:
    """The manner as its type can say it of such an object."""
    manner, thing = fact.manner, fact.object in THINGS
    if fact.type == "disappeared" and manner == "drove off":
        manner = "left"
    if manner == "parked" and fact.object in ANIMALS | {"person"}:
        manner = "stopped"
    by_itself, by_hand = ("stopped", "parked", "arrived"), ("put down", "taken away")
    if manner in (by_itself if thing else by_hand):
        return ""
    return manner if manner in MANNERS.get(fact.type, ()) else ""


def _arrival(claims: Claims, fact: Fact, said: frozenset[str]) -> Claims:
    """What appeared: where from, and whether it stands there, where that is not said already."""
    comes = claims.manner in ("came in", "arrived", "stopped", "parked") and fact.origin not in said
    stands = claims.manner in ("came in", "arrived") and fact.object not in THINGS | ANIMALS
    rests = fact.rests is True and stands
    still = rests or (fact.rests is not False and claims.manner in ("", "stopped", "parked", "put down"))
    return replace(
        claims,
        origin=fact.origin if comes else "",
        rests=rests,
        waited=duration(fact.waited_s) if still else "",
    )


def _moved(claims: Claims, fact: Fact, zones: Sequence[Zone], *, depth: bool) -> Claims:
    """What moved: from where to where, as far as both have names."""
    if fact.before is None or fact.after is None:
        raise ValueError(f"a move without both places: {fact}")
    was, now = zone_of(fact.before, zones), zone_of(fact.after, zones)
    waited = "" if fact.rests is True else duration(fact.waited_s)
    claims = replace(claims, waited=waited)
    at = was.phrase if was else place(fact.before, depth=depth)
    origin, target = way(fact.before, fact.after, depth=depth)
    if now or not target:
        end = now.phrase if now and now is not was else ""
        claims = replace(claims, place=at, end=end)
        if not claims.manner and not end and fact.target in ("near", "far"):
            return replace(claims, manner="closer" if fact.target == "near" else "further")
    elif was or waited or not origin:
        row_only = not was and not origin
        column = f"on the {side(fact.before)}" if side(fact.before) != "middle" else "in the middle"
        # "The car in the background has moved to the foreground" says nothing that is not so of either end.
        claims = replace(
            claims, place=column if row_only and target in ("far", "near") else at, target=target
        )
    else:
        claims = replace(claims, origin=origin, target=target)
    if claims.manner == "crossed" and {claims.origin, claims.target} != {"left", "right"}:
        claims = replace(claims, manner="")
    on_its_way = bool(claims.origin or claims.target) and claims.manner != "crossed"
    return replace(claims, seen=on_its_way and bool(fact.path) and fact.object not in THINGS | {"bicycle"})
