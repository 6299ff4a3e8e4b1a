"""What a captioner and its detector look at: pairs of frames, and what has changed in a camera's picture.

The same pixels show the same objects. So a picture is compared, block by block, with how each pixel was when
it was last looked at. The detector sees rectangles around what has changed and the objects there; of what
lies elsewhere the earlier detections stand. The whole picture is looked at now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import cv2
import numpy as np
from numpy.typing import NDArray

from models.captioner import Captioner, PairInput
from models.detections import Detections, shared_areas
from models.grounded.inference import canvas, pixels_at
from models.grounded.settings import SETTINGS
from pipeline import settings
from pipeline.changes import Change
from pipeline.changes.clusters import Cluster
from pipeline.changes.difference import Shift, reduce_image, resize, shift_image
from pipeline.sources import Image


def pair_input(change: Change, captioner: Captioner) -> PairInput:
    """A change with at least one cluster, as frames of one size or as views."""
    gap_s = float("nan") if change.pair.gap_s is None else change.pair.gap_s
    images = change.pair.before.image, change.pair.after.image
    if captioner.sees_views:
        return with_views(images, change.shift, change.clusters, gap_s)
    height, width = change.clusters[0].mask.shape
    aligned = align_images(*images, change.shift, (height, width), captioner.image_size)
    return PairInput(np.stack(aligned), *_arrays(change.clusters), gap_s)


def with_views(
    images: tuple[Image, Image], shift: Shift, clusters: Sequence[Cluster], gap_s: float = float("nan")
) -> PairInput:
    """A pair with its views: frames at the size at which the detector sees them.

    Images are RGB uint8 ``(h, w, 3)``; `shift` is in pixels of the masks; `clusters` are most salient first.
    """
    masks, boxes, active = _arrays(clusters)
    moved = shift[0] / masks.shape[2], shift[1] / masks.shape[1]
    return PairInput(views(*images, moved, pixels_at(gap_s)), masks, boxes, active, gap_s, images)


def views(
    before: Image, after: Image, shift: tuple[float, float], pixels: int = SETTINGS.pixels
) -> NDArray[np.uint8]:
    """Both frames, before laid on after, uint8 ``(2, h, w, 3)``, see `models.grounded.inference.canvas`.

    They are RGB uint8 ``(h, w, 3)`` of one size; `shift` is in shares of the frame, `pixels` about a view's.
    """
    size = canvas(after.shape[0], after.shape[1], pixels)
    return np.stack([_view(before, size, shift), _view(after, size, (0.0, 0.0))])


def _view(image: Image, size: tuple[int, int], moved: tuple[float, float]) -> Image:
    """An image whose content is moved by shares of the frame, at ``(height, width)``."""
    height, width = image.shape[:2]
    if moved == (0.0, 0.0):
        if height * width > size[0] * size[1]:
            return reduce_image(image, size)
        return np.asarray(cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_LINEAR), np.uint8)
    left, top = -moved[0] * width, -moved[1] * height
    scale_x, scale_y = size[1] / width, size[0] / height
    blur = (max(1, round(1 / scale_x)), max(1, round(1 / scale_y)))
    if blur != (1, 1):  # bilinear sampling alone would drop thin things
        x0, y0 = max(int(left) - blur[0], 0), max(int(top) - blur[1], 0)
        x1, y1 = int(left + width) + blur[0] + 1, int(top + height) + blur[1] + 1
        image = np.asarray(cv2.blur(image[y0:y1, x0:x1], blur), np.uint8)
        left, top = left - x0, top - y0
    matrix = np.array(
        [[scale_x, 0, (0.5 - left) * scale_x - 0.5], [0, scale_y, (0.5 - top) * scale_y - 0.5]], np.float32
    )
    return np.asarray(
        cv2.warpAffine(image, matrix, (size[1], size[0]), borderMode=cv2.BORDER_REPLICATE), np.uint8
    )


def _arrays(
    clusters: Sequence[Cluster],
) -> tuple[NDArray[np.bool_], NDArray[np.float32], NDArray[np.float32]]:
    masks = np.stack([cluster.mask for cluster in clusters])
    active = np.array([cluster.active_pixels for cluster in clusters], np.float32) / masks[0].size
    return masks, np.array([cluster.box for cluster in clusters], np.float32), active


def detect(
    images: Sequence[Image], captioner: Captioner, cameras: Sequence[RegionDetector] = ()
) -> list[Detections]:
    """What a captioner sees in pictures RGB uint8 ``(h, w, 3)``, embedded; TypeError where it cannot.

    Of `cameras`, one for each picture, the detector sees only what has changed.
    """

    def see(seen: Sequence[Image]) -> list[Detections]:
        found = captioner.see(seen, settings.LEAST_SCORE)
        return [replace(each, feature=captioner.embed(each)) for each in found]

    pictures = [resize(image, canvas(*image.shape[:2])) for image in images]
    if not cameras:
        return see(pictures)
    return [
        camera.detect(picture, lambda region: see([region])[0])
        for picture, camera in zip(pictures, cameras, strict=True)
    ]


def align_images(
    before: Image, after: Image, shift: Shift, mask_size: tuple[int, int], size: tuple[int, int]
) -> tuple[Image, Image]:
    """Both images, RGB uint8, at a captioner's `size`, before moved onto after; in training as in narrating.

    Sizes are ``(height, width)``; the shift is in pixels of `mask_size`.
    """
    scaled = (round(shift[0] * size[1] / mask_size[1]), round(shift[1] * size[0] / mask_size[0]))
    return shift_image(resize(before, size), scaled), resize(after, size)


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
