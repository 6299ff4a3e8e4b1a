"""Deciding: from the detections of two stills, their links and the change classifier to facts.

Let r be the probability that a detection is a change (`models.grounded.judge`), and l that two detections are
one object (`models.grounded.linker`). Then

    moved(i, j)  = min(r_i, r_j) (1 + l_ij) / 2
    appeared(j)  = r_j (1 - sum_i l_ij s_ij),   disappeared(i) alike,

where s_ij is 1 if the two lie at one place and r_i / 2 if not: what is still where it was has not appeared.
A link to a detection of nothing takes nothing from an arrival, and a move is as sure as its weaker end. Where
the two overlap the classifier cannot tell a short step from none, for one of its family stands there on both
sides: there an end of a move is as real as the detector's score makes it, if that is more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.box_tensors import overlaps, shared_area
from models.boxes import Box, box_of, hull, inside, iou
from models.families import OBJECTS, VEHICLES, family_of, first_of
from models.family_tensors import FAMILY
from models.grounded.detections import unrivalled
from models.grounded.judge import Sides, correlation_at
from models.grounded.linker import Ends
from models.grounded.settings import SETTINGS
from models.language.facts import Fact

CONFIDENCE = (0.321, 0.653, 0.523, -0.836, -1.348, -0.267)
"""Log odds of a fact for each sign of `confidence`, and without any: fitted to facts labelled by eye."""

_THINGS = ("bag", "object")  # mostly parts of people, and plants


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The N detections of one side.

    Attributes:
        ends: N of them.
        change: float32 ``(N,)``, probability that it is there and not the same on the other side.
    """

    ends: Ends
    change: Tensor

    def select(self, rows: Tensor) -> Candidates:
        """The given rows, int64 or bool ``(M,)``."""
        return Candidates(self.ends.select(rows), self.change[rows])


def distinct(side: Candidates) -> Candidates:
    """Each object once: without weaker boxes that overlap, hold or lie within a surer one of the family."""
    ends = side.ends
    order = ends.score.argsort(descending=True, stable=True)
    box, family = ends.box[order], _families(ends)[order]
    area = box[:, 2:].prod(1).clamp(min=1e-9)
    least = torch.minimum(area[:, None], area[None])
    same = (overlaps(box, box) > SETTINGS.twice) | (shared_area(box, box) / least > SETTINGS.part)
    rivals = same & (family[:, None] == family[None])
    return side.select(order[unrivalled(rivals)].sort().values)


def decide(
    before: Candidates,
    after: Candidates,
    same: Tensor,
    *,
    pair: int = 0,
    gap_s: float = math.nan,
    weights: Sequence[float] = CONFIDENCE,
) -> list[Fact]:
    """The facts of a pair, each detection in one at most, the surest first.

    Args:
        before: S detections.
        after: T detections.
        same: float32 ``(S, T)``, probability of each two to be one object.
        pair: its number in the batch.
        gap_s: seconds between the stills, NaN where that is not known.
        weights: of `confidence`.
    """
    before, after = (_told(own, other) for own, other in ((before, after), (after, before)))
    apart = _apart(before.ends.box, after.ends.box)
    real = _real(before, after)
    weak, strong = torch.minimum(*real), torch.maximum(*real)
    stays = apart < SETTINGS.stayed
    gone = before.change * (1 - (same * torch.where(stays, 1.0, after.change[None] / 2)).sum(1)).clamp(0, 1)
    there = torch.where(stays, 1.0, before.change[:, None] / 2)
    come = after.change * (1 - (same * there).sum(0)).clamp(0, 1)
    found = _Facts(pair, before, after, weights)
    for p, i, j in _strongest(same * weak * ~stays, SETTINGS.least):
        # Beside a detection of nothing the surer end is no half of a move: it came, or went.
        sure = float(weak[i, j] * (1 + same[i, j]) / 2)
        if p >= SETTINGS.moved * float(strong[i, j]) and sure >= SETTINGS.least:
            found.moved(i, j, sure, doubtful=float(same[i, j]) < SETTINGS.doubtful)
    step = _step(before.ends, after.ends, apart) & (gap_s <= SETTINGS.step_s)
    for _, i, j in _strongest(same * step, SETTINGS.step_link):
        ends = sorted((float(gone[i]), float(come[j])))
        if ends[0] >= SETTINGS.moved * ends[1]:
            found.moved(i, j, ends[0])
    found.alone(0, gone, _most(same * after.change[None]))
    found.alone(1, come, _most((same * before.change[:, None]).T))
    return riders(_once(sorted(found.facts, key=lambda f: -f.confidence)))


class _Facts:
    """The facts of one pair while they are decided: a detection that one of them has is no other's."""

    def __init__(self, pair: int, before: Candidates, after: Candidates, weights: Sequence[float]) -> None:
        self.facts: list[Fact] = []
        self._pair, self._sides, self._weights = pair, (before, after), weights
        self._used: tuple[set[int], set[int]] = (set(), set())

    def moved(self, i: int, j: int, p: float, *, doubtful: bool = False) -> None:
        if i in self._used[0] or j in self._used[1]:
            return
        self._used[0].add(i)
        self._used[1].add(j)
        one, two = (side.ends for side in self._sides)
        name, large = object_name((one.label[i] + two.label[j]) / 2)
        score = min(float(one.score[i]), float(two.score[j]))
        sure = confidence(p, score, name, weights=self._weights, moved=True)
        was, now = box_of(one.box[i]), box_of(two.box[j])
        self.facts.append(Fact(self._pair, "moved", name, 1, was, now, sure, large=large, doubtful=doubtful))

    def alone(self, side: int, scores: Tensor, elsewhere: Tensor) -> None:
        """Appeared or disappeared: the detections of one side that are left."""
        ends = self._sides[side].ends
        for k, p in enumerate(scores.tolist()):
            if k in self._used[side] or p < SETTINGS.least:
                continue
            name, large = object_name(ends.label[k])
            sure = confidence(
                p, float(ends.score[k]), name, weights=self._weights, elsewhere=float(elsewhere[k])
            )
            box = box_of(ends.box[k])
            before, after = (None, box) if side else (box, None)
            kind = "appeared" if side else "disappeared"
            self.facts.append(Fact(self._pair, kind, name, 1, before, after, sure, large=large))


def confidence(
    p: float,
    score: float,
    name: str,
    *,
    weights: Sequence[float] = CONFIDENCE,
    moved: bool = False,
    elsewhere: float = 0.0,
) -> float:
    """Probability 0..1 that a fact is so.

    Args:
        p: what was decided.
        score: the detector's, of the weaker end.
        name: of the object.
        weights: see `CONFIDENCE`.
        moved: whether that is the fact's type.
        elsewhere: greatest probability that what came or went is a detection of the other side.
    """
    signs = (_logit(p, 0.001), _logit(score, 0.05), moved, elsewhere, name in _THINGS, 1.0)
    total = sum(weight * float(sign) for weight, sign in zip(weights, signs, strict=True))
    return 1 / (1 + math.exp(-total))


def object_name(label: Tensor) -> tuple[str, bool]:
    """The name of an object, and whether it is a large vehicle of which the kind is not sure.

    The detector learnt from COCO, which has no vans: it takes them for a car and for a lorry or bus at once.

    Args:
        label: float32 ``(len(OBJECTS),)``, scores 0..1.
    """
    best = OBJECTS[int(label.argmax())]
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


def only_ones(before: Candidates, after: Candidates, gap_s: float) -> Tensor:
    """Which two are the only ones of their family that went and came, soon: bool ``(S, T)``."""
    families = [_families(side.ends) for side in (before, after)]
    only = []
    for side, family in zip((before, after), families, strict=True):
        stirs = side.change >= SETTINGS.stirs
        others = ((family[:, None] == family[None]) & stirs[None]).sum(1)
        only.append(stirs & (others == 1))
    same = families[0][:, None] == families[1][None]
    return same & only[0][:, None] & only[1][None] & (gap_s <= SETTINGS.soon_s)


def replaced(sides: Sides, before: Ends, after: Ends) -> Tensor:
    """Which two vehicles stand at one place and are not one, a minute apart or more: bool ``(S, T)``.

    Two pictures of one that stays correlate whatever the light, the more so the surer both detections are.
    """
    shares = overlaps(before.box, after.box)
    if not shares.numel() or not float(sides.gap_s) >= SETTINGS.replaced_s:
        return torch.zeros_like(shares, dtype=torch.bool)
    scores = [side.score * (_families(side) == first_of("vehicle")) for side in (before, after)]
    correlations = [correlation_at(sides.pictures, side.box) for side in (before, after)]
    score = torch.minimum(scores[0][:, None], scores[1][None])
    alike = torch.maximum(correlations[0][:, None], correlations[1][None])
    nearest = (shares == shares.amax(1, keepdim=True)) & (shares == shares.amax(0, keepdim=True))
    unlike = alike < (score - SETTINGS.replaced_below).clamp(max=SETTINGS.replaced_alike)
    return nearest & (shares >= SETTINGS.replaced_place) & (score >= SETTINGS.replaced_score) & unlike


def riders(facts: list[Fact]) -> list[Fact]:
    """Facts in which a person on a two-wheeler is one cyclist or motorcyclist."""
    found = list(facts)
    for wheels in [f for f in facts if f.object in ("bicycle", "motorcycle")]:
        for person in [f for f in found if f.object == "person" and f.type == wheels.type]:
            sides = ((person.before, wheels.before), (person.after, wheels.after))
            if wheels in found and all(_rides(a, b) for a, b in sides if a and b):
                found.remove(person)
                found[found.index(wheels)] = replace(
                    wheels,
                    object="cyclist" if wheels.object == "bicycle" else "motorcyclist",
                    before=hull((person.before, wheels.before)),
                    after=hull((person.after, wheels.after)),
                    confidence=max(person.confidence, wheels.confidence),
                )
                break
    return found


def _rides(person: Box, wheels: Box) -> bool:
    """Whether a person sits on a two-wheeler: above its middle, feet within it."""
    x, foot = person[0] + person[2] / 2, person[1] + person[3]
    across = wheels[0] <= x <= wheels[0] + wheels[2]
    stands_in = wheels[1] < foot <= wheels[1] + 1.15 * wheels[3]
    return across and stands_in and person[1] < wheels[1] + wheels[3] / 2


def _families(ends: Ends) -> Tensor:
    return FAMILY.to(ends.label.device)[ends.label.argmax(-1)]


def _logit(p: float, least: float) -> float:
    p = min(max(p, least), 1 - least)
    return math.log(p / (1 - p))


def _most(links: Tensor) -> Tensor:
    return links.amax(1) if links.shape[1] else links.new_zeros(len(links))


def _told(own: Candidates, other: Candidates) -> Candidates:
    """One side without what is never told: a car park taken for a lorry, tiny people in a crowd."""
    box = torch.cat([own.ends.box, other.ends.box])
    sure = torch.cat([own.ends.score, other.ends.score]) >= SETTINGS.stirs
    family, theirs = _families(own.ends), _families(other.ends)
    middle = box[:, :2] + box[:, 2:] / 2
    low, high = own.ends.box[:, None, :2], own.ends.box[:, None, :2] + own.ends.box[:, None, 2:]
    holds = ((middle[None] > low) & (middle[None] < high)).all(-1) & sure[None]
    area = box[:, 2:].prod(-1)
    small = area[None] < own.ends.box[:, 2:].prod(-1)[:, None] / SETTINGS.lot_ratio
    held = (holds & small & (family[:, None] == torch.cat([family, theirs])[None])).sum(1)
    large = own.ends.box[:, 2:].prod(-1) > SETTINGS.lot_area
    lot = large & (held >= SETTINGS.lot_count) & (family == first_of("vehicle"))
    people = family == first_of("person")
    tiny = people & (own.ends.box[:, 3] < SETTINGS.tiny_height) & (people.sum() >= SETTINGS.crowd)
    return replace(own, change=torch.where(lot | tiny, 0.0, own.change))


def _real(before: Candidates, after: Candidates) -> tuple[Tensor, Tensor]:
    """How real the ends of each move ``(S, T)`` are, before and after; see the head of this file."""
    beside = overlaps(before.ends.box, after.ends.box) > SETTINGS.beside
    there = [
        (SETTINGS.real_slope * s.ends.score.clamp(0.01, 0.99).logit() + SETTINGS.real_offset).sigmoid()
        for s in (before, after)
    ]
    one, two = before.change[:, None].expand_as(beside), after.change[None].expand_as(beside)
    return (
        torch.where(beside, torch.maximum(one, there[0][:, None]), one),
        torch.where(beside, torch.maximum(two, there[1][None]), two),
    )


def _once(facts: list[Fact]) -> list[Fact]:
    """Facts, the surest first, without those that show what a surer one of their type shows."""
    found: list[Fact] = []
    for fact in facts:
        if not any(fact.type == surer.type and _again(fact, surer) for surer in found):
            found.append(fact)
    return found


def _again(fact: Fact, surer: Fact) -> bool:
    """Whether a fact is a part of a surer one or the same under another name; a rider is not the bicycle."""
    families = {family_of(fact.object), family_of(surer.object)}
    sides = ((fact.before, surer.before), (fact.after, surer.after))
    both = [(own, other) for own, other in sides if own and other]
    if len(families) == 1 and any(inside(own, other) >= SETTINGS.part for own, other in both):
        return True
    ridden = families == {"person", "two-wheeler"}
    return not ridden and any(iou(own, other) > SETTINGS.twice for own, other in both)


def _apart(a: Tensor, b: Tensor) -> Tensor:
    """How far boxes ``(S, 4)`` and ``(T, 4)`` are from one another, in their mean sizes, ``(S, T)``."""
    middle = (a[:, None, :2] + a[:, None, 2:] / 2) - (b[None, :, :2] + b[None, :, 2:] / 2)
    size = (a[:, None, 2:] + b[None, :, 2:]) / 2
    return (middle.abs() / size.clamp(min=1e-6)).amax(-1)


def _step(before: Ends, after: Ends, apart: Tensor) -> Tensor:
    """Which two of one family lie a step apart and are alike in size: bool ``(S, T)``."""
    area = [e.box[:, 2:].prod(-1).clamp(min=1e-9).log() for e in (before, after)]
    alike = (area[0][:, None] - area[1][None]).abs() <= math.log(SETTINGS.step_ratio)
    same = _families(before)[:, None] == _families(after)[None]
    return same & (apart >= SETTINGS.stayed) & (apart <= SETTINGS.step_sizes) & alike


def _strongest(score: Tensor, least: float) -> list[tuple[float, int, int]]:
    i, j = (score >= least).nonzero(as_tuple=True)
    rows = zip(score[i, j].tolist(), i.tolist(), j.tolist(), strict=True)
    return sorted(rows, key=lambda t: (-t[0], t[1:]))
