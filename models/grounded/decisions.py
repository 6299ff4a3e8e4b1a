"""Decisions: from the observations of two stills and their association to facts, and to statements.

Let c be the probability that an observation is a change, and m that it moved if it is one. It moved with
probability c m, and appeared or disappeared with c (1 - m); Platt scaling turns both into confidences. Moves
take their two ends from a minimum-cost assignment, in which a move must be worth more than the two facts in
its place: what a fact is worth is its confidence beyond the threshold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import lap
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, area, box_of, hull, iou
from models.detections import Detections, overlaps, shared_areas, suppress
from models.families import OBJECTS, VEHICLES, family_of
from models.grounded.association import Association, Floats, Side, logit
from models.grounded.settings import SETTINGS
from models.language.places import Zone, is_at, phrase_of, side, way, zone_of
from models.language.templates import COUNTED, Statement

TYPES = ("appeared", "disappeared", "moved")

NEIGHBOURS = 6.0  # largest box around equal objects, in smallest boxes, for one sentence on them
_ALIKE = 3  # sentences of one wording at most; of more the nearest are merged
_DOUBTFUL = {"appeared": "present", "disappeared": "absent"}  # hold even if one object moved
_COVERED = {"appeared": "visible", "disappeared": "hidden"}  # hold even if one object stayed or moved
_LEAST_AREA = 1e-9
_LEAST = 1e-6  # probability


@dataclass(frozen=True, slots=True)
class Fact:
    """One change of one object or several."""

    type: str  # one of `TYPES`
    object: str  # one of `models.families.KINDS`
    before: Box | None  # box on each side; None where it is absent or unknown
    after: Box | None
    confidence: float  # calibrated probability 0..1 of all of it
    large: bool = False  # a vehicle, either a bus or a lorry
    doubtful: bool = False  # an arrival or departure of what may be elsewhere in the other picture
    covered: bool = False  # ... of what may be behind something in the other picture
    others: tuple[Box, ...] = ()  # of its family, in sight in the picture in which its place is named

    def others_there(self, zones: Sequence[Zone] = (), *, depth: bool = False) -> list[Box]:
        """Others at what is called the same place: "the car on the left" would be ambiguous."""
        own = self.before or self.after
        where = phrase_of(own, zones, depth=depth) if own else ""
        return [box for box in self.others if is_at(box, where, zones, depth=depth)]


def distinct(found: Detections) -> NDArray[np.int64]:
    """Rows int64 of each object once: none that overlaps, holds or lies in a surer one of its family."""
    order = np.argsort(-found.score, kind="stable")
    box, family = found.box[order], found.family[order]
    area = np.maximum(box[:, 2:].prod(1), 1e-9)
    part = shared_areas(box, box) / np.minimum(area[:, None], area)
    rivals = ((overlaps(box, box) > SETTINGS.twice) | (part > SETTINGS.part)) & (family[:, None] == family)
    return np.sort(order[suppress(rivals)])


def decide(
    association: Association,
    match: Floats,
    change: tuple[Floats, Floats],
    moved: tuple[Floats, Floats],
    *,
    threshold: float = 0.5,
) -> list[Fact]:
    """The facts of a pair of stills, each observation in one at most, the likeliest first.

    Args:
        association: of S observations before and T after.
        match: ``(S, T)``, probability of each two to be one object.
        change: ``(S,)`` and ``(T,)``, probability of each to be a visible change.
        moved: ``(S,)`` and ``(T,)``, that it is elsewhere in the other still, if it is a change.
        threshold: confidence from which facts are reported.
    """
    before, after = association.sides
    both = list(zip(change, moved, strict=True))
    scales = [np.array([each]).T for each in (SETTINGS.doubtful_scale, SETTINGS.alone_scale)]
    doubtful = [elsewhere >= SETTINGS.elsewhere for elsewhere in moved]
    alone = [
        _confidence(logit(p * (1 - elsewhere), _LEAST), np.where(unsure, *scales))
        for unsure, (p, elsewhere) in zip(doubtful, both, strict=True)
    ]
    ends = [logit(p * elsewhere, _LEAST) for p, elsewhere in both]
    move = _confidence((ends[0][:, None] + ends[1][None]) / 2, SETTINGS.moved_scale)
    worth = [np.maximum(each - threshold, 0) for each in alone]
    gain = move - threshold - worth[0][:, None] - worth[1][None]
    possible = association.elsewhere & (match >= SETTINGS.least_match) & (move > threshold) & (gain > 0)
    at_once, a_second = SETTINGS.reach
    possible &= ~(association.apart > at_once + a_second * association.gap_s)  # an unknown gap is NaN
    gain = np.where(possible, gain + SETTINGS.match_worth * match, 0.0)
    covered = _covered(before, after), _covered(after, before)
    facts, used = list[Fact](), (set[int](), set[int]())
    for i, j in zip(*lap.lapjvx(-gain, extend_cost=True, return_cost=False), strict=True):
        if gain[i, j] > 0:
            used[0].add(i)
            used[1].add(j)
            name, large = object_name((before.label[i] + after.label[j]) / 2)
            was: Box | None = box_of(before.box[i])
            now: Box | None = box_of(after.box[j])
            if match[i, j] < SETTINGS.doubtful:  # it may be another one: reported by the surer end alone
                was, now = (was, None) if ends[0][i] >= ends[1][j] else (None, now)
            others = _others(before, i) if was else _others(after, j)
            facts.append(Fact("moved", name, was, now, float(move[i, j]), large=large, others=others))
    for n, (own, kind) in enumerate(((before, "disappeared"), (after, "appeared"))):
        for k, p in enumerate(alone[n].tolist()):
            if k in used[n] or p < SETTINGS.least:
                continue
            name, large = object_name(own.label[k])
            box = box_of(own.box[k])
            gone, come = (None, box) if n else (box, None)
            unsure = {"doubtful": bool(doubtful[n][k]), "covered": bool(covered[n][k])}
            facts.append(Fact(kind, name, gone, come, p, large=large, others=_others(own, k), **unsure))
    surest = sorted(facts, key=lambda f: -f.confidence)
    return [fact for n, fact in enumerate(surest) if not any(_again(fact, surer) for surer in surest[:n])]


def _others(own: Side, k: int) -> tuple[Box, ...]:
    """The boxes of others of its family that are in sight."""
    rows = (own.family == own.family[k]) & (own.score >= SETTINGS.in_sight)
    return tuple(box_of(own.box[row]) for row in np.flatnonzero(rows) if row != k)


def _covered(own: Side, other: Side) -> NDArray[np.bool_]:
    """Bool ``(N,)``, of each whether something larger has come in front of its place, or left it."""
    areas = own.box[:, 2:].prod(1)[:, None], other.box[:, 2:].prod(1)
    part = shared_areas(own.box, other.box) / np.maximum(areas[0], 1e-9)
    covers = (part >= SETTINGS.covered) & (areas[1] > areas[0]) & (other.change >= SETTINGS.cover_change)
    return np.asarray(covers.any(1), np.bool_)


def _confidence(log_odds: Floats, scale: Floats | tuple[float, float]) -> Floats:
    """Probability that a sentence about it is right (Platt 1999), by a slope and an offset."""
    return np.asarray(1 / (1 + np.exp(-scale[0] * log_odds - scale[1])), np.float64)


def object_name(label: NDArray[np.floating] | Sequence[float]) -> tuple[str, bool]:
    """The name of an object, and whether it is a large vehicle of which the kind is not sure.

    `label` has scores 0..1 by `OBJECTS`. The detector learnt from COCO, which has no vans: it takes them for
    a car and for a lorry or bus at once.
    """
    best = OBJECTS[int(np.argmax(label))]
    if best not in VEHICLES:
        return best, False
    score = {name: float(label[n]) for n, name in enumerate(OBJECTS) if name in VEHICLES}
    total = max(sum(score.values()), 1e-6)
    large = (score["bus"] + score["truck"]) / total
    if large < SETTINGS.car_below:
        return "car", False
    if large <= SETTINGS.vehicle_below:
        return "vehicle", False
    named = score[best] > SETTINGS.named * total
    return (best, False) if named else ("vehicle", True)


def _again(fact: Fact, surer: Fact) -> bool:
    """True where two of a type show one object by two names; a rider is not the bicycle."""
    ridden = {family_of(fact.object), family_of(surer.object)} == {"person", "two-wheeler"}
    sides = ((fact.before, surer.before), (fact.after, surer.after))
    meet = any(own and other and iou(own, other) > SETTINGS.twice for own, other in sides)
    return meet and not ridden and fact.type == surer.type


def statement_of(fact: Fact, *, zones: Sequence[Zone] = (), depth: bool = False) -> Statement:
    """The statement of a fact; zones take precedence over the picture's own places; `depth` as of `place`.

    Raises ValueError where the type is unknown, or a box is missing.
    """
    if fact.type not in TYPES:
        raise ValueError(f"no words for a {fact.object} that {fact.type}")
    actions = _COVERED if fact.covered else _DOUBTFUL if fact.doubtful else {}
    action = actions.get(fact.type, fact.type)
    statement = Statement(action, fact.object, large=fact.large)
    if fact.type == "moved":
        return _move(statement, fact, zones, depth=depth)
    box = fact.after if fact.type == "appeared" else fact.before
    if box is None:
        raise ValueError(f"a fact without a place: {fact}")
    return replace(statement, place=phrase_of(box, zones, depth=depth))


def _move(statement: Statement, fact: Fact, zones: Sequence[Zone], *, depth: bool) -> Statement:
    """A move between two places, as far as they have names."""
    end = fact.before or fact.after
    if end is None:
        raise ValueError(f"a fact without a place: {fact}")
    was = zone_of(end, zones)
    at = phrase_of(end, zones, depth=depth)
    if fact.before is None or fact.after is None:
        return replace(statement, place=at)
    now = zone_of(fact.after, zones)
    origin, target = way(fact.before, fact.after, depth=depth)
    if now or not target:
        return replace(statement, place=at, end=now.phrase if now and now is not was else "")
    if not was and origin:
        return replace(statement, origin=origin, target=target)
    if not was and target in ("far", "near"):  # "in the background to the foreground" is not so of either end
        at = f"on the {side(fact.before)}" if side(fact.before) != "middle" else "in the middle"
    return replace(statement, place=at, target=target)


def merge(
    statements: Sequence[Statement],
    boxes: Sequence[tuple[Box | None, Box | None]],
    others: Sequence[Sequence[Box]] = (),
) -> list[tuple[Statement, tuple[int, ...]]]:
    """Merge equal statements about neighbours; of those that are apart all but the first are about "another".

    Moves are merged only where too many are alike: each has a match of its own, which may be the wrong one.
    Boxes are of each statement, before and after, and of `others` at its place. Returns each with the
    positions of the statements that it stands for, by the first of them.
    """
    kinds: dict[Statement, list[list[int]]] = {}
    for k, each in enumerate(statements):
        groups = kinds.setdefault(replace(each, count=1), [])
        near = (g for g in groups if _spread([boxes[i] for i in (*g, k)]) <= NEIGHBOURS)
        if each.action != "moved" and (group := next(near, None)):
            group.append(k)
        else:
            groups.append([k])
    merged = [m for kind, groups in kinds.items() for m in _separate_groups(kind, groups, statements, boxes)]
    referents = Counter(_referent(statement) for statement, _ in merged)

    def among(statement: Statement, members: tuple[int, ...]) -> bool:
        own = {box for k in members for box in boxes[k]}
        untold = others and any(box not in own for k in members for box in others[k])
        return statement.action in _DEFINITE and (bool(untold) or referents[_referent(statement)] > 1)

    return [(replace(s, among=among(s, own)), own) for s, own in sorted(merged, key=lambda each: each[1])]


_DEFINITE = ("disappeared", "absent", "hidden", "moved")


def _referent(statement: Statement) -> tuple[bool, str, str]:
    """Equal for objects that "the car on the left" could refer to."""
    origin = statement.origin
    at = statement.place or {"middle": "in the middle"}.get(origin, f"on the {origin}")
    return statement.action in _DEFINITE, statement.object, at


def _separate_groups(
    kind: Statement,
    groups: list[list[int]],
    statements: Sequence[Statement],
    boxes: Sequence[tuple[Box | None, Box | None]],
) -> list[tuple[Statement, tuple[int, ...]]]:
    """Merge groups of one wording until `_ALIKE` at most are left; all but the first are "another"."""
    while True:
        counted: dict[int, list[list[int]]] = {}
        for group in groups:
            count = sum(statements[k].count for k in group)
            counted.setdefault(min(count, COUNTED + 1), []).append(group)
        crowd = next((g for n, g in counted.items() if len(g) > (1 if n > COUNTED else _ALIKE)), None)
        if crowd is None:
            break
        near = min(combinations(crowd, 2), key=lambda two: _spread([boxes[k] for k in (*two[0], *two[1])]))
        groups = [g for g in groups if g not in near] + [sorted((*near[0], *near[1]))]
    separate = []
    for same in counted.values():
        for n, group in enumerate(sorted(same)):
            count = sum(statements[k].count for k in group)
            worded = replace(kind, count=count, several=count > COUNTED, other=n > 0)
            separate.append((worded, tuple(group)))
    return separate


def _spread(boxes: Sequence[tuple[Box | None, Box | None]]) -> float:
    """Area of the box around all, in smallest boxes; the larger of before and after."""
    most = 0.0
    for own in zip(*boxes, strict=True):
        there = [box for box in own if box is not None]
        if there and len(there) < len(boxes):
            return math.inf
        around = hull(there)
        if around:
            most = max(most, area(around) / max(min(area(box) for box in there), _LEAST_AREA))
    return most
