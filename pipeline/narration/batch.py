"""From changes to what a captioner looks at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.captioner import Captioner, PairInput
from models.grounded.inference import canvas, pixels_at
from models.sentences import Sighted
from pipeline.alignment import Shift, shift_image
from pipeline.changes import Change
from pipeline.changes.difference import resize
from pipeline.clusters import Cluster
from pipeline.narration.views import in_shares, tile_views, whole_views
from pipeline.sources import Image
from pipeline.tracking import LOW, Detections


def pair_input(change: Change, captioner: Captioner) -> PairInput:
    """A change with at least one cluster, as whole frames of one size or as views and tiles."""
    gap_s = float("nan") if change.pair.gap_s is None else change.pair.gap_s
    images = change.pair.before.image, change.pair.after.image
    if captioner.sees_views:
        return with_views(images, change.shift, change.clusters, gap_s)
    height, width = change.clusters[0].mask.shape
    views = align_images(*images, change.shift, (height, width), captioner.image_size)
    return PairInput(np.stack(views), *_arrays(change.clusters), gap_s)


def with_views(
    images: tuple[Image, Image], shift: Shift, clusters: Sequence[Cluster], gap_s: float = float("nan")
) -> PairInput:
    """A pair with its views and tiles.

    Args:
        images: before and after, RGB uint8 ``(h, w, 3)``.
        shift: in pixels of the masks.
        clusters: most salient first.
        gap_s: seconds between, NaN where that is not known.
    """
    masks, boxes, active = _arrays(clusters)
    moved, pixels = in_shares(shift, (masks.shape[1], masks.shape[2])), pixels_at(gap_s)
    tiles, windows = tile_views(*images, moved, clusters, pixels)
    return PairInput(whole_views(*images, moved, pixels), masks, boxes, active, gap_s, tiles, windows, images)


def _arrays(
    clusters: Sequence[Cluster],
) -> tuple[NDArray[np.bool_], NDArray[np.float32], NDArray[np.float32]]:
    masks = np.stack([cluster.mask for cluster in clusters])
    active = np.array([cluster.active_pixels for cluster in clusters], np.float32) / masks[0].size
    return masks, np.array([cluster.box for cluster in clusters], np.float32), active


def detect(images: Sequence[Image], captioner: Captioner) -> list[Detections]:
    """The objects that a captioner's detector sees in pictures RGB uint8 ``(height, width, 3)``.

    Raises:
        TypeError: the captioner detects no objects.
    """
    if not isinstance(captioner, Sighted):
        raise TypeError(f"the captioner {captioner.name} detects no objects")
    found = captioner.see([resize(image, canvas(*image.shape[:2])) for image in images], LOW)
    return [Detections.of(each.box, each.score, each.label, captioner.embed(each)) for each in found]


def align_images(
    before: Image, after: Image, shift: Shift, mask_size: tuple[int, int], size: tuple[int, int]
) -> tuple[Image, Image]:
    """Both images at a captioner's size, before moved onto after; in training as in narrating.

    Args:
        before: RGB uint8 of any size.
        after: RGB uint8 of any size.
        shift: alignment shift in pixels of `mask_size`.
        mask_size: ``(height, width)`` at which the shift was found.
        size: ``(height, width)`` wanted.
    """
    scaled = (round(shift[0] * size[1] / mask_size[1]), round(shift[1] * size[0] / mask_size[0]))
    return shift_image(resize(before, size), scaled), resize(after, size)
