"""What a captioner sees of every sample, computed once and kept on disk: encoder maps and clusters.

A captioner sees maps of 14x14 cells. One that needs the images themselves gets them from the cache, too:
aligned, at the encoder's size.

The encoder is frozen, so a sample's maps never change while a captioner is trained. They are kept in shards
of 64 samples. A shard is named by the hash of everything it was made from (image files, encoder weights,
change options), becomes visible by one rename, and is checked byte for byte: a shard that was half written,
truncated or made from other images is made again, never trusted. Files that stay as they are, images and
shards, are read for that once and not at every start.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from models.captioner import PairBatch
from models.encoders.encoder import Encoder
from pipeline.changes import ChangeOptions, image_changes
from pipeline.clusters import Cluster
from pipeline.narration.batch import aligned
from pipeline.sources import Image
from train.learning.file_hashes import FileHashes
from train.learning.lookahead import done_ahead
from train.learning.shards import SHARD, FeatureError, Shard, ShardContent, open_shard, sweep, write_shard
from train.progress import Count
from train.samples import Sample, image_in

__all__ = ["FeatureError", "Features", "read_image", "sample_features"]

FORMAT = 1
_ENCODED_AT_ONCE = 8
_READERS = min(os.cpu_count() or 1, 8)
"""Threads that read images for an encoder on another device; on the CPU it has the cores for itself."""


class Features:
    """Maps and clusters of a list of samples, by position.

    Attributes:
        counts: int64 ``(N,)``, number of clusters of each sample; 0 where nothing differs.
        mask_size: ``(height, width)`` of the masks.
        sha256: hash over what the features were made from: images, encoder, options.
    """

    def __init__(self, shards: Sequence[Shard], mask_size: tuple[int, int], sha256: str) -> None:
        self._shards = tuple(shards)
        self._starts = tuple(np.concatenate([[0], np.cumsum(s.counts)]) for s in shards)
        self.counts: NDArray[np.int64] = np.concatenate([s.counts for s in shards] or [np.zeros(0, np.int64)])
        self.mask_size = mask_size
        self.sha256 = sha256

    def __len__(self) -> int:
        return len(self.counts)

    def boxes(self, index: int) -> NDArray[np.float32]:
        """Boxes of one sample's clusters, float32 ``(K, 4)``, in 0..1."""
        shard, rows, _ = self._rows(index)
        return shard.boxes[rows]

    def active(self, index: int) -> NDArray[np.float32]:
        """Active pixels of one sample's clusters, float32 ``(K,)``, as shares of the frame."""
        shard, rows, _ = self._rows(index)
        return shard.active[rows]

    def batch(self, indices: Sequence[int], *, whole: bool = False) -> PairBatch:
        """The samples at some positions, as one batch with known maps, clusters padded to the largest K.

        Maps are float16, as they are kept. Masks have no pixels where they are not looked at.

        Args:
            indices: at least one position, each of a sample with clusters.
            whole: also take samples without clusters, for a captioner that sees pairs as a whole.

        Raises:
            ValueError: a sample has no clusters, or there are no indices.
        """
        counts = self.counts[list(indices)]
        if not len(counts) or not (whole or counts.all()):
            raise ValueError("a batch takes samples with at least one cluster; leave the others out")
        looked_at = self._shards[0].masks is not None
        height, width = self.mask_size if looked_at else (0, 0)
        most = int(counts.max())
        masks = np.zeros((len(counts), most, height, width), np.bool_)
        boxes = np.zeros((len(counts), most, 4), np.float32)
        active = np.zeros((len(counts), most), np.float32)
        maps: list[NDArray[np.float16]] = []
        images: list[NDArray[np.uint8]] = []
        for b, index in enumerate(indices):
            shard, rows, position = self._rows(index)
            if shard.masks is not None:
                unpacked = np.unpackbits(shard.masks[rows], axis=1, count=height * width)
                masks[b, : counts[b]] = unpacked.reshape(-1, height, width).view(np.bool_)
            boxes[b, : counts[b]] = shard.boxes[rows]
            active[b, : counts[b]] = shard.active[rows]
            maps.append(shard.maps[position])
            if shard.images is not None:
                images.append(shard.images[position])
        both = torch.from_numpy(np.stack(maps))
        seen = torch.from_numpy(np.stack(images)) if images else None
        return PairBatch(
            before=None if seen is None else seen[:, 0],
            after=None if seen is None else seen[:, 1],
            masks=torch.from_numpy(masks),
            boxes=torch.from_numpy(boxes),
            active=torch.from_numpy(active),
            valid=torch.from_numpy(np.arange(most) < counts[:, None]),
            maps=(both[:, 0], both[:, 1]),
        )

    def _rows(self, index: int) -> tuple[Shard, slice, int]:
        number, position = divmod(index, SHARD)
        starts = self._starts[number]
        return self._shards[number], slice(int(starts[position]), int(starts[position + 1])), position


def sample_features(
    samples: Sequence[Sample],
    encoder: Encoder,
    options: ChangeOptions,
    cache: Path,
    progress: Count | None = None,
    *,
    images: bool = False,
    masks: bool = True,
) -> Features:
    """Features of samples: those in the cache, the others computed and added to it.

    Args:
        samples: in the order in which the features are wanted.
        encoder: gives the maps.
        options: how clusters are found.
        cache: folder of the shards; made where it does not exist.
        progress: told how many samples are ready.
        images: keep the images, too, for a captioner that needs them.
        masks: open the clusters' masks; False for a captioner that does not look at them.

    Returns:
        Features by the samples' positions; the images are compared at ``options.size``.

    Raises:
        FeatureError: an image cannot be read, or the cache cannot be written.
    """
    sweep(cache)
    seen, hashes = ShardContent(images, masks), FileHashes(cache)
    shards, keys = [], []
    for start in range(0, len(samples), SHARD):
        part = samples[start : start + SHARD]
        key = _key(part, encoder, options, seen, hashes)
        opened = partial(open_shard, cache / key, seen, encoder.channels, options.size)
        shard = opened()
        if shard is None:
            ready = partial(_ready, progress, start, len(samples))
            write_shard(cache / key, partial(_computed, part, encoder, options, seen, ready))
            shard = opened()
            if shard is None:
                raise FeatureError(
                    f"features in {cache / key} do not read back as written; check the disk of {cache}"
                )
        shards.append(shard)
        keys.append(key)
        _ready(progress, start, len(samples), len(part))
    hashes.keep()
    return Features(shards, options.size, hashlib.sha256("\n".join(keys).encode()).hexdigest())


def read_image(path: Path) -> Image:
    """An image file as RGB uint8 ``(h, w, 3)``.

    Raises:
        FeatureError: it is missing or no image.
    """
    image = image_in(path)
    if image is None:
        raise FeatureError(
            f"{path} is missing or not a readable image; write it again or take out its sample"
        )
    return image


def _ready(progress: Count | None, start: int, whole: int, done: int) -> None:
    if progress:
        progress(start + done, whole)


def _key(
    samples: Sequence[Sample],
    encoder: Encoder,
    options: ChangeOptions,
    seen: ShardContent,
    hashes: FileHashes,
) -> str:
    made_from = [FORMAT, encoder.name, encoder.sha256, list(encoder.image_size), asdict(options)]
    if seen.images:
        made_from.append("images")
    digest = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode())
    for sample in samples:
        for path in (sample.before, sample.after):
            try:
                digest.update(hashes.sha256(path))
            except OSError as error:
                raise FeatureError(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()[:32]


def _looked_at(
    sample: Sample, size: tuple[int, int], options: ChangeOptions
) -> tuple[tuple[Cluster, ...], Sequence[Image]]:
    """What changed in a sample, and its frames, before aligned."""
    before, after = read_image(sample.before), read_image(sample.after)
    shift, clusters, _ = image_changes(before, after, options)
    return clusters, aligned(before, after, shift, options.size, size)


def _computed(
    samples: Sequence[Sample],
    encoder: Encoder,
    options: ChangeOptions,
    seen: ShardContent,
    ready: Callable[[int], None],
) -> dict[str, NDArray[np.generic]]:
    found: list[tuple[Cluster, ...]] = []
    maps: list[NDArray[np.float16]] = []
    kept: list[NDArray[np.uint8]] = []
    looks = [partial(_looked_at, sample, encoder.image_size, options) for sample in samples]
    looked = done_ahead(looks, _READERS if encoder.device.type != "cpu" else 0)
    while some := list(islice(looked, _ENCODED_AT_ONCE)):
        found += [clusters for clusters, _ in some]
        images = [image for _, pair in some for image in pair]
        pictures = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()
        encoded = encoder(pictures.to(encoder.device)).cpu().numpy().astype(np.float16)
        maps.append(encoded.reshape(-1, 2, *encoded.shape[1:]))
        if seen.images:
            kept.append(pictures.numpy().reshape(-1, 2, *pictures.shape[1:]))
        ready(len(found))
    every = [c for clusters in found for c in clusters]
    pixels = options.size[0] * options.size[1]
    packed = [np.packbits(c.mask.reshape(-1)) for c in every]
    return {
        "maps": np.concatenate(maps),
        **({"images": np.concatenate(kept)} if kept else {}),
        "masks": np.array(packed, np.uint8).reshape(len(every), (pixels + 7) // 8),
        "boxes": np.array([c.box for c in every], np.float32).reshape(-1, 4),
        "active": np.array([c.active_pixels / pixels for c in every], np.float32),
        "counts": np.array([len(clusters) for clusters in found], np.int64),
    }
