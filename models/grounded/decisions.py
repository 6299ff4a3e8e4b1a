"""Decisions: from the observations of two stills and their association to facts.

Let c be the probability that an observation is a change, and m that it moved if it is one. It moved with
probability c m, and appeared or disappeared with c (1 - m); Platt scaling turns both into confidences. Moves
take their two ends from a minimum-cost assignment, in which a move must be worth more than the two facts in
its place: what a fact is worth is its confidence beyond the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import lap
import numpy as np
from numpy.typing import NDArray

from models.boxes import box_of, iou, overlaps, shared_areas
from models.detections import Detections
from models.families import OBJECTS, VEHICLES, family_of
from models.grounded.association import Floats, PairSigns, Side, logit
from models.grounded.detections import suppress
from models.grounded.settings import SETTINGS
from models.language.statements import Fact

_LEAST = 1e-6  # probability


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Outcomes of the N observations of one frame.

    Attributes:
        change: ``(N,)``, probability 0..1 that it is a change that can be told.
        moved: ``(N,)``, that it is elsewhere in the other still, if it is a change.
    """

    change: Floats
    moved: Floats


def distinct(found: Detections) -> NDArray[np.int64]:
    """Rows int64 of each object once: none that overlaps, holds or lies in a surer one of its family."""
    order = np.argsort(-found.score, kind="stable")
    box, family = found.box[order], found.family[order]
    area = np.maximum(box[:, 2:].prod(1), 1e-9)
    part = shared_areas(box, box) / np.minimum(area[:, None], area)
    rivals = ((overlaps(box, box) > SETTINGS.twice) | (part > SETTINGS.part)) & (family[:, None] == family)
    return np.sort(order[suppress(rivals)])


def decide(
    before: Side,
    after: Side,
    pairs: PairSigns,
    match: Floats,
    outcomes: tuple[Outcomes, Outcomes],
    *,
    pair: int = 0,
    threshold: float = 0.5,
) -> list[Fact]:
    """The facts of a pair of stills, each observation in one at most, the likeliest first.

    Args:
        before: S observations.
        after: T observations.
        pairs: their signs.
        match: ``(S, T)``, probability of each two to be one object.
        outcomes: of before and after.
        pair: its number in the batch.
        threshold: confidence from which facts are told.
    """
    moved = [logit(each.change * each.moved, _LEAST) for each in outcomes]
    scales = [np.array([each]).T for each in (SETTINGS.doubtful_scale, SETTINGS.alone_scale)]
    doubtful = [each.moved >= SETTINGS.elsewhere for each in outcomes]
    alone = [
        _confidence(logit(each.change * (1 - each.moved), _LEAST), np.where(unsure, *scales))
        for unsure, each in zip(doubtful, outcomes, strict=True)
    ]
    move = _confidence((moved[0][:, None] + moved[1][None]) / 2, SETTINGS.moved_scale)
    worth = [np.maximum(each - threshold, 0) for each in alone]
    gain = move - threshold - worth[0][:, None] - worth[1][None]
    possible = pairs.elsewhere & (match >= SETTINGS.least_match) & (move > threshold) & (gain > 0)
    gain = np.where(possible, gain + SETTINGS.match_worth * match, 0.0)
    facts, used = list[Fact](), (set[int](), set[int]())
    for i, j in zip(*lap.lapjvx(-gain, extend_cost=True, return_cost=False), strict=True):
        if gain[i, j] > 0:
            used[0].add(i)
            used[1].add(j)
            name, large = object_name((before.label[i] + after.label[j]) / 2)
            was, now = box_of(before.box[i]), box_of(after.box[j])
            unsure, p = bool(match[i, j] < SETTINGS.doubtful), float(move[i, j])
            facts.append(Fact(pair, "moved", name, was, now, p, large=large, doubtful=unsure))
    for own, kind, scores, elsewhere, taken in (
        (before, "disappeared", alone[0], doubtful[0], used[0]),
        (after, "appeared", alone[1], doubtful[1], used[1]),
    ):
        for k, p in enumerate(scores.tolist()):
            if k in taken or p < SETTINGS.least:
                continue
            name, large = object_name(own.label[k])
            box = box_of(own.box[k])
            gone, come = (box, None) if own is before else (None, box)
            facts.append(Fact(pair, kind, name, gone, come, p, large=large, doubtful=bool(elsewhere[k])))
    surest = sorted(facts, key=lambda f: -f.confidence)
    return [fact for n, fact in enumerate(surest) if not any(_again(fact, surer) for surer in surest[:n])]


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
