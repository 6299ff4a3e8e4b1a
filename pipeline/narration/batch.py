"""From changes to what a captioner looks at: the only place where pictures become tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from models.captioner import Captioner, PairBatch
from models.grounded.inference import canvas, pixels_at
from models.sentences import Sighted
from pipeline.alignment import Shift, shift_image
from pipeline.changes import Change
from pipeline.changes.difference import resize
from pipeline.clusters import Cluster
from pipeline.narration.views import in_shares, tile_views, whole_views
from pipeline.sources import Image
from pipeline.tracking import LOW, Detections


def pair_batch(changes: Sequence[Change], captioner: Captioner) -> PairBatch:
    """Changes as the tensors of one batch.

    Args:
        changes: with at least one cluster each, all found at one size.
        captioner: which sees whole frames at one size, or views and tiles.
    """
    clusters = clusters_of([c.clusters for c in changes])
    gap_s = torch.tensor([torch.nan if c.pair.gap_s is None else c.pair.gap_s for c in changes])
    if not captioner.sees_views:
        return PairBatch(*_frames(changes, captioner.image_size), *clusters, gap_s=gap_s)
    return with_views(
        PairBatch(None, None, *clusters, gap_s=gap_s),
        [(c.pair.before.image, c.pair.after.image) for c in changes],
        [c.shift for c in changes],
        [c.clusters for c in changes],
    )


def detect(images: Sequence[Image], captioner: Captioner) -> list[Detections]:
    """The objects that a captioner's detector sees in pictures RGB uint8 ``(height, width, 3)``.

    Raises:
        TypeError: the captioner detects no objects.
    """
    if not isinstance(captioner, Sighted):
        raise TypeError(f"the captioner {captioner.name} detects no objects")
    found = captioner.see([_looked_at(image) for image in images], LOW)
    return [
        Detections.of(each.box.cpu(), each.score.cpu(), each.label.cpu(), captioner.embed(each).cpu())
        for each in found
    ]


def _looked_at(picture: Image) -> Tensor:
    return _tensor(resize(picture, canvas(*picture.shape[:2])))


def with_views(
    pairs: PairBatch,
    images: Sequence[tuple[Image, Image]],
    shifts: Sequence[Shift],
    clusters: Sequence[Sequence[Cluster]],
) -> PairBatch:
    """A batch with the views and tiles of its pairs.

    Args:
        pairs: B pairs with their clusters as tensors, and the time between where it is known.
        images: before and after of each, RGB uint8 ``(h, w, 3)``.
        shifts: of each, in pixels of the masks.
        clusters: of each, most salient first.
    """
    size = (pairs.masks.shape[2], pairs.masks.shape[3])
    views, tiles, windows, of = [], [], [], []
    for b, ((before, after), shift, own) in enumerate(zip(images, shifts, clusters, strict=True)):
        moved = in_shares(shift, size)
        pixels = pixels_at(float("nan") if pairs.gap_s is None else float(pairs.gap_s[b]))
        views.append(_tensor(whole_views(before, after, moved, pixels)))
        cut, where = tile_views(before, after, moved, own, pixels)
        tiles.append(_tensor(cut))
        windows.append(torch.from_numpy(where))
        of += [b] * len(where)
    return replace(
        pairs,
        views=tuple(views),
        tiles=torch.cat(tiles),
        tile_windows=torch.cat(windows),
        tile_pair=torch.tensor(of, dtype=torch.int64),
        images=tuple(images),
    )


def clusters_of(clusters: Sequence[Sequence[Cluster]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Masks, boxes, active pixels and which of them are valid, padded to the most of a pair."""
    most = max(len(own) for own in clusters)
    height, width = next(c for own in clusters for c in own).mask.shape
    masks = torch.zeros(len(clusters), most, height, width, dtype=torch.bool)
    boxes = torch.zeros(len(clusters), most, 4)
    active = torch.zeros(len(clusters), most)
    valid = torch.zeros(len(clusters), most, dtype=torch.bool)
    for b, own in enumerate(clusters):
        for k, cluster in enumerate(own):
            masks[b, k] = torch.from_numpy(cluster.mask)
            boxes[b, k] = torch.tensor(cluster.box)
            active[b, k] = cluster.active_pixels / (height * width)
            valid[b, k] = True
    return masks, boxes, active, valid


def aligned(
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


def _frames(changes: Sequence[Change], size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Whole frames at the captioner's size."""
    both = []
    for change in changes:
        height, width = change.clusters[0].mask.shape
        before, after = change.pair.before.image, change.pair.after.image
        both.append(aligned(before, after, change.shift, (height, width), size))
    befores, afters = zip(*both, strict=True)
    return torch.stack([*map(_tensor, befores)]), torch.stack([*map(_tensor, afters)])


def _tensor(image: Image) -> Tensor:
    """Colours before rows and columns."""
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(image, -1, -3)))
