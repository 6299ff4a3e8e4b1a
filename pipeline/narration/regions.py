"""Detection where a camera's picture has changed, and in the whole picture now and then.

The same pixels show the same objects. So a picture is compared, block by block, with how each pixel was when
it was last looked at. The detector sees rectangles around what has changed and the objects there; of what
lies elsewhere the earlier detections stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import cv2
import numpy as np
from numpy.typing import NDArray

from models.detections import Detections, shared_areas
from pipeline import settings
from pipeline.sources import Image

_CELL = 32  # pixels: sides of what the detector sees are multiples of it

_Corners = NDArray[np.float64]
"""``(N, 4)``, left, top, right and bottom in pixels."""


@dataclass(eq=False)
class RegionDetector:
    """What was last detected of one camera."""

    seen: Image | None = None  # each pixel as it was when it was last looked at
    found: Detections | None = None
    looks: int = 0  # since the whole picture was looked at

    def detect(self, image: Image, see: Callable[[Image], Detections]) -> Detections:
        """The objects of its next picture, RGB uint8 ``(h, w, 3)``, sides multiples of 32."""
        self.looks += 1
        due = self.looks >= settings.WHOLE_EVERY
        if self.seen is None or self.found is None or self.seen.shape != image.shape or due:
            return self._see_whole(image, see)
        size = np.array(image.shape[1::-1])
        known = _corners(self.found, size)
        rim = np.multiply(settings.BLOCK_PIXELS, (-1, -1, 1, 1))
        strong = known[self.found.score >= settings.SURE_SCORE] + rim
        regions = _grow(_changed(image, self.seen), strong, size)
        if _areas(regions).sum() > settings.WHOLE_SHARE * size.prod():
            return self._see_whole(image, see)
        parts, stays = list[Detections](), np.ones(len(known), np.bool_)
        for region in regions:
            left, top, right, bottom = region.astype(int)
            part = see(np.ascontiguousarray(image[top:bottom, left:right]))
            box = part.box * np.tile(region[2:] - region[:2], 2) + [left, top, 0, 0]
            part = replace(part, box=(box / np.tile(size, 2)).astype(np.float32))
            inside = _lie_inside(_corners(part, size), region, size)
            cut = part.box[~inside & (part.score >= settings.SURE_SCORE)]
            least = settings.SAME_OBJECT_SHARE * cut[:, 2:].prod(1)[:, None]
            is_known = shared_areas(cut, self.found.box) > least
            if not is_known.any(1).all():  # what reaches further was not known
                return self._see_whole(image, see)
            parts.append(part.select(inside))
            stays &= ~_lie_inside(known, region, size)
        self.found = _join([self.found.select(stays), *parts])
        for left, top, right, bottom in regions.astype(int):
            self.seen[top:bottom, left:right] = image[top:bottom, left:right]
        return self.found

    def _see_whole(self, image: Image, see: Callable[[Image], Detections]) -> Detections:
        self.found, self.seen, self.looks = see(image), image.copy(), 0
        return self.found


def _changed(image: Image, seen: Image) -> _Corners:
    """Rectangles around the blocks that have changed."""
    height, width = image.shape[:2]
    block = settings.BLOCK_PIXELS
    small = width // block, height // block
    difference = cv2.resize(cv2.absdiff(image, seen), small, interpolation=cv2.INTER_AREA).max(2)
    changed = (cv2.blur(difference, (3, 3)) > settings.BLOCK_LEVELS).astype(np.uint8)
    around = cv2.dilate(changed, np.ones((5, 5)))
    left, top, wide, high, _ = cv2.connectedComponentsWithStats(around)[2][1:].T * float(block)
    return np.stack([left, top, left + wide, top + high], axis=1)


def _grow(regions: _Corners, objects: _Corners, size: NDArray[np.int64]) -> _Corners:
    """Regions that cut no object and do not overlap, and fewer where that is less to look at."""
    while True:
        grown = [_hull(region, objects[_meet(region, objects)]) for region in regions]
        grown = [_snap(region, size) for region in grown]
        while pair := next((p for p in combinations(range(len(grown)), 2) if _belong(*p, grown, size)), None):
            second, first = grown.pop(pair[1]), grown.pop(pair[0])
            grown.append(_hull(first, second[None]))
        larger = np.array(grown).reshape(-1, 4)
        if larger.shape == regions.shape and (larger == regions).all():
            return regions
        regions = larger


def _belong(i: int, j: int, regions: list[_Corners], size: NDArray[np.int64]) -> bool:
    one, two = regions[i], regions[j]
    areas = _areas(np.stack([one, two, _hull(one, two[None])]))
    most = areas[0] + areas[1] + settings.REGION_COST_SHARE * size.prod()
    return bool(_meet(one, two[None])[0]) or areas[2] < most


def _snap(region: _Corners, size: NDArray[np.int64]) -> _Corners:
    low = np.maximum(region[:2], 0) // _CELL * _CELL
    return np.concatenate([low, np.minimum(np.ceil(region[2:] / _CELL) * _CELL, size)])


def _hull(region: _Corners, others: _Corners) -> _Corners:
    both = np.concatenate([region[None], others])
    return np.concatenate([both[:, :2].min(0), both[:, 2:].max(0)])


def _areas(regions: _Corners) -> NDArray[np.float64]:
    return np.asarray((regions[:, 2:] - regions[:, :2]).prod(1))


def _meet(region: _Corners, others: _Corners) -> NDArray[np.bool_]:
    return np.asarray(((others[:, 2:] > region[:2]) & (others[:, :2] < region[2:])).all(1))


def _lie_inside(boxes: _Corners, region: _Corners, size: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which boxes reach no edge of a region but those that are the picture's as well."""
    low = (boxes[:, :2] >= region[:2] + settings.REGION_EDGE_PIXELS) | (region[:2] <= 0)
    high = (boxes[:, 2:] <= region[2:] - settings.REGION_EDGE_PIXELS) | (region[2:] >= size)
    return np.asarray((low & high).all(1))


def _corners(found: Detections, size: NDArray[np.int64]) -> _Corners:
    box = found.box.astype(np.float64) * np.tile(size, 2)
    return np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)


def _join(parts: list[Detections]) -> Detections:
    columns = [
        np.concatenate([getattr(p, name) for p in parts]) for name in ("box", "score", "label", "feature")
    ]
    order = np.argsort(-columns[1], kind="stable")
    return Detections(*(column[order] for column in columns))
