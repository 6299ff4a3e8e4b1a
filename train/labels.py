"""What changed between two frames, from what the teacher sees on both, and what of it the pixels show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.clusters import Cluster
from train.identity import colours, growth, likeness, step
from train.objects import pixels
from train.samples import Box, SampleChange
from train.teacher import Detection, centre, intersection, iou, union

Image = NDArray[np.uint8]

SURE = 0.45
"""Least score of a detection about which a sentence is said."""
MAX_APART = 2.5
"""Largest distance, in the objects' sizes, at which two objects are told as a group."""
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
        changes: the changes that the teacher is sure of.
        unsure: boxes in which something may differ that is not among `changes`.
    """

    changes: tuple[SampleChange, ...]
    unsure: tuple[Box, ...]


def match(before: Side, after: Side) -> Matched:
    """Compare two frames by what the teacher sees on them.

    The same object at the same place is no change. The same object elsewhere (same track; without one,
    near, of like size and colour) has moved. What is left has appeared or disappeared. Another object of
    the same family at the same place has replaced the first, where the tracks say so.
    """
    same = _pairs(before, after)
    changes: list[SampleChange] = []
    unsure: list[Box] = []
    for i, j, moved in same:
        a, b = before.detections[i], after.detections[j]
        weak = min(a.score, b.score) < SURE
        label = a.label if a.score >= b.score else b.label
        if moved and not weak:
            changes.append(SampleChange("moved", label, 1, a.box, b.box))
        elif _known_other(before, i, after, j):
            kind = SampleChange("replaced", label, 1, a.box, b.box)
            changes += [] if weak else [kind]
            unsure += [a.box, b.box] if weak else []
        else:
            unsure += [a.box, b.box]
    lost = set(range(len(before.detections))) - {i for i, _, _ in same}
    new = set(range(len(after.detections))) - {j for _, j, _ in same}
    for side, other, left in ((before, after, lost), (after, before, new)):
        for k in sorted(left):
            d = side.detections[k]
            doubtful = any(iou(d.box, o.box) > 0.3 for o in other.detections)  # noqa: PLR2004
            if d.score < SURE or doubtful:
                unsure.append(d.box)
            else:
                gone = side is before
                boxes = (d.box, None) if gone else (None, d.box)
                changes.append(SampleChange("disappeared" if gone else "appeared", d.label, 1, *boxes))
    return Matched(tuple(changes), tuple(unsure))


def _track(side: Side, k: int) -> int | None:
    return side.tracks[k] if side.tracks else None


def _known_other(before: Side, i: int, after: Side, j: int) -> bool:
    first, second = _track(before, i), _track(after, j)
    return first is not None and second is not None and (first, second) in before.together


def _pairs(before: Side, after: Side) -> list[tuple[int, int, bool]]:
    """Links ``(before, after, moved)``, each detection at most once, the surest links first."""
    looks = [[colours(s.image, d.box) for d in s.detections] for s in (before, after)]
    links: list[tuple[int, float, int, int, bool]] = []
    for i, a in enumerate(before.detections):
        for j, b in enumerate(after.detections):
            if a.family != b.family or growth(a.box, b.box) > 2.5:  # noqa: PLR2004
                continue
            first, second = _track(before, i), _track(after, j)
            way = step(a.box, b.box)
            if first is not None and first == second:
                links.append((0, way, i, j, way > 0.3))  # noqa: PLR2004
            elif iou(a.box, b.box) > 0.4:  # noqa: PLR2004
                links.append((1, way, i, j, False))
            elif not _known_other(before, i, after, j) and _plausible(a, b, looks[0][i], looks[1][j]):
                links.append((2, way, i, j, True))
    kept: list[tuple[int, int, bool]] = []
    for _, _, i, j, moved in sorted(links):
        if all(i != x and j != y for x, y, _ in kept):
            kept.append((i, j, moved))
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
    return replace(first, count=sum(m.count for m in members), box_before=before, box_after=after)


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
