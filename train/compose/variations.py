"""Variations of drafts: parts of the picture, mirrored, the other way round in time, and disturbed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import cv2
import numpy as np

from models.boxes import Box, area
from train.compose.differences import renumbered
from train.compose.drafts import Draft
from train.compose.nuisances import disturb, hard, mild
from train.samples import SampleChange, SampleObject

_WHOLE = 0.6
"""Least share of an object that a sub-window must show for the object to be told."""
_OPPOSITE = {"appeared": "disappeared", "disappeared": "appeared", "more": "fewer", "fewer": "more"}


def vary(draft: Draft, rng: np.random.Generator, *, grey_share: float = 0.06) -> Draft | None:
    """Random sub-window, flip, swap of before and after, mild nuisances; None if that cuts a change off."""
    if rng.random() < 0.5:  # noqa: PLR2004
        cut = window(draft, rng)
        if cut is None:
            return None
        draft = cut
    if rng.random() < 0.5:  # noqa: PLR2004
        draft = flipped(draft)
    if rng.random() < 0.5:  # noqa: PLR2004
        draft = swapped(draft)
    before, after = disturb(draft.before, mild(rng)), disturb(draft.after, mild(rng))
    if rng.random() < grey_share:
        before, after = (
            np.repeat(i.mean(axis=2, keepdims=True).astype(np.uint8), 3, 2) for i in (before, after)
        )
    return replace(draft, before=before, after=after)


def disturbed(draft: Draft, rng: np.random.Generator) -> Draft:
    """The pair with something in it that is no change but looks like one: shade, rain, a screen, foliage."""
    taken = [*(o.box for o in draft.objects), *(box for _, box in draft.standing)]
    first, second = hard(rng, taken)
    return replace(draft, before=disturb(draft.before, first), after=disturb(draft.after, second))


def swapped(draft: Draft) -> Draft:
    """The pair in the other order of time: what appeared has disappeared."""
    changes = tuple(
        replace(c, type=_OPPOSITE.get(c.type, c.type), box_before=c.box_after, box_after=c.box_before)
        for c in draft.changes
    )
    objects = tuple(replace(o, side="after" if o.side == "before" else "before") for o in draft.objects)
    return replace(draft, before=draft.after, after=draft.before, changes=changes, objects=objects)


def _moved_boxes(change: SampleChange, way: Callable[[Box], Box | None]) -> SampleChange:
    before, after = change.box_before, change.box_after
    return replace(
        change,
        box_before=None if before is None else way(before),
        box_after=None if after is None else way(after),
    )


def flipped(draft: Draft) -> Draft:
    """The pair mirrored left to right."""

    def mirror(box: Box) -> Box:
        return 1 - box[0] - box[2], box[1], box[2], box[3]

    return replace(
        draft,
        before=np.ascontiguousarray(draft.before[:, ::-1]),
        after=np.ascontiguousarray(draft.after[:, ::-1]),
        changes=tuple(_moved_boxes(c, mirror) for c in draft.changes),
        objects=tuple(replace(o, box=mirror(o.box)) for o in draft.objects),
        standing=tuple((label, mirror(box)) for label, box in draft.standing),
    )


def window(draft: Draft, rng: np.random.Generator) -> Draft | None:
    """A part of the picture, enlarged to its size; None where the window cuts through a change.

    An object of which it shows less than `_WHOLE` becomes unsure.
    """
    height, width = draft.before.shape[:2]
    scale = rng.uniform(0.6, 0.97)
    x, y = rng.uniform(0, 1 - scale, 2)
    rows = slice(round(y * height), round((y + scale) * height))
    columns = slice(round(x * width), round((x + scale) * width))

    def inside(box: Box) -> Box | None:
        left, top = max((box[0] - x) / scale, 0.0), max((box[1] - y) / scale, 0.0)
        right = min((box[0] + box[2] - x) / scale, 1.0)
        bottom = min((box[1] + box[3] - y) / scale, 1.0)
        if right <= left or bottom <= top:
            return None
        return left, top, right - left, bottom - top

    def whole(old: Box, new: Box | None) -> bool:
        return new is not None and area(new) * scale**2 > _WHOLE * area(old)

    changes = _cut_changes(draft, inside, whole)
    if changes is None:
        return None
    objects: list[SampleObject] = []
    places: dict[int, int] = {}
    for k, o in enumerate(draft.objects):
        box = inside(o.box)
        if box is not None:
            places[k] = len(objects)
            objects.append(replace(o, box=box, sure=o.sure and whole(o.box, box)))
    images = [
        np.asarray(cv2.resize(i[rows, columns], (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)
        for i in (draft.before, draft.after)
    ]
    standing = ((label, inside(box)) for label, box in draft.standing)
    return replace(
        draft,
        before=images[0],
        after=images[1],
        changes=renumbered(changes, places),
        objects=tuple(objects),
        standing=tuple((label, box) for label, box in standing if box is not None),
    )


def _cut_changes(
    draft: Draft, inside: Callable[[Box], Box | None], whole: Callable[[Box, Box | None], bool]
) -> list[SampleChange] | None:
    """The changes that a window shows whole; None where it cuts through one, or shows none of some."""
    changes = []
    for c in draft.changes:
        cut = _moved_boxes(c, inside)
        sides = ((c.box_before, cut.box_before), (c.box_after, cut.box_after))
        gone = all(new is None for _, new in sides)
        if not gone and not all(old is None or whole(old, new) for old, new in sides):
            return None
        changes += [] if gone else [cut]
    return None if draft.changes and not changes else changes
