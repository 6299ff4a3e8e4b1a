"""What changed between two frames, from what the teacher sees on both, and what of it the pixels show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, centre, intersection, iou, union
from pipeline.clusters import Cluster
from pipeline.sources import Image
from train.compose.objects import pixels
from train.footage.identity import colours, growth, likeness, step
from train.footage.teacher import Detection
from train.samples import SampleChange, SampleObject, Time

SURE = 0.45
"""Least score of a detection about which a sentence is said."""
MAX_APART = 2.5
"""Largest distance, in the objects' sizes, at which two objects are told as a group."""
MAX_GROWN = 2.5
"""Largest ratio of the areas of one object on both sides of a pair."""
MIN_TOUCHED = 0.02
"""Least share of the box of an object that may be there, which the mask covers, for it to be kept."""
MIN_MET = 0.12
"""Least share of a changed object's box that the difference mask must cover."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One frame of a pair with what the teacher sees on it.

    Attributes:
        image: RGB uint8 ``(h, w, 3)``.
        detections: what the teacher sees.
        tracks: the track of each detection, where it is known, else empty.
        together: pairs of tracks that were seen on one frame and so are two objects.
    """

    image: Image
    detections: tuple[Detection, ...]
    tracks: tuple[int, ...] = ()
    together: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Matched:
    """What two sides tell.

    Attributes:
        changes: the changes that the teacher is sure of; their `members` are positions in `objects`.
        objects: every detection of before, then every one of after, except those of which nothing is to be
            told; the unsure ones are those of which it is not known whether they differ.
    """

    changes: tuple[SampleChange, ...]
    objects: tuple[SampleObject, ...]


@dataclass(frozen=True, slots=True)
class _Link:
    """Two detections that are, or may be, one object.

    Attributes:
        before, after: their numbers.
        moved: the places differ.
        tracked: the frames in between show that they are one object.
    """

    before: int
    after: int
    moved: bool
    tracked: bool


def match(before: Side, after: Side) -> Matched:
    """Compare two frames by what the teacher sees on them.

    The same object at the same place is no change. The same object elsewhere (same track; without one,
    near, of like size and colour) has moved. What is left has appeared or disappeared. Another object of
    the same family at the same place has replaced the first, where the tracks say so.
    """
    links = _pairs(before, after)
    worth = [k for k in links if _tells(before, after, k)]
    linked = {("before", k.before) for k in links} | {("after", k.after) for k in links}
    single = [
        (when, k)
        for side, other, when in _sides(before, after)
        for k in range(len(side.detections))
        if (when, k) not in linked and _stands_out(side.detections[k], other)
    ]
    sure = {("before", k.before) for k in worth} | {("after", k.after) for k in worth} | set(single)
    identities = _identities(before, after, links)
    seen = {"before": before.detections, "after": after.detections}
    objects = tuple(
        SampleObject(when, seen[when][k].label, seen[when][k].box, (when, k) in sure, number)
        for (when, k), number in identities.items()
    )
    places = {key: n for n, key in enumerate(identities)}
    changes = []
    for link in worth:
        a, b = before.detections[link.before], after.detections[link.after]
        label = a.label if a.score >= b.score else b.label
        kind = "moved" if link.moved else "replaced"
        both = (places["before", link.before], places["after", link.after])
        changes.append(SampleChange(kind, label, 1, a.box, b.box, members=both))
    for when, k in single:
        d, own = seen[when][k], (places[when, k],)
        if when == "before":
            changes.append(SampleChange("disappeared", d.label, 1, d.box, None, members=own))
        else:
            changes.append(SampleChange("appeared", d.label, 1, None, d.box, members=own))
    return Matched(tuple(changes), objects)


def _stands_out(seen: Detection, other: Side) -> bool:
    """Whether the teacher is sure of an object, and that nothing is at its place on the other side."""
    doubtful = any(iou(seen.box, o.box) > 0.3 for o in other.detections)  # noqa: PLR2004
    return seen.score >= SURE and not doubtful


def _sides(before: Side, after: Side) -> tuple[tuple[Side, Side, Time], tuple[Side, Side, Time]]:
    return (before, after, "before"), (after, before, "after")


def _tells(before: Side, after: Side, link: _Link) -> bool:
    """Whether it is sure that a link is a change: a move, or another object at the same place."""
    weak = min(before.detections[link.before].score, after.detections[link.after].score) < SURE
    return not weak and (link.moved or _known_other(before, link.before, after, link.after))


def _identities(before: Side, after: Side, links: Sequence[_Link]) -> dict[tuple[Time, int], int]:
    """A number for every detection ``(side, k)``, see `SampleObject.identity`.

    One that is tracked to the other side shares its number; one that nothing on the other side can be, has
    a number of its own; of the rest it is not known.
    """
    numbers: dict[tuple[Time, int], int] = {}
    for link in links:
        ends: tuple[tuple[Time, int], tuple[Time, int]] = ("before", link.before), ("after", link.after)
        if _known_other(before, link.before, after, link.after):
            numbers |= {ends[0]: len(numbers), ends[1]: len(numbers) + 1}
        elif link.tracked or not link.moved:
            numbers |= dict.fromkeys(ends, len(numbers))
    known = set(numbers)
    for side, other, when in _sides(before, after):
        there: Time = "after" if when == "before" else "before"
        taken = {j for place, j in known if place == there}
        for k in range(len(side.detections)):
            if (when, k) not in numbers:
                alone = _nowhere_else(side, k, other, taken)
                numbers[when, k] = len(numbers) if alone else -1
    return {
        (when, k): numbers[when, k]
        for side, _, when in _sides(before, after)
        for k in range(len(side.detections))
    }


def _nowhere_else(side: Side, k: int, other: Side, taken: set[int]) -> bool:
    """Whether nothing on the other side, but for what is known to be something else, can be this object."""
    mine = side.detections[k]
    for j, d in enumerate(other.detections):
        alike = d.family == mine.family and growth(d.box, mine.box) < MAX_GROWN
        if alike and j not in taken and not _known_other(side, k, other, j):
            return False
    return True


def _track(side: Side, k: int) -> int | None:
    return side.tracks[k] if side.tracks else None


def _known_other(before: Side, i: int, after: Side, j: int) -> bool:
    first, second = _track(before, i), _track(after, j)
    if first is None or second is None:
        return False
    return bool({(first, second), (second, first)} & (before.together | after.together))


def _pairs(before: Side, after: Side) -> list[_Link]:
    """Links of which each detection has at most one, the surest first."""
    looks = [[colours(s.image, d.box) for d in s.detections] for s in (before, after)]
    links: list[tuple[int, float, int, int, bool]] = []
    for i, a in enumerate(before.detections):
        for j, b in enumerate(after.detections):
            if a.family != b.family or growth(a.box, b.box) > MAX_GROWN:
                continue
            first, second = _track(before, i), _track(after, j)
            way = step(a.box, b.box)
            if first is not None and first == second:
                links.append((0, way, i, j, way > 0.3))  # noqa: PLR2004
            elif iou(a.box, b.box) > 0.4:  # noqa: PLR2004
                links.append((1, way, i, j, False))
            elif not _known_other(before, i, after, j) and _plausible(a, b, looks[0][i], looks[1][j]):
                links.append((2, way, i, j, True))
    kept: list[_Link] = []
    for rank, _, i, j, moved in sorted(links):
        if all(i != k.before and j != k.after for k in kept):
            kept.append(_Link(i, j, moved, tracked=rank == 0))
    return kept


def _plausible(a: Detection, b: Detection, look_a: NDArray[np.float32], look_b: NDArray[np.float32]) -> bool:
    near = step(a.box, b.box) < 2.5 and growth(a.box, b.box) < 1.6  # noqa: PLR2004
    return a.label == b.label and near and likeness(look_a, look_b) > 0.85  # noqa: PLR2004


def covered(mask: NDArray[np.bool_], box: Box) -> int:
    """Active pixels of a mask inside a box."""
    return int(np.count_nonzero(mask[pixels(box, mask.shape)]))


def shown(changes: Sequence[SampleChange], clusters: Sequence[Cluster]) -> tuple[SampleChange, ...]:
    """The changes that meet a cluster, those of one kind and cluster told as a group.

    Args:
        changes: what is known to have changed, in the coordinates of the pair.
        clusters: what the pipeline found in the very images.

    Returns:
        Changes with counts; a change that the difference mask does not show is left out.
    """
    groups: dict[tuple[str, str, int], list[SampleChange]] = {}
    alone: list[SampleChange] = []
    for change in changes:
        boxes = [b for b in (change.box_before, change.box_after) if b is not None]
        found = [max(covered(c.mask, b) / _area(c.mask, b) for b in boxes) for c in clusters]
        best = int(np.argmax(found)) if found else -1
        if best < 0 or found[best] < MIN_MET:
            continue
        if change.type in ("appeared", "disappeared"):
            groups.setdefault((change.type, change.object, best), []).append(change)
        else:
            alone.append(change)
    alone += [_group(near) for members in groups.values() for near in _near(members)]
    return tuple(alone)


def _near(members: Sequence[SampleChange]) -> list[list[SampleChange]]:
    """Parts of a group within `MAX_APART` of each other: of scattered objects no one place is true."""
    parts: list[list[SampleChange]] = []
    for member in members:
        own = [p for p in parts if any(step(_where(member), _where(m)) < MAX_APART for m in p)]
        parts = [p for p in parts if p not in own]
        parts.append([member, *(m for p in own for m in p)])
    return parts


def _where(change: SampleChange) -> Box:
    box = change.box_after or change.box_before
    if box is None:
        raise ValueError(f"a change without a box: {change}")
    return box


def _area(mask: NDArray[np.bool_], box: Box) -> int:
    rows, columns = pixels(box, mask.shape)
    return int(rows.stop - rows.start) * int(columns.stop - columns.start)


def _group(members: Sequence[SampleChange]) -> SampleChange:
    first = members[0]
    before, after = first.box_before, first.box_after
    for other in members[1:]:
        before = union(before, other.box_before) if before and other.box_before else before
        after = union(after, other.box_after) if after and other.box_after else after
    numbers = tuple(sorted(k for m in members for k in m.members))
    count = sum(m.count for m in members)
    return replace(first, count=count, box_before=before, box_after=after, members=numbers)


def as_comparison(change: SampleChange, others: Sequence[Box]) -> SampleChange:
    """Tell a group as more or fewer where others of its kind stay near: at least one in twice its box.

    Args:
        change: a group that appeared or disappeared.
        others: boxes of unchanged objects of the same label.
    """
    box = change.box_after or change.box_before
    if box is None or change.count < 2:  # noqa: PLR2004
        return change
    x, y = centre(box)
    wide: Box = (x - box[2], y - box[3], 2 * box[2], 2 * box[3])
    if not any(intersection(wide, other) > 0 for other in others):
        return change
    return replace(change, type="more" if change.type == "appeared" else "fewer")


def explained(clusters: Sequence[Cluster], boxes: Sequence[Box], margin: float = 0.25) -> float:
    """Share 0..1 of the clusters' pixels that lies in known boxes, widened by `margin`; 1 if none."""
    if not clusters:
        return 1.0
    everything = np.logical_or.reduce([c.mask for c in clusters])
    known = np.zeros_like(everything)
    for box in boxes:
        known[pixels(box, known.shape, margin)] = True
    return float(np.sum(everything & known)) / max(float(np.sum(everything)), 1.0)


def as_objects(
    changes: Sequence[SampleChange],
) -> tuple[tuple[SampleChange, ...], tuple[SampleObject, ...]]:
    """The objects of changes that are known to the pixel, each with its identity.

    Returns:
        The changes with their members, and the objects, all of them sure.
    """
    objects: list[SampleObject] = []
    named = []
    for number, change in enumerate(changes):
        first = len(objects)
        if change.box_before is not None:
            objects.append(SampleObject("before", change.object, change.box_before, True, 2 * number))
        if change.box_after is not None:
            own = 2 * number + (change.type == "replaced")
            objects.append(SampleObject("after", change.object, change.box_after, True, own))
        named.append(replace(change, members=tuple(range(first, len(objects)))))
    return tuple(named), tuple(objects)


def seen_objects(
    objects: Sequence[SampleObject], changes: Sequence[SampleChange], clusters: Sequence[Cluster]
) -> tuple[tuple[SampleObject, ...], tuple[SampleChange, ...]]:
    """The objects as the difference mask shows them.

    An object that the mask does not show becomes unsure; an unsure one that it does not even touch is left
    out, unless a change tells it.

    Args:
        objects: what is known about the pair.
        changes: the changes that are told.
        clusters: what the pipeline found in the very images.

    Returns:
        The objects that are left, and the changes with their members renumbered.
    """
    members = {k for change in changes for k in change.members}
    kept: dict[int, SampleObject] = {}
    for k, o in enumerate(objects):
        met = max((covered(c.mask, o.box) / _area(c.mask, o.box) for c in clusters), default=0.0)
        if o.sure or met >= MIN_TOUCHED or k in members:
            kept[k] = replace(o, sure=o.sure and met >= MIN_MET)
    places = {k: n for n, k in enumerate(kept)}
    return tuple(kept.values()), renumbered(changes, places)


def renumbered(changes: Sequence[SampleChange], places: Mapping[int, int]) -> tuple[SampleChange, ...]:
    """The changes with every member at its new position; members that have none are left out."""
    return tuple(replace(c, members=tuple(places[k] for k in c.members if k in places)) for c in changes)
