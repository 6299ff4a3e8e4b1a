"""Encoder maps and clusters of every sample, computed once and kept on disk, one file a pair.

The encoder is frozen, so a sample's maps do not change while a captioner is trained. A file is named by the
hash of what it was made from (both images, encoder weights, change options) and appears by one rename; one
that does not read is made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from models.checkpoint import write_atomically
from models.encoders.encoder import Encoder
from models.papers.pair_batch import PairBatch
from pipeline.changes import ChangeOptions, image_changes
from pipeline.narration.batch import align_images
from pipeline.sources import Image
from train.progress import Count
from train.samples import Sample, SampleError, image_in

_FORMAT = 2
_ENCODED_AT_ONCE = 8


class Features:
    """Maps and clusters of a list of samples, by position.

    Attributes:
        counts: int64 ``(N,)``, number of clusters of each sample; 0 where nothing differs.
        boxes, active: per sample ``(K, 4)`` in 0..1, and ``(K,)``, active pixels as shares of the frame.
        sha256: hash over what the features were made from: images, encoder, options.
    """

    def __init__(
        self, files: Sequence[Path], mask_size: tuple[int, int], *, images: bool, masks: bool
    ) -> None:
        self._files = tuple(files)
        self.mask_size, self.images, self.masks = mask_size, images, masks
        clusters = [_read(file, ("boxes", "active")) for file in files]
        self.boxes = [each["boxes"].numpy() for each in clusters]
        self.active = [each["active"].numpy() for each in clusters]
        self.counts: NDArray[np.int64] = np.array([len(each) for each in self.boxes], np.int64)
        names = "\n".join(file.stem for file in files)
        self.sha256 = hashlib.sha256(names.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._files)

    def batch(self, indices: Sequence[int], *, whole: bool = False) -> PairBatch:
        """The samples at some positions as one batch with float16 maps, clusters padded to the largest K.

        ValueError where one has no clusters, unless `whole`; masks have no pixels unless `masks`.
        """
        counts = self.counts[list(indices)]
        if not len(counts) or not (whole or counts.all()):
            raise ValueError("a batch takes samples with at least one cluster; leave the others out")
        height, width = self.mask_size if self.masks else (0, 0)
        most = int(counts.max())
        masks = np.zeros((len(counts), most, height, width), np.bool_)
        boxes = np.zeros((len(counts), most, 4), np.float32)
        active = np.zeros((len(counts), most), np.float32)
        names = ("maps", *(["images"] if self.images else []), *(["masks"] if self.masks else []))
        read = [_read(self._files[index], names) for index in indices]
        for row, index in enumerate(indices):
            if self.masks:
                unpacked = np.unpackbits(read[row]["masks"].numpy(), axis=1, count=height * width)
                masks[row, : counts[row]] = unpacked.reshape(-1, height, width).view(np.bool_)
            boxes[row, : counts[row]] = self.boxes[index]
            active[row, : counts[row]] = self.active[index]
        maps = torch.stack([each["maps"] for each in read])
        images = torch.stack([each["images"] for each in read]) if self.images else None
        return PairBatch(
            before=None if images is None else images[:, 0],
            after=None if images is None else images[:, 1],
            masks=torch.from_numpy(masks),
            boxes=torch.from_numpy(boxes),
            active=torch.from_numpy(active),
            valid=torch.from_numpy(np.arange(most) < counts[:, None]),
            maps=(maps[:, 0], maps[:, 1]),
        )


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
    """Features of samples: those in the cache, the others computed and added to it."""
    made_from = [_FORMAT, encoder.name, encoder.sha256, list(encoder.image_size), asdict(options), images]
    prefix = json.dumps(made_from, sort_keys=True).encode()
    files = [cache / f"{_key(sample, prefix)}.safetensors" for sample in samples]
    missing = [k for k, file in enumerate(files) if not _is_whole(file, encoder.channels)]
    ready = len(files) - len(missing)
    for start in range(0, len(missing), _ENCODED_AT_ONCE):
        some = missing[start : start + _ENCODED_AT_ONCE]
        computed = _compute([samples[k] for k in some], encoder, options, images=images)
        for k, tensors in zip(some, computed, strict=True):
            try:
                write_atomically(files[k], save(tensors))
            except OSError as error:
                raise SampleError(
                    f"{cache} cannot be written: {error.strerror}; make room, or make it writable"
                ) from error
        if progress:
            progress(ready + start + len(some), len(files))
    return Features(files, options.size, images=images, masks=masks)


def read_image(path: Path) -> Image:
    """An image file as RGB uint8 ``(h, w, 3)``."""
    image = image_in(path)
    if image is None:
        raise SampleError(f"{path} is missing or not a readable image; write it again or take out its sample")
    return image


def _key(sample: Sample, prefix: bytes) -> str:
    digest = hashlib.sha256(prefix)
    for path in (sample.before, sample.after):
        try:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError as error:
            raise SampleError(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()[:32]


def _is_whole(file: Path, channels: int) -> bool:
    try:
        with safe_open(file, framework="pt") as content:
            return bool(content.get_slice("maps").get_shape() == [2, channels, 14, 14])
    except (OSError, SafetensorError):
        return False


def _read(file: Path, names: Sequence[str]) -> dict[str, Tensor]:
    with safe_open(file, framework="pt") as content:
        return {name: content.get_tensor(name) for name in names}


def _compute(
    samples: Sequence[Sample], encoder: Encoder, options: ChangeOptions, *, images: bool
) -> list[dict[str, Tensor]]:
    """Per sample ``maps`` (before, aligned, and after), clusters and, if wanted, ``images``."""
    pixels = options.size[0] * options.size[1]
    pictures: list[Tensor] = []
    found: list[dict[str, Tensor]] = []
    for sample in samples:
        before, after = read_image(sample.before), read_image(sample.after)
        shift, clusters, _ = image_changes(before, after, options)
        both = np.stack(align_images(before, after, shift, options.size, encoder.image_size))
        pictures.append(torch.from_numpy(both).permute(0, 3, 1, 2).contiguous())
        packed = np.array([np.packbits(c.mask.reshape(-1)) for c in clusters], np.uint8)
        active = np.array([c.active_pixels / pixels for c in clusters], np.float32)
        found.append(
            {
                "masks": torch.from_numpy(packed.reshape(len(clusters), (pixels + 7) // 8)),
                "boxes": torch.from_numpy(np.array([c.box for c in clusters], np.float32).reshape(-1, 4)),
                "active": torch.from_numpy(active),
            }
        )
    maps = encoder(torch.cat(pictures).to(encoder.device)).half().cpu()
    for k, tensors in enumerate(found):
        tensors["maps"] = maps[2 * k : 2 * k + 2].clone()
        if images:
            tensors["images"] = pictures[k]
    return found
