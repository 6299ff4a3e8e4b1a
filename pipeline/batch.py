"""From changes to what a captioner looks at: the only place where pictures become tensors."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import torch
from torch import Tensor

from models.captioner import Captioner, PairBatch
from pipeline.alignment import shifted
from pipeline.changes import Change
from pipeline.crops import cut_crops
from pipeline.sources import Image
from pipeline.tracks import point_tracks


def pair_batch(changes: Sequence[Change], captioner: Captioner) -> PairBatch:
    """Changes as the tensors of one batch.

    Args:
        changes: with at least one cluster each, all found at one size.
        captioner: which looks at whole frames or at crops of the clusters.
    """
    most = max(len(c.clusters) for c in changes)
    height, width = changes[0].clusters[0].mask.shape
    masks = torch.zeros(len(changes), most, height, width, dtype=torch.bool)
    boxes = torch.zeros(len(changes), most, 4)
    active = torch.zeros(len(changes), most)
    valid = torch.zeros(len(changes), most, dtype=torch.bool)
    for b, change in enumerate(changes):
        for k, cluster in enumerate(change.clusters):
            masks[b, k] = torch.from_numpy(cluster.mask)
            boxes[b, k] = torch.tensor(cluster.box)
            active[b, k] = cluster.active_pixels / (height * width)
            valid[b, k] = True
    clusters = (masks, boxes, active, valid)
    if captioner.crop_size is None:
        return PairBatch(*_frames(changes, captioner.image_size), *clusters)
    crops, windows = _crops(changes, captioner.crop_size)
    return PairBatch(None, None, *clusters, crops=crops, windows=windows, tracks=_tracks(changes))


def _frames(changes: Sequence[Change], size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Whole frames at the captioner's size."""
    before = torch.stack([_tensor(_aligned(c, size)) for c in changes])
    after = torch.stack([_tensor(_resized(c.pair.after.image, size)) for c in changes])
    return before, after


def _crops(changes: Sequence[Change], size: int) -> tuple[Tensor, Tensor]:
    """Crops of every cluster of all changes in a row, and their windows."""
    cut = [cut_crops(c.pair.before.image, c.pair.after.image, c.shift, c.clusters, size) for c in changes]
    crops = torch.from_numpy(np.concatenate([crops for crops, _ in cut]))
    return crops.permute(0, 1, 4, 2, 3), torch.from_numpy(np.concatenate([windows for _, windows in cut]))


def _tracks(changes: Sequence[Change]) -> Tensor | None:
    """Points followed through the frames in between, padded; None where no pair has such frames."""
    each = [point_tracks(c.pair, c.clusters) for c in changes]
    most = max(len(tracks) for tracks in each)
    if not most:
        return None
    padded = torch.full((len(each), most, 6), torch.nan)
    for b, tracks in enumerate(each):
        padded[b, : len(tracks)] = torch.from_numpy(tracks)
    return padded


def _aligned(change: Change, size: tuple[int, int]) -> Image:
    """The before image at the captioner's size, moved onto the after image."""
    mask = change.clusters[0].mask
    dx, dy = change.shift
    scaled = (round(dx * size[1] / mask.shape[1]), round(dy * size[0] / mask.shape[0]))
    return shifted(_resized(change.pair.before.image, size), scaled)


def _resized(image: Image, size: tuple[int, int]) -> Image:
    height, width = size
    shrinks = image.shape[0] >= height and image.shape[1] >= width
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=way), np.uint8)


def _tensor(image: Image) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
