"""From samples and their features to the batches of one epoch.

Encoder maps and clusters of every sample are computed once and kept on disk, one file a pair: the encoder is
frozen, so they do not change while a captioner is trained. A file is named by the hash of what it was made
from (both images, encoder weights, change options) and appears by one rename; one that does not read is made
again.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from models.checkpoint import write_atomically
from models.encoders import Encoder
from models.papers.captioner import PairBatch, Sees
from models.papers.vocabulary import Vocabulary, tokenize
from pipeline.changes import ChangeOptions, image_changes
from pipeline.narration.batch import align_images
from pipeline.sources import Image
from train import Progress
from train.papers.datasets import load_pairs
from train.papers.scores import DISTRACTORS, mentions_change
from train.samples import Sample, SampleError, image_in

_FORMAT = 2
_ENCODED_AT_ONCE = 8


class Features:
    """Maps and clusters of a list of samples, by position.

    Of the K clusters of each, 0 where nothing differs, `counts` ``(N,)``, `boxes` ``(K, 4)`` in 0..1 and
    `active`, pixels as shares of the frame ``(K,)``; `sha256` is over images, encoder and options.
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
        names = ("maps", *(["images"] if self.images else []), *(["masks"] if self.masks else []))
        read = [_read(self._files[index], names) for index in indices]
        clusters = []
        for index, count, own in zip(indices, counts.tolist(), read, strict=True):
            mask = np.zeros((count, height, width), np.bool_)
            if self.masks:
                packed = np.unpackbits(own["masks"].numpy(), axis=1, count=height * width)
                mask = packed.reshape(-1, height, width).view(np.bool_)
            clusters.append((mask, self.boxes[index], self.active[index]))
        before, after = torch.stack([each["maps"] for each in read], dim=1)
        images = torch.stack([each["images"] for each in read], dim=1) if self.images else (None, None)
        return PairBatch.pad(clusters, before=images[0], after=images[1], maps=(before, after))


def sample_features(
    samples: Sequence[Sample],
    encoder: Encoder,
    options: ChangeOptions,
    cache: Path,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
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
        try:
            for k, tensors in zip(some, computed, strict=True):
                write_atomically(files[k], save(tensors))
        except OSError as error:
            raise SampleError(
                f"{cache} cannot be written: {error.strerror}; make room, or make it writable"
            ) from error
        progress(ready + start + len(some), len(files))
    return Features(files, options.size, images=images, masks=masks)


def read_image(path: Path) -> Image:
    image = image_in(path)
    if image is None:
        raise SampleError(f"{path} is missing or not a readable image; write it again or take out its sample")
    return image


def _key(sample: Sample, prefix: bytes) -> str:
    digest = hashlib.sha256(prefix)
    try:
        for path in (sample.before, sample.after):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    except OSError as error:
        raise SampleError(f"{error.filename} cannot be read: {error.strerror}") from error
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
        own = {
            "masks": packed.reshape(len(clusters), (pixels + 7) // 8),
            "boxes": np.array([c.box for c in clusters], np.float32).reshape(-1, 4),
            "active": np.array([c.active_pixels / pixels for c in clusters], np.float32),
        }
        found.append({name: torch.from_numpy(each) for name, each in own.items()})
    maps = encoder(torch.cat(pictures).to(encoder.device)).half().cpu()
    for k, tensors in enumerate(found):
        tensors["maps"] = maps[2 * k : 2 * k + 2].clone()
        if images:
            tensors["images"] = pictures[k]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    samples: tuple[Sample, ...]  # one per pair, further annotators merged into it
    features: Features  # of the samples, by position
    # what can be trained on: position of the sample, and one annotator's sentences
    annotations: tuple[tuple[int, tuple[str, ...]], ...]
    skipped: int  # annotations that are not trained on because their pair has no cluster
    sha256: str  # hash (hex) of the annotation file and of the features
    whole: bool = False  # whether pairs without clusters are trained on, as a captioner of whole pairs can

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [tuple(s for annotation in sample.annotations for s in annotation) for sample in self.samples]


def load_split(
    folder: Path,
    split: str,
    encoder: Encoder,
    options: ChangeOptions,
    *,
    cache: Path | None = None,
    progress: Progress = lambda _what, _done, _all: None,
    pairs: int | None = None,
    sees: Sees | None = None,
) -> Split:
    """Read a split and compute, or take from the cache (``.features``), what a captioner sees of it.

    `pairs` are cut before anything is encoded.
    """
    sees = sees or Sees()
    samples, tell = tuple(load_pairs(folder, split)[:pairs]), partial(progress, f"features of {split}")
    cache = cache or folder / ".features"
    features = sample_features(samples, encoder, options, cache, tell, images=sees.images, masks=sees.masks)
    annotated = [
        (position, sentences)
        for position, sample in enumerate(samples)
        for sentences in sample.annotations
        if any(tokenize(s) for s in sentences)
    ]
    annotations = tuple(each for each in annotated if sees.whole or features.counts[each[0]])
    known = json.dumps([[asdict(s) | {"before": "", "after": ""} for s in samples], features.sha256])
    sha256 = hashlib.sha256(known.encode()).hexdigest()
    return Split(samples, features, annotations, len(annotated) - len(annotations), sha256, sees.whole)


def epoch_batches(
    split: Split,
    vocabulary: Vocabulary,
    size: int,
    *,
    seed: int,
    epoch: int,
    max_words: int,
    drawn: bool = False,
    swapped: float = 0.0,
) -> Iterator[tuple[PairBatch, Tensor]]:
    """The annotations of a split in an order that seed and epoch alone decide, tokens int64 ``(B, T, L)``.

    `swapped`: of pairs whose scene was also seen without a change, the share 0..1 whose before frame is that
    other view, see `find_twins`.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(split.annotations)).tolist()
    if drawn:  # the first of each pair, in an order of chance
        first = {split.annotations[i][0]: i for i in reversed(order)}
        order = [i for i in order if first[split.annotations[i][0]] == i]
    twin = find_twins(split.samples) if swapped else {}
    turned = {i for i in order if rng.random() < swapped} if twin else set[int]()

    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        positions, texts = zip(*(split.annotations[i] for i in numbers), strict=True)
        pairs = split.features.batch(positions, whole=split.whole)
        places = enumerate(zip(numbers, positions, strict=True))
        other = {row: twin[at] for row, (number, at) in places if number in turned and at in twin}
        changed = [
            mentions_change(split.samples[at], said) for at, said in zip(positions, texts, strict=True)
        ]
        pairs = replace(_seen_from(pairs, other, positions, split.features), changed=torch.tensor(changed))
        yield pairs, vocabulary.batch(texts, max_words)


def find_twins(samples: Sequence[Sample]) -> dict[int, int]:
    """Distractors by the positions of pairs with the same before frame, and of their own.

    CLEVR-Change has three pictures of a scene: the default one, one in which something changed, and another
    view in which nothing did. The first is the before frame of both pairs.
    """
    views = {s.before: k for k, s in enumerate(samples) if s.kind in DISTRACTORS}
    changed = {s.before for s in samples if s.kind not in DISTRACTORS}
    return {k: views[s.before] for k, s in enumerate(samples) if s.before in views and s.before in changed}


def _seen_from(
    pairs: PairBatch, other: Mapping[int, int], positions: Sequence[int], features: Features
) -> PairBatch:
    """The batch, some rows with another view of the scene as before frame; a distractor's frames swap."""
    if not other:
        return pairs
    rows = list(other)
    views = features.batch([other[row] for row in rows], whole=True)
    swap = [row for row in rows if other[row] == positions[row]]

    def turn(before: Tensor, after: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
        first, second = before.clone(), after.clone()
        first[rows] = view
        second[swap] = before[swap]
        return first, second

    assert pairs.maps is not None and views.maps is not None  # noqa: S101, PT018 - features have maps
    pairs = replace(pairs, maps=turn(*pairs.maps, views.maps[1]))
    if pairs.before is None or pairs.after is None or views.after is None:
        return pairs
    before, after = turn(pairs.before, pairs.after, views.after)
    return replace(pairs, before=before, after=after)


def by_pair(split: Split) -> Split:
    """The split with all that is said of a pair as one annotation, so that every pair is looked at once."""
    sentences_of: dict[int, tuple[str, ...]] = {}
    for position, sentences in split.annotations:
        sentences_of[position] = (*sentences_of.get(position, ()), *sentences)
    return replace(split, annotations=tuple(sentences_of.items()))


def prior_features(split: Split) -> Tensor:
    """`PairBatch.features` of all clusters of a split, float32 ``(N, 4)``."""
    boxes, active = np.concatenate(split.features.boxes), np.concatenate(split.features.active)
    valid = torch.ones(1, len(boxes), dtype=torch.bool)
    clusters = (torch.from_numpy(boxes).unsqueeze(0), torch.from_numpy(active).unsqueeze(0), valid)
    return PairBatch(None, None, valid.view(1, -1, 1, 1), *clusters).features()[0]
