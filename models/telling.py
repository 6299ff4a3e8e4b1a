"""What is to be told: from the things of both sides and their links to the facts of each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.perception import OBJECTS
from models.things import Things, overlaps

VEHICLES = ("car", "vehicle", "bus", "truck")
TWO_WHEELED = ("bicycle", "cyclist", "motorcycle")
SURE_OF_KIND = 0.6
"""Least share of the vehicle classes' probability that one must have to be named; else "vehicle"."""
SURE_OF_CLASS = 0.45
"""Least probability of a class or family; below it is "something"."""
NEAR = 0.35
"""Largest gap between neighbours of a group, in their mean width."""
COUNTED = 4
"""Larger groups cannot be counted for sure."""
LARGE = 0.025
"""Share of the frame from which a cluster must not be passed over in silence."""
UNLIKE = 0.3
"""Largest correlation of what was there with what is there: a shadow keeps what it falls on."""
CLEARLY = 1.5
"""How much more one side must look like an object than the other for it to be said that it is there."""
SAME_PLACE = 0.5
"""Two boxes of one object that overlap so much (intersection over union) are the same place."""
SLIGHTLY = 0.5
"""How sure it is that an object has moved which still stands at the same place, or which is of no known
class, as a share of how sure it is that something changed there: a shake, leaves and shadows move edges as
well, and what cannot be named cannot be known again."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Tale:
    """What one sentence is to tell.

    Attributes:
        pair, cluster: which pair of the batch, which of its clusters.
        type: appeared, disappeared, moved, replaced, more or fewer; unknown of a large difference that shows
            no object.
        object: a name of `OBJECTS`.
        count: how many.
        before, after: where, in 0..1 of the frame; None where it is not on that side.
        score: how sure it is that something changed there, 0..1.
        named: probability 0..1 of the object's name.
        certain: the confidence, where it does not follow from these two.
    """

    pair: int
    cluster: int
    type: str
    object: str
    count: int
    before: Box | None
    after: Box | None
    score: float
    named: float
    certain: float | None = None

    @property
    def box(self) -> Box:
        """Where the sentence is about: where it is now, or where it was."""
        box = self.after or self.before
        if box is None:
            raise ValueError(f"a tale without a place: {self}")
        return box

    @property
    def place_box(self) -> Box:
        """The box whose place is said: where it was, but for what appeared."""
        return self.before or self.box


def named(label: Tensor) -> tuple[str, float]:
    """The name of an object, and how sure it is.

    A kind of vehicle is named only when it is sure among vehicles, else it is a vehicle; what is of no class
    for sure is an object.

    Args:
        label: float32 ``(len(OBJECTS),)``, probabilities.
    """
    share = dict(zip(OBJECTS, label.tolist(), strict=True))
    families = {name: share[name] for name in ("person", "bottle", "object")}
    families["vehicle"] = sum(share[name] for name in VEHICLES)
    families["wheels"] = sum(share[name] for name in TWO_WHEELED)
    family = max(families, key=lambda name: families[name])
    sure = families[family]
    if sure < SURE_OF_CLASS:
        return "object", share["object"]
    if family == "vehicle":
        kind = max(VEHICLES, key=lambda name: share[name])
        return (kind if share[kind] >= SURE_OF_KIND * sure else "vehicle"), sure
    if family == "wheels":
        return max(TWO_WHEELED, key=lambda name: share[name]), sure
    return family, sure


def family(name: str) -> str:
    """The family of an object's name: its own, or vehicle or two wheels."""
    if name in VEHICLES:
        return "vehicle"
    return "wheels" if name in TWO_WHEELED else name


def tales(
    before: Things,
    after: Things,
    links: Sequence[tuple[int, int]],
    another: Tensor,
    clusters: Sequence[int],
) -> list[Tale]:
    """One tale for each thing or linked pair of things.

    Args:
        before: S things.
        after: T things.
        links: things that are one object.
        another: bool ``(S, T)``, known to be two objects.
        clusters: for each crop, the number of its cluster in its pair.
    """
    told: list[Tale] = []
    shared, _, union = overlaps(before.box, after.box)
    stays = shared >= SAME_PLACE * union
    for i, j in links:
        name, sure = named((before.label[i] + after.label[j]) / 2)
        doubtful = bool(stays[i, j]) or name == "object"
        score = max(float(before.score[i]), float(after.score[j])) * (SLIGHTLY if doubtful else 1.0)
        n = int(after.cluster[j] if after.score[j] >= before.score[i] else before.cluster[i])
        sides = _box(before, i), _box(after, j)
        told.append(Tale(int(before.pair[i]), clusters[n], "moved", name, 1, *sides, score, sure))
    old = set(range(len(before))) - {i for i, _ in links}
    new = set(range(len(after))) - {j for _, j in links}
    for i, j in _replaced(before, after, old, new, stays & another):
        old.discard(i)
        new.discard(j)
        name, sure = named((before.label[i] + after.label[j]) / 2)
        score = min(float(before.score[i]), float(after.score[j]))
        n, sides = int(after.cluster[j]), (_box(before, i), _box(after, j))
        told.append(Tale(int(after.pair[j]), clusters[n], "replaced", name, 1, *sides, score, sure))
    for things, rows, kind in ((before, old, "disappeared"), (after, new, "appeared")):
        for t in sorted(rows):
            name, sure = named(things.label[t])
            where = _box(things, t)
            old_box, new_box = (where, None) if kind == "disappeared" else (None, where)
            cluster, score = clusters[int(things.cluster[t])], float(things.score[t])
            told.append(Tale(int(things.pair[t]), cluster, kind, name, 1, old_box, new_box, score, sure))
    return told


def _box(things: Things, t: int) -> Box:
    x, y, width, height = (float(v) for v in things.box[t])
    return x, y, width, height


def _replaced(
    before: Things, after: Things, old: set[int], new: set[int], same: Tensor
) -> list[tuple[int, int]]:
    """Unlinked things of one family at one place, bool ``(S, T)``, that are known to be two objects."""
    if not old or not new:
        return []
    same = same & (before.pair[:, None] == after.pair[None])
    found: list[tuple[int, int]] = []
    for i in sorted(old):
        for j in sorted(new):
            alike = same[i, j] and family(named(before.label[i])[0]) == family(named(after.label[j])[0])
            if alike and all(i != a and j != b for a, b in found):
                found.append((i, j))
    return found


def grouped(told: Sequence[Tale], least: float = 0.0) -> list[Tale]:
    """Neighbours of one kind, side and cluster told as one: "two people have appeared".

    Args:
        told: of any pairs.
        least: tales less sure than this stay alone.
    """
    groups: list[list[Tale]] = []
    for tale in told:
        own = [g for g in groups if tale.score >= least and any(_together(tale, other) for other in g)]
        groups = [g for g in groups if g not in own]
        groups.append([*(t for g in own for t in g), tale])
    return [_one(group) for group in groups]


def beside_others(told: Sequence[Tale]) -> list[Tale]:
    """Groups too large to be counted, told as more or fewer where others of their kind are there all along.

    Others are what only moved, within twice the group's box: of what keeps still nothing is perceived.

    Args:
        told: of any pairs, grouped.
    """
    stayed = [t for t in told if t.type == "moved"]
    return [
        replace(tale, type={"appeared": "more", "disappeared": "fewer"}[tale.type])
        if tale.count > COUNTED and any(_beside(tale, other) for other in stayed)
        else tale
        for tale in told
    ]


def _beside(group: Tale, other: Tale) -> bool:
    x, y, width, height = group.box
    around = (x - width / 2, y - height / 2, 2 * width, 2 * height)
    same = (group.pair, group.object) == (other.pair, other.object)
    return same and any(_meets(box, around) for box in (other.before, other.after) if box)


def _together(a: Tale, b: Tale) -> bool:
    if (a.pair, a.type, a.object) != (b.pair, b.type, b.object):
        return False
    if a.type not in ("appeared", "disappeared") or a.object == "object":
        return False
    (ax, ay, aw, ah), (bx, by, bw, bh) = a.box, b.box
    across = max(ax, bx) - min(ax + aw, bx + bw)
    down = max(ay, by) - min(ay + ah, by + bh)
    alike = max(ah, bh) <= 1.6 * min(ah, bh)  # near and far ones are no group
    return alike and across <= NEAR * (aw + bw) / 2 and down <= 0


def _one(group: Sequence[Tale]) -> Tale:
    first = max(group, key=lambda t: t.score)
    if len(group) == 1:
        return first
    befores = [t.before for t in group if t.before]
    afters = [t.after for t in group if t.after]
    return replace(
        first,
        count=len(group),
        before=_hull(befores) if befores else None,
        after=_hull(afters) if afters else None,
        score=sum(t.score for t in group) / len(group),
        named=sum(t.named for t in group) / len(group),
    )


def _hull(boxes: Sequence[Box]) -> Box:
    edges = torch.tensor([(x, y, x + w, y + h) for x, y, w, h in boxes])
    left, top = (float(v) for v in edges[:, :2].amin(0))
    right, bottom = (float(v) for v in edges[:, 2:].amax(0))
    return left, top, right - left, bottom - top


def unexplained(
    told: Sequence[Tale], cluster: tuple[int, int], box: Box, seen: tuple[float, float], certain: float
) -> Tale | None:
    """Something, where a large cluster holds nothing that is told: it must not be passed over in silence.

    Args:
        told: what is told with enough confidence.
        cluster: its pair and its number.
        box: of the cluster.
        seen: how much like an object it looks before and after, 0..1.
        certain: the confidence to give it.

    Returns:
        None where a tale of the pair meets the cluster.
    """
    pair, number = cluster
    for tale in told:
        boxes = [b for b in (tale.before, tale.after) if b is not None]
        if tale.pair == pair and any(_meets(b, box) for b in boxes):
            return None
    before, after = seen
    came, went = after > CLEARLY * before, before > CLEARLY * after
    kind = "appeared" if came else "disappeared" if went else "unknown"
    sides = (None if came else box, None if went else box)
    return Tale(pair, number, kind, "object", 1, *sides, max(seen), 1.0, certain)


def _meets(a: Box, b: Box) -> bool:
    across = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    down = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return across > 0 and down > 0
