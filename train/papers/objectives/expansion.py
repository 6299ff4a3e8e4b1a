"""Data expansion for IDC-PCL: captions of single images, and pictures of fine-grained classes.

Yao, Wang and Jin 2022: captions of single birds (CUB) teach words for what is seen, and 555 classes of birds
(NABirds) teach the difference encoder to see small differences:

    L_cls  the class of each image, from its [IMG]
    L_mtc  whether two images are of one class, from both [IMG]
    L_con  [IMG]s of one class near each other, those of others less than a margin apart (cosine, .4)

Captions are read in CUB's layout, classes in that of NABirds (`train.papers.datasets.birds`).

Where the paper is silent, and departures:
* A single image stands in the place of the first one; the second is absent, nothing attends to it.
* Images of classes come two by two through the whole difference encoder, half of the pairs of one class.
* L_con is the mean over all pairs of [IMG]s in the batch: 1 - cos within a class, max(0, cos - margin)
  between classes (He et al., "TransFG", AAAI 2022). The three losses are added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from joblib import Memory
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, normalize

from models.encoders.encoder import Encoder
from models.papers.idc_pcl import CELLS, IDCPCL, IMAGE, grid_features
from models.papers.vocabulary import Vocabulary
from train.papers.datasets.birds import SingleImage, load_cub, load_nabirds
from train.papers.features import read_image
from train.samples import SampleError

_AT_ONCE = 16


@dataclass(frozen=True, slots=True, eq=False)
class CaptionedImages:
    cells: NDArray[np.float16]  # float16 ``(N, 49, channels)``, their grid features
    captions: tuple[tuple[str, ...], ...]  # per image, at least one

    def batch(self, vocabulary: Vocabulary, size: int) -> tuple[Tensor, Tensor]:
        """Random images, ``(size, 2, 49, channels)``, the second zeros, and captions ``(size, 1, L)``."""
        rows = torch.randint(len(self.captions), (size,)).tolist()
        which = torch.rand(size).tolist()
        words = [[self.captions[r][int(w * len(self.captions[r]))]] for r, w in zip(rows, which, strict=True)]
        first = torch.from_numpy(np.stack([self.cells[r] for r in rows])).float()
        return torch.stack([first, torch.zeros_like(first)], dim=1), vocabulary.batch(words)


@dataclass(frozen=True, slots=True, eq=False)
class ClassedImages:
    cells: NDArray[np.float16]  # float16 ``(N, 49, channels)``, their grid features
    labels: NDArray[np.int64]  # int64 ``(N,)``
    classes: tuple[str, ...]  # their names, at least two

    def pairs(self, size: int) -> tuple[Tensor, Tensor]:
        """Random pairs, half of one class, ``(size, 2, 49, channels)``, and their classes ``(size, 2)``."""
        rows = []
        for same in (torch.rand(size) < 0.5).tolist():  # noqa: PLR2004 - half
            first = int(torch.randint(len(self.labels), ()))
            alike = (self.labels == self.labels[first]) == same
            alike[first] = False
            others = np.flatnonzero(alike if alike.any() else np.arange(len(self.labels)) != first)
            rows.append([first, int(others[int(torch.randint(len(others), ()))])])
        cells = torch.from_numpy(np.stack([self.cells[pair] for pair in rows])).float()
        return cells, torch.from_numpy(self.labels[np.array(rows)])


class ClassTask(nn.Module):
    def __init__(self, images: ClassedImages, captioner: IDCPCL, margin: float) -> None:
        super().__init__()
        if not captioner.options.difference_encoder:
            raise ValueError("task classes teaches the difference encoder, and this captioner has none")
        self.images, self.margin = images, margin
        self.which = nn.Linear(captioner.size, len(images.classes))
        self.same = nn.Linear(2 * captioner.size, 1)

    def forward(self, captioner: IDCPCL, size: int) -> Tensor:
        cells, labels = (each.to(captioner.device) for each in self.images.pairs(size))
        heads = captioner.encode_difference(cells)[:, ::IMAGE]
        of_class = cross_entropy(self.which(heads).flatten(0, 1), labels.flatten())
        alike = (labels[:, 0] == labels[:, 1]).float()
        of_pair = binary_cross_entropy_with_logits(self.same(heads.flatten(1))[:, 0], alike)
        return of_class + of_pair + contrastive(heads.flatten(0, 1), labels.flatten(), self.margin)


def contrastive(vectors: Tensor, labels: Tensor, margin: float) -> Tensor:
    """Mean over all pairs of N vectors ``(N, size)``, N >= 2, see the head of this file."""
    unit = normalize(vectors, dim=1)
    near = unit @ unit.T
    alike = labels.unsqueeze(0) == labels.unsqueeze(1)
    each = torch.where(alike, 1 - near, (near - margin).clamp(min=0))
    others = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return each[others].mean()


def captioned_images(folder: Path, encoder: Encoder) -> CaptionedImages:
    images = load_cub(folder)
    return CaptionedImages(_cells_of(images, folder, encoder), tuple(image.captions for image in images))


def classed_images(folder: Path, encoder: Encoder) -> ClassedImages:
    images = load_nabirds(folder)
    classes = tuple(sorted({image.label for image in images}))
    if len(classes) < 2:  # noqa: PLR2004 - a class, and another one
        raise SampleError(f"{folder}: {len(classes)} classes; to tell classes apart takes at least two")
    labels = np.array([classes.index(image.label) for image in images], np.int64)
    return ClassedImages(_cells_of(images, folder, encoder), labels, classes)


def _cells_of(images: Sequence[SingleImage], folder: Path, encoder: Encoder) -> NDArray[np.float16]:
    """Grid features, computed once and kept in the folder."""
    return image_cells([image.path for image in images], encoder, folder / ".features")


def image_cells(images: Sequence[Path], encoder: Encoder, cache: Path) -> NDArray[np.float16]:
    """Grid features of image files, float16 ``(N, 49, channels)``, memory-mapped from the cache."""
    try:
        made_from = [encoder.sha256, *(hashlib.sha256(path.read_bytes()).hexdigest() for path in images)]
    except OSError as error:
        raise SampleError(f"{error.filename} cannot be read: {error.strerror}; fetch it again") from error
    memory = Memory(cache, mmap_mode="r", verbose=0)
    try:
        cells: NDArray[np.float16] = memory.cache(_compute, ignore=["images", "encoder"])(
            images, encoder, made_from
        )
    except OSError as error:
        raise SampleError(f"{cache} cannot be written ({error}); free some space") from error
    return cells


def _compute(images: Sequence[Path], encoder: Encoder, made_from: list[str]) -> NDArray[np.float16]:  # noqa: ARG001 - the key
    height, width = encoder.image_size
    cells = np.empty((len(images), CELLS, encoder.channels), np.float16)
    for start in range(0, len(images), _AT_ONCE):
        read = [read_image(path) for path in images[start : start + _AT_ONCE]]
        sized = [cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA) for image in read]
        maps = encoder(torch.from_numpy(np.stack(sized)).permute(0, 3, 1, 2).contiguous())
        cells[start : start + len(read)] = grid_features(maps).cpu().numpy()
    return cells
