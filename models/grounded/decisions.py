"""Deciding: from the ends of two stills, their links and the judge's word to the facts that may be told.

Let r be the probability that an end is really there and not the same thing at the same place on the other
side (`models.grounded.judge`), and l that two ends are one object (`models.grounded.linker`). Then

    moved(i, j)  = min(r_i, r_j) (1 + l_ij) / 2
    appeared(j)  = r_j (1 - sum_i l_ij s_ij),   disappeared(i) alike,

where s_ij is 1 if the two lie at one place and r_i / 2 if not: what is still where it was has not appeared.
A link to an end where nothing is takes nothing from an arrival, and a move is as sure as its weaker end.
Who would be told as gone and come, a step aside and seconds apart, has moved from a small l on.
Where the two overlap the judge cannot tell a short step from none, for one of its family stands there on both
sides: there an end of a move is as real as the detector's score makes it, if that is more.
That a link is doubtful counts half: whether two stills show one object is then seldom evident to anybody.

How sure a fact is, is weighed from that, the detector's score, what it may belong to elsewhere, and its kind
(`trust`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.box_tensors import overlaps
from models.boxes import Box, box_of, hull, inside, iou
from models.families import OBJECTS, family_of, first_of
from models.family_tensors import FAMILY
from models.grounded.linker import Ends
from models.language.facts import Fact

STAYED = 0.15
"""What lies less than so many of its own sizes from where it was has not moved: of things at rest, seen twice
on validation cameras, 95 of 100 boxes lie within .13."""

MOVED = 1 / 3
"""Least probability that two ends are one for a move to be told: a move that is none is one false sentence,
an arrival and a departure of one object are two."""

STEP, STEP_S, STEP_SIZES, STEP_RATIO = 0.09, 6.0, 1.7, 2.0
"""Two that would be told as gone and come, at most so many seconds apart, at most so many of their own
sizes, alike in area to this ratio and with this probability of a link, have moved. Within 2.6 s 18 of 20 were
one, by eye; in the next seconds half, and most of the others had both moved: neither went or came."""

LEAST = 0.02
"""What is less likely is not told, whatever threshold is asked for."""

TRUST = {"decided": 0.321, "score": 0.653, "moved": 0.523, "elsewhere": -0.836, "thing": -1.348}
"""What each sign adds to the log odds that a fact is so, in the order of `trust`: fitted to 1,014 facts about
pairs of training cameras, two thirds of them held out, that were labelled by eye (docs/adr/0014)."""

TRUST_NOTHING = -0.267
"""The log odds without any sign."""

SOON_S = 10.0
"""Within so many seconds hardly anybody leaves an otherwise still scene while another comes."""

LONE = 4.0
"""Log odds by which two ends that are `alone` are likelier one than in the streets that taught the linker.
There one of about thirty pairs of ends is one object (log odds -3.4). Where one comes or goes every twenty
seconds, that both happen within 2.5 s has the odds of 1 to 60, and that one walks on about 1 to 3: log odds
of about 3. Of the 6 between the two some are in the linker's counts already (Saerens et al. 2002)."""

_LOT = (0.25, 8.0, 3)  # least share of the frame, of how much smaller ones, and of how many, it is a place
_BESIDE = 0.1  # overlap from which the judge cannot tell a short step
_REAL = (1.5, 1.0)  # slope and offset from the log odds of a score to those that somebody is there
_STIRS = 0.3  # of what is that likely a change it is not said that nobody else stirs
_WITHIN = 0.85  # of its box that must lie in another one's of its family for it to be a part of that
_TWICE = 0.5  # overlap from which two of one side are one thing
_BETWEEN = (0.46, 0.62)  # share of lorry and bus from which a car is a van, and beyond which it is none
_THINGS = ("bag", "object")  # mostly parts of people, and plants
_VEHICLES = tuple(name for name in OBJECTS if family_of(name) == "vehicle")


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The ends of one side with the judge's word.

    Attributes:
        ends: N of them.
        real: float32 ``(N,)``, probability that it is there and not the same on the other side.
    """

    ends: Ends
    real: Tensor


def decided(before: Judged, after: Judged, one: Tensor, pair: int, gap_s: float = float("nan")) -> list[Fact]:
    """What may be told of a pair, each end at most once, the surest first; confidence is not calibrated yet.

    Args:
        before: S ends.
        after: T ends.
        one: float32 ``(S, T)``, probability of each two to be one object.
        pair: its number in the batch.
        gap_s: seconds between the stills, NaN where that is not known.
    """
    before, after = _without_lots(before, after), _without_lots(after, before)
    apart = _apart(before.ends.box, after.ends.box)
    real = _real(before, after)
    weak, strong = torch.minimum(*real), torch.maximum(*real)
    stays = apart < STAYED
    gone = before.real * (1 - (one * torch.where(stays, 1.0, after.real[None] / 2)).sum(1)).clamp(0, 1)
    come = after.real * (1 - (one * torch.where(stays, 1.0, before.real[:, None] / 2)).sum(0)).clamp(0, 1)
    found = _Facts(pair, before, after)
    for p, i, j in _strongest(one * weak * ~stays):
        # Beside a ghost the surer end is no half of a move: it came, or went.
        sure = float(weak[i, j] * (1 + one[i, j]) / 2)
        if p >= MOVED * float(strong[i, j]) and sure >= LEAST:
            found.moved(i, j, sure)
    for _, i, j in _strongest(one * (_step(before.ends, after.ends, apart) & (gap_s <= STEP_S)), STEP):
        ends = sorted((float(gone[i]), float(come[j])))
        if ends[0] >= MOVED * ends[1]:
            found.moved(i, j, ends[0])
    found.alone(0, gone, _most(one * after.real[None]))
    found.alone(1, come, _most((one * before.real[:, None]).T))
    return riders(_whole(sorted(found.facts, key=lambda f: -f.confidence)))


class _Facts:
    """The facts of one pair while they are decided: an end that one of them has is no other's."""

    def __init__(self, pair: int, before: Judged, after: Judged) -> None:
        self.facts: list[Fact] = []
        self._pair, self._sides = pair, (before, after)
        self._used: tuple[set[int], set[int]] = (set(), set())

    def moved(self, i: int, j: int, p: float) -> None:
        """Two ends are one object, as sure as `p`."""
        if i in self._used[0] or j in self._used[1]:
            return
        self._used[0].add(i)
        self._used[1].add(j)
        before, after = self._sides
        name = named((before.ends.label[i] + after.ends.label[j]) / 2)
        sure = trust(p, min(float(before.ends.score[i]), float(after.ends.score[j])), name, moved=True)
        self.facts.append(Fact(self._pair, "moved", name, 1, _box(before, i), _box(after, j), sure))

    def alone(self, side: int, scores: Tensor, elsewhere: Tensor) -> None:
        """The ends of one side that are left went or came, as sure as `scores`; see `trust`."""
        judged = self._sides[side]
        for k, p in enumerate(scores.tolist()):
            if k in self._used[side] or p < LEAST:
                continue
            where, name = _box(judged, k), named(judged.ends.label[k])
            sure = trust(p, float(judged.ends.score[k]), name, elsewhere=float(elsewhere[k]))
            if side == 0:
                self.facts.append(Fact(self._pair, "disappeared", name, 1, where, None, sure))
            else:
                self.facts.append(Fact(self._pair, "appeared", name, 1, None, where, sure))


def trust(p: float, score: float, name: str, *, moved: bool = False, elsewhere: float = 0.0) -> float:
    """How sure a fact is, 0..1.

    Args:
        p: what was decided.
        score: the detector's, of the weaker end.
        name: of the object.
        moved: whether that is the fact's type.
        elsewhere: greatest probability that what came or went is a real end of the other side.
    """
    signs = (_odds(p, 0.001), _odds(score, 0.05), moved, elsewhere, name in _THINGS)
    total = sum(weight * float(sign) for weight, sign in zip(TRUST.values(), signs, strict=True))
    return 1 / (1 + math.exp(-total - TRUST_NOTHING))


def _odds(p: float, least: float) -> float:
    """Log odds, of what is surer or less sure than `least` those of that."""
    p = min(max(p, least), 1 - least)
    return math.log(p / (1 - p))


def _most(links: Tensor) -> Tensor:
    return links.amax(1) if links.shape[1] else links.new_zeros(len(links))


def _without_lots(own: Judged, other: Judged) -> Judged:
    """One side, what holds several vehicles of either side being none itself: a car park is no lorry."""
    box = torch.cat([own.ends.box, other.ends.box])
    sure = torch.cat([own.ends.score, other.ends.score]) >= _STIRS
    family = [FAMILY.to(j.real.device)[j.ends.label.argmax(-1)] for j in (own, other)]
    middle = box[:, :2] + box[:, 2:] / 2
    low, high = own.ends.box[:, None, :2], own.ends.box[:, None, :2] + own.ends.box[:, None, 2:]
    holds = ((middle[None] > low) & (middle[None] < high)).all(-1) & sure[None]
    area = box[:, 2:].prod(-1)
    small = area[None] < own.ends.box[:, 2:].prod(-1)[:, None] / _LOT[1]
    held = (holds & small & (family[0][:, None] == torch.cat(family)[None])).sum(1)
    lot = (own.ends.box[:, 2:].prod(-1) > _LOT[0]) & (held >= _LOT[2]) & (family[0] == first_of("vehicle"))
    return replace(own, real=torch.where(lot, 0.0, own.real))


def _real(before: Judged, after: Judged) -> tuple[Tensor, Tensor]:
    """How real the ends of each move ``(S, T)`` are, before and after; see the head of this file."""
    beside = overlaps(before.ends.box, after.ends.box) > _BESIDE
    slope, offset = _REAL
    there = [(slope * s.ends.score.clamp(0.01, 0.99).logit() + offset).sigmoid() for s in (before, after)]
    one, two = before.real[:, None].expand_as(beside), after.real[None].expand_as(beside)
    return (
        torch.where(beside, torch.maximum(one, there[0][:, None]), one),
        torch.where(beside, torch.maximum(two, there[1][None]), two),
    )


def _whole(facts: list[Fact]) -> list[Fact]:
    """Facts, the surest first, without what a surer one of their type tells: a part of it, or the same."""
    told: list[Fact] = []
    for fact in facts:
        if not any(fact.type == surer.type and _again(fact, surer) for surer in told):
            told.append(fact)
    return told


def _again(fact: Fact, surer: Fact) -> bool:
    """Whether a fact shows what a surer one shows, whatever it takes it for; who rides is not the bicycle."""
    families = {family_of(fact.object), family_of(surer.object)}
    sides = ((fact.before, surer.before), (fact.after, surer.after))
    both = [(own, other) for own, other in sides if own and other]
    if len(families) == 1 and any(inside(own, other) >= _WITHIN for own, other in both):
        return True
    return families != {"person", "two-wheeler"} and any(iou(own, other) > _TWICE for own, other in both)


def alone(before: Judged, after: Judged, gap_s: float) -> Tensor:
    """Which two ends are the only ones of their family that went and came, soon: bool ``(S, T)``."""
    families = [FAMILY.to(j.real.device)[j.ends.label.argmax(-1)] for j in (before, after)]
    only = []
    for judged, family in zip((before, after), families, strict=True):
        stirs = judged.real >= _STIRS
        others = ((family[:, None] == family[None]) & stirs[None]).sum(1)
        only.append(stirs & (others == 1))
    same = families[0][:, None] == families[1][None]
    return same & only[0][:, None] & only[1][None] & (gap_s <= SOON_S)


def named(label: Tensor) -> str:
    """The name of an object.

    Detectors that learnt from COCO know no van: they take it for a car and for a lorry or bus at once.

    Args:
        label: float32 ``(len(OBJECTS),)``, scores 0..1.
    """
    best = OBJECTS[int(label.argmax())]
    if best not in _VEHICLES:
        return best
    share = {name: float(label[OBJECTS.index(name)]) for name in _VEHICLES}
    large = (share["bus"] + share["truck"]) / max(sum(share.values()), 1e-6)
    if large < _BETWEEN[0]:
        return "car"
    return "van" if large <= _BETWEEN[1] else max(("bus", "truck"), key=lambda name: share[name])


def riders(facts: list[Fact]) -> list[Fact]:
    """Somebody on a bicycle or motorcycle is told as one, and so is what else is one thing with two names."""
    told = list(facts)
    for wheels in [f for f in facts if f.object in ("bicycle", "motorcycle")]:
        for person in [f for f in told if f.object == "person" and f.type == wheels.type]:
            if wheels in told and _one(person, wheels):
                told.remove(person)
                name = "cyclist" if wheels.object == "bicycle" else "motorcyclist"
                told[told.index(wheels)] = replace(
                    wheels,
                    object=name,
                    before=hull((person.before, wheels.before)),
                    after=hull((person.after, wheels.after)),
                    confidence=max(person.confidence, wheels.confidence),
                )
                break
    return told


def _one(person: Fact, wheels: Fact) -> bool:
    """Whether a person rides on every side on which both are."""
    sides = ((person.before, wheels.before), (person.after, wheels.after))
    return all(_rides(a, b) for a, b in sides if a and b)


def _rides(person: Box, wheels: Box) -> bool:
    """Whether a person sits on what has wheels: above its middle, feet within it."""
    x, foot = person[0] + person[2] / 2, person[1] + person[3]
    across = wheels[0] <= x <= wheels[0] + wheels[2]
    stands_in = wheels[1] < foot <= wheels[1] + 1.15 * wheels[3]
    return across and stands_in and person[1] < wheels[1] + wheels[3] / 2


def _apart(a: Tensor, b: Tensor) -> Tensor:
    """How far boxes ``(S, 4)`` and ``(T, 4)`` are from one another, in their mean sizes, ``(S, T)``."""
    middle = (a[:, None, :2] + a[:, None, 2:] / 2) - (b[None, :, :2] + b[None, :, 2:] / 2)
    size = (a[:, None, 2:] + b[None, :, 2:]) / 2
    return (middle.abs() / size.clamp(min=1e-6)).amax(-1)


def _step(before: Ends, after: Ends, apart: Tensor) -> Tensor:
    """Which two ends of one family lie a step apart and are alike in size: bool ``(S, T)``."""
    family = [FAMILY.to(e.label.device)[e.label.argmax(-1)] for e in (before, after)]
    area = [e.box[:, 2:].prod(-1).clamp(min=1e-9).log() for e in (before, after)]
    alike = (area[0][:, None] - area[1][None]).abs() <= math.log(STEP_RATIO)
    return (family[0][:, None] == family[1][None]) & (apart >= STAYED) & (apart <= STEP_SIZES) & alike


def _strongest(score: Tensor, least: float = LEAST) -> list[tuple[float, int, int]]:
    i, j = (score >= least).nonzero(as_tuple=True)
    rows = zip(score[i, j].tolist(), i.tolist(), j.tolist(), strict=True)
    return sorted(rows, key=lambda t: (-t[0], t[1:]))


def _box(judged: Judged, k: int) -> Box:
    return box_of(judged.ends.box[k])
