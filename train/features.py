"""What a captioner sees of every sample, computed once and kept on disk: encoder maps and clusters.

A captioner sees whole frames (maps of 14x14 cells) or crops of every cluster (levels, see
`models.perception.crop_levels`); a cache holds either, under different names.

The encoder is frozen, so a sample's maps never change while a captioner is trained. They are kept in shards
of 64 samples. A shard is named by the hash of everything it was made from (image files, encoder weights,
change options), becomes visible by one rename, and is checked byte for byte when it is opened: a shard that
was half written, truncated or made from other images is made again, never trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from models.captioner import PairBatch
from models.encoder import Encoder, PyramidEncoder
from models.perception import crop_levels
from pipeline.alignment import Shift, shifted
from pipeline.changes import ChangeOptions, image_changes
from pipeline.clusters import Cluster
from pipeline.crops import LEAST_SIDE, MARGIN, cut_crops
from train.samples import Sample

FORMAT = 1
SHARD = 64
_ENCODED_AT_ONCE = 8
_PART_AGE_S = 24 * 3600.0
LEVELS = 4
"""Levels of a crop: three of the encoder and the colours."""
_CLUSTERS = ("masks", "boxes", "active", "counts")

Image = NDArray[np.uint8]
Progress = Callable[[int, int], None]
"""Called with the number of samples that are ready and of all samples."""


class FeatureError(Exception):
    """Features cannot be computed or kept; the message names the image or folder and says what to do."""


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """The features of up to 64 samples.

    Attributes:
        maps: float16 ``(n, 2, C, 14, 14)``, before (aligned) and after; memory-mapped; None of crops.
        levels: float16 ``(clusters, 2, C, h, w)`` each, the finest first; memory-mapped; empty of frames.
        windows: float32 ``(clusters, 4)``, of the crops; None of frames.
        masks: uint8 ``(clusters, h * w / 8)``, bit-packed cluster masks of all samples in a row.
        boxes: float32 ``(clusters, 4)``.
        active: float32 ``(clusters,)``, share of the frame.
        counts: int64 ``(n,)``, clusters of each sample.
    """

    maps: NDArray[np.float16] | None
    levels: tuple[NDArray[np.float16], ...]
    windows: NDArray[np.float32] | None
    masks: NDArray[np.uint8]
    boxes: NDArray[np.float32]
    active: NDArray[np.float32]
    counts: NDArray[np.int64]


def _names(crop_size: int | None) -> tuple[str, ...]:
    """The arrays of a shard."""
    seen = ("maps",) if crop_size is None else (*(f"level{k}" for k in range(LEVELS)), "windows")
    return (*seen, *_CLUSTERS)


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

    def batch(self, indices: Sequence[int]) -> PairBatch:
        """The samples at some positions, as one batch with known maps, clusters padded to the largest K.

        Args:
            indices: at least one position, each of a sample with clusters.

        Raises:
            ValueError: a sample has no clusters, or there are no indices.
        """
        counts = self.counts[list(indices)]
        if not len(counts) or not counts.all():
            raise ValueError("a batch takes samples with at least one cluster; leave the others out")
        height, width = self.mask_size
        most = int(counts.max())
        masks = np.zeros((len(counts), most, height, width), np.bool_)
        boxes = np.zeros((len(counts), most, 4), np.float32)
        active = np.zeros((len(counts), most), np.float32)
        maps: list[NDArray[np.float16]] = []
        windows: list[NDArray[np.float32]] = []
        levels: list[list[NDArray[np.float16]]] = [[] for _ in range(LEVELS)]
        for b, index in enumerate(indices):
            shard, rows, position = self._rows(index)
            unpacked = np.unpackbits(shard.masks[rows], axis=1, count=height * width)
            masks[b, : counts[b]] = unpacked.reshape(-1, height, width).view(np.bool_)
            boxes[b, : counts[b]] = shard.boxes[rows]
            active[b, : counts[b]] = shard.active[rows]
            if shard.maps is not None:
                maps.append(shard.maps[position])
            if shard.windows is not None:
                windows.append(shard.windows[rows])
            for own, level in zip(levels, shard.levels, strict=False):
                own.append(level[rows])
        both = torch.from_numpy(np.stack(maps)).float() if maps else None
        return PairBatch(
            before=None,
            after=None,
            masks=torch.from_numpy(masks),
            boxes=torch.from_numpy(boxes),
            active=torch.from_numpy(active),
            valid=torch.from_numpy(np.arange(most) < counts[:, None]),
            maps=None if both is None else (both[:, 0], both[:, 1]),
            windows=torch.from_numpy(np.concatenate(windows)) if windows else None,
            levels=tuple(torch.from_numpy(np.concatenate(own)) for own in levels) if windows else None,
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
    progress: Progress | None = None,
    *,
    crop_size: int | None = None,
) -> Features:
    """Features of samples: those in the cache, the others computed and added to it.

    Args:
        samples: in the order in which the features are wanted.
        encoder: gives the maps.
        options: how clusters are found.
        cache: folder of the shards; made where it does not exist.
        progress: told how many samples are ready.
        crop_size: side of the crops that the captioner looks at; None if it looks at whole frames.

    Returns:
        Features by the samples' positions; the images are compared at ``options.size``.

    Raises:
        FeatureError: an image cannot be read, or the cache cannot be written.
    """
    _sweep(cache)
    shards, keys = [], []
    for start in range(0, len(samples), SHARD):
        part = samples[start : start + SHARD]
        key = _key(part, encoder, options, crop_size)
        shard = _open(cache / key, encoder.channels, options.size, crop_size)
        if shard is None:
            ready = partial(_ready, progress, start, len(samples))
            _write(cache / key, partial(_computed, part, encoder, options, crop_size, ready))
            shard = _open(cache / key, encoder.channels, options.size, crop_size)
            if shard is None:
                raise FeatureError(
                    f"features in {cache / key} do not read back as written; check the disk of {cache}"
                )
        shards.append(shard)
        keys.append(key)
        _ready(progress, start, len(samples), len(part))
    return Features(shards, options.size, hashlib.sha256("\n".join(keys).encode()).hexdigest())


def aligned(
    before: Image, after: Image, shift: Shift, mask_size: tuple[int, int], size: tuple[int, int]
) -> list[Image]:
    """Both images at the encoder's size, before moved onto after, exactly as `pipeline.narration` does it.

    Args:
        before: RGB uint8 of any size.
        after: RGB uint8 of any size.
        shift: alignment shift in pixels of `mask_size`.
        mask_size: ``(height, width)`` at which the shift was found.
        size: ``(height, width)`` wanted.
    """
    scaled = (round(shift[0] * size[1] / mask_size[1]), round(shift[1] * size[0] / mask_size[0]))
    return [shifted(_resized(before, size), scaled), _resized(after, size)]


def read_image(path: Path) -> Image:
    """An image file as RGB uint8 ``(h, w, 3)``.

    Raises:
        FeatureError: it is missing or no image.
    """
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise FeatureError(
            f"{path} is missing or not a readable image; write it again or take out its sample"
        )
    return np.ascontiguousarray(image[..., ::-1])


def _resized(image: Image, size: tuple[int, int]) -> Image:
    height, width = size
    shrinks = image.shape[0] >= height and image.shape[1] >= width
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=way), np.uint8)


def _sweep(cache: Path) -> None:
    """Delete what runs that were killed left behind; younger parts may belong to a run at work."""
    for part in cache.glob("*.part-*"):
        if time.time() - part.stat().st_mtime > _PART_AGE_S:
            shutil.rmtree(part, ignore_errors=True)


def _ready(progress: Progress | None, start: int, whole: int, done: int) -> None:
    if progress:
        progress(start + done, whole)


def _key(samples: Sequence[Sample], encoder: Encoder, options: ChangeOptions, crop_size: int | None) -> str:
    made_from = [FORMAT, encoder.name, encoder.sha256, list(encoder.image_size), asdict(options)]
    if crop_size is not None:
        made_from.append([crop_size, MARGIN, LEAST_SIDE])
    digest = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode())
    for sample in samples:
        for path in (sample.before, sample.after):
            try:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError as error:
                raise FeatureError(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()[:32]


def _write(folder: Path, computed: Callable[[], dict[str, NDArray[np.generic]]]) -> None:
    """Compute a shard into a folder beside its place and rename it there when it is whole."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    except OSError as error:
        raise FeatureError(
            f"{folder.parent} cannot be written: {error.strerror}; choose another --cache"
        ) from error
    try:
        sums = {}
        for name, array in computed().items():
            with (part / f"{name}.npy").open("wb") as file:
                np.save(file, array)
                file.flush()
                os.fsync(file.fileno())
            sums[name] = zlib.crc32(np.ascontiguousarray(array).data)
        (part / "sums.json").write_text(json.dumps(sums), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one, or there would be no need to write
        part.replace(folder)
    except OSError as error:
        raise FeatureError(
            f"features cannot be kept in {folder.parent}: {error.strerror}; free some space"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _computed(
    samples: Sequence[Sample],
    encoder: Encoder,
    options: ChangeOptions,
    crop_size: int | None,
    ready: Callable[[int], None],
) -> dict[str, NDArray[np.generic]]:
    found: list[tuple[Cluster, ...]] = []
    maps: list[NDArray[np.float16]] = []
    levels: list[list[NDArray[np.float16]]] = [[] for _ in range(LEVELS)]
    windows: list[NDArray[np.float32]] = []
    for start in range(0, len(samples), _ENCODED_AT_ONCE):
        images = []
        for sample in samples[start : start + _ENCODED_AT_ONCE]:
            before, after = read_image(sample.before), read_image(sample.after)
            shift, clusters, _ = image_changes(before, after, options)
            found.append(clusters)
            if crop_size is None:
                images += aligned(before, after, shift, options.size, encoder.image_size)
            elif clusters:
                crops, where = cut_crops(before, after, shift, clusters, crop_size)
                windows.append(where)
                for own, level in zip(levels, _levels(encoder, crops), strict=True):
                    own.append(level)
        if images:
            pictures = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()
            encoded = encoder(pictures).numpy().astype(np.float16)
            maps.append(encoded.reshape(-1, 2, *encoded.shape[1:]))
        ready(len(found))
    every = [c for clusters in found for c in clusters]
    pixels = options.size[0] * options.size[1]
    packed = [np.packbits(c.mask.reshape(-1)) for c in every]
    seen: dict[str, NDArray[np.generic]]
    if crop_size is None:
        seen = {"maps": np.concatenate(maps)}
    else:
        blank = _levels(encoder, np.zeros((1, 2, crop_size, crop_size, 3), np.uint8))
        whole = [np.concatenate([empty[:0], *own]) for empty, own in zip(blank, levels, strict=True)]
        seen = {f"level{k}": level for k, level in enumerate(whole)}
        seen["windows"] = np.concatenate([np.zeros((0, 4), np.float32), *windows])
    return {
        **seen,
        "masks": np.array(packed, np.uint8).reshape(len(every), (pixels + 7) // 8),
        "boxes": np.array([c.box for c in every], np.float32).reshape(-1, 4),
        "active": np.array([c.active_pixels / pixels for c in every], np.float32),
        "counts": np.array([len(clusters) for clusters in found], np.int64),
    }


def _levels(encoder: Encoder, crops: NDArray[np.uint8]) -> list[NDArray[np.float16]]:
    """Levels of crops uint8 ``(K, 2, S, S, 3)``, half precision."""
    if not isinstance(encoder, PyramidEncoder):
        raise FeatureError(f"encoder {encoder.name} gives no maps of crops; take efficientnet_lite0")
    levels = crop_levels(encoder, torch.from_numpy(crops).permute(0, 1, 4, 2, 3))
    return [level.numpy().astype(np.float16) for level in levels]


def _open(folder: Path, channels: int, mask_size: tuple[int, int], crop_size: int | None) -> Shard | None:
    """The shard, if it is there, whole and unchanged since it was written."""
    try:
        sums = json.loads((folder / "sums.json").read_text(encoding="utf-8"))
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r" if name[:-1] in ("map", "level") else None)
            for name in _names(crop_size)
        }
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(sums, dict) or any(zlib.crc32(a.data) != sums.get(n) for n, a in arrays.items()):
        return None
    levels = tuple(arrays[f"level{k}"] for k in range(LEVELS)) if crop_size is not None else ()
    clusters = {name: arrays[name] for name in _CLUSTERS}
    shard = Shard(arrays.get("maps"), levels, arrays.get("windows"), **clusters)
    packed = (mask_size[0] * mask_size[1] + 7) // 8
    fits = shard.masks.shape[1] == packed and all(len(each) == len(shard.boxes) for each in levels)
    if shard.maps is not None:
        fits &= shard.maps.shape == (len(shard.counts), 2, channels, 14, 14)
    return shard if fits else None
