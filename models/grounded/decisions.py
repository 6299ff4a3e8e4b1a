"""Decisions: from the observations of two stills and their association to facts.

Let c be the probability that an observation is a change, and m that it moved if it is one. It moved with
probability c m, and appeared or disappeared with c (1 - m); Platt scaling turns both into confidences. Moves
take their two ends from a minimum-cost assignment, in which a move must be worth more than the two facts in
its place: what a fact is worth is its confidence beyond the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence

import lap
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, box_of, iou, overlaps, shared_areas, suppress
from models.detections import Detections
from models.families import OBJECTS, VEHICLES, family_of
from models.grounded.association import Association, Floats, Side, logit
from models.grounded.settings import SETTINGS
from models.language.statements import Fact

_LEAST = 1e-6  # probability


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
        change: ``(S,)`` and ``(T,)``, probability of each to be a change that can be told.
        moved: ``(S,)`` and ``(T,)``, that it is elsewhere in the other still, if it is a change.
        threshold: confidence from which facts are told.
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
            if match[i, j] < SETTINGS.doubtful:  # it may be another one: told of the surer end alone
                was, now = (was, None) if ends[0][i] >= ends[1][j] else (None, now)
            others = _others(before, i) if was else _others(after, j)
            facts.append(Fact("moved", name, was, now, float(move[i, j]), large=large, others=others))
    for side, (own, kind) in enumerate(((before, "disappeared"), (after, "appeared"))):
        for k, p in enumerate(alone[side].tolist()):
            if k in used[side] or p < SETTINGS.least:
                continue
            name, large = object_name(own.label[k])
            box = box_of(own.box[k])
            gone, come = (None, box) if side else (box, None)
            unsure = {"doubtful": bool(doubtful[side][k]), "covered": bool(covered[side][k])}
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

    The detector learnt from COCO, which has no vans: it takes them for a car and for a lorry or bus at once.

    Args:
        label: ``(len(OBJECTS),)``, scores 0..1.
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
