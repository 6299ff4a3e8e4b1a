"""Pre-training of IDC-PCL: three tasks, one drawn for each batch.

Yao, Wang and Jin, "Image Difference Captioning with Pre-training and Contrastive Learning", AAAI 2022.

* **MLM**, masked language modelling: 15 % of the words, and EOS as often, are predicted from the others and
  both images; of these 80 % read [MASK], 10 % another word, 10 % themselves.
* **MVCL**, masked visual contrastive learning: 15 % of one image's grid features are zeroed; what comes out
  at such a cell is to be nearer (cosine, tau) to the feature that was there than to those of the batch.
* **FDA**, fine-grained difference aligning: the mean of [IMG1] and [IMG2] is to be nearer (cosine, tau) to
  the [CLS] of the caption than to that of six false ones (`train.papers.objectives.rewriter`).

Tasks are drawn 8 : 1 : 2. With `tasks` each row of the paper's ablation can be run.

Where the paper is silent, and departures:
* MVCL compares features behind the first linear layer, and without a gradient to them: they could otherwise
  learn to be all different without meaning anything. Its negatives are the unmasked cells of all images of
  the batch but the same cell of the other image, which with a fixed camera mostly shows the same.
* A caption is one sentence. MLM learns from all that are given, FDA from one drawn for every pair. For FDA
  words and images attend to each other, as in the other tasks.
* The vocabulary is that of the pairs' captions; other words of single images' captions are unknown.
* MVCL predicts through a linear layer of its own (`visual`); in the paper's code the head is tied to the
  input's. Its target is the feature behind the captioner's first layer, not the encoder's.
* Data expansion is mixed in: tasks 8 : 1 : 2 and 2 for each further set. The paper draws 9 : 1 : 2 : 3 for
  birds and pre-trains on CUB in a stage of its own.
* An epoch's score is the MLM's on the validation split, with the same masks every time.

Data expansion: captions of single birds (CUB) teach words for what is seen, and
555 classes of birds (NABirds) teach the difference encoder to see small differences:

    L_cls  the class of each image, from its [IMG]
    L_mtc  whether two images are of one class, from both [IMG]
    L_con  [IMG]s of one class near each other, those of others less than a margin apart (cosine, .4)

Captions are read in CUB's layout, classes in that of NABirds (`train.papers.datasets`). Departures:
* A single image stands in the place of the first one; the second is absent, nothing attends to it.
* Images of classes come two by two through the whole difference encoder, half of the pairs of one class.
* L_con is the mean over all pairs of [IMG]s in the batch: 1 - cos within a class, max(0, cos - margin)
  between classes (He et al., "TransFG", AAAI 2022). The three losses are added.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch
from joblib import Memory
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cosine_similarity, cross_entropy, normalize

from models.encoders import Encoder
from models.papers.captioner import PairBatch, WordCaptioner
from models.papers.idc_pcl import CELLS, IDCPCL, IMAGE, grid_features
from models.papers.vocabulary import BOS, PAD, UNK, Vocabulary
from train.papers.batches import Split, epoch_batches, read_image
from train.papers.datasets import SingleImage, load_cub, load_nabirds
from train.papers.objectives import Objective, Step
from train.papers.objectives.rewriter import Rewriter
from train.samples import SampleError

TASKS = {"mlm": 8.0, "mvcl": 1.0, "fda": 2.0}  # weights with which the tasks are drawn

_SCORED_AT_ONCE = 32
_NEGATIVES_EACH = 2
_RANDOM, _KEPT = 0.1, 0.1


class Batch(NamedTuple):
    cells: Tensor  # grid features ``(B, 2, 49, channels)``
    tokens: Tensor  # sentences ``(B, T, L)``
    present: Tensor | None = None  # bool ``(B, 2)``, which images there are; None both
    rewriter: Rewriter | None = None  # makes the negatives


class PreTraining(Objective):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Objective.Options):
        # how often each is drawn, of mlm, mvcl, fda, single (captions of single images: these three in their
        # proportions) and classes; None is `TASKS`, with 2 for each further set that is given
        tasks: dict[str, float] | None = None
        masked: float = 0.15  # share of words, and of cells
        temperature: float = 1.0  # tau of both contrastive tasks
        single_images: str | None = None  # folder with captions, see the head of this file
        classes: str | None = None  # folder of single images with classes
        margin: float = 0.4  # of the contrastive loss between classes

        def __post_init__(self) -> None:
            folders = {"single": self.single_images, "classes": self.classes}
            drawn, known = self.task_weights, [*TASKS, *folders]
            if not {*drawn} <= {*known} or not any(drawn.values()) or min(drawn.values()) < 0:
                raise ValueError(f"tasks are {', '.join(known)} with how often each is drawn, not {drawn}")
            if any(drawn.get(task) and not folder for task, folder in folders.items()):
                raise ValueError("tasks single and classes need their folders (single_images, classes)")
            if not 0 < self.masked < 1 or self.temperature <= 0:
                raise ValueError(f"masked ({self.masked}) is 0..1, temperature ({self.temperature}) above 0")

        @property
        def task_weights(self) -> dict[str, float]:
            if self.tasks is not None:
                return self.tasks
            return TASKS | {
                t: 2.0 for t, at in (("single", self.single_images), ("classes", self.classes)) if at
            }

    name = "pretraining"
    metric = "minus_val_mlm"
    options: Options

    def __init__(self, captioner: WordCaptioner, training: Split, **arguments: Any) -> None:
        super().__init__(**arguments)
        if not isinstance(captioner, IDCPCL):
            raise ValueError(  # noqa: TRY004 - an argument that does not suit
                f"this pre-training is idc-pcl's; captioner {captioner.name} has none"
            )
        options, encoder = self.options, captioner.encoder
        self.tasks = tasks = options.task_weights
        self.visual = nn.Linear(captioner.size, captioner.size) if tasks.get("mvcl") else None
        self.rewriter = Rewriter(training.sentences) if tasks.get("fda") else None
        self.single: CaptionedImages | None = None
        self.single_rewriter: Rewriter | None = None
        if tasks.get("single"):
            self.single = captioned_images(Path(str(options.single_images)), encoder)
            self.single_rewriter = Rewriter(self.single.captions) if self.rewriter else None
        self.classes: ClassTask | None = None
        if tasks.get("classes"):
            images = classed_images(Path(str(options.classes)), encoder)
            self.classes = ClassTask(images, captioner, options.margin)

    def arguments(self) -> dict[str, Any]:
        """Arguments for the record, of a folder only its name."""
        own, folders = self.options, {"single": self.options.single_images, "classes": self.options.classes}
        named = {
            task: Path(folder).name for task, folder in folders.items() if folder and self.tasks.get(task)
        }
        numbers = {"masked": own.masked, "temperature": own.temperature, "margin": own.margin}
        return {"tasks": self.tasks, **numbers, **named}

    def loss(self, captioner: WordCaptioner, pairs: PairBatch, tokens: Tensor, step: Step) -> Tensor:  # noqa: ARG002
        assert isinstance(captioner, IDCPCL)  # noqa: S101 - the constructor looks
        task, number = _draw_task(self.tasks), len(tokens)
        if task == "classes" and self.classes is not None:
            of_classes: Tensor = self.classes(captioner, number)
            return of_classes
        if task == "single" and self.single is not None:
            cells, words = (x.to(captioner.device) for x in self.single.batch(captioner.vocabulary, number))
            present = torch.tensor([[True, False]], device=captioner.device).expand(len(cells), 2)
            task = _draw_task(
                {name: self.tasks[name] for name in TASKS if self.tasks.get(name)} or {"mlm": 1.0}
            )
            batch = Batch(cells, words, present, self.single_rewriter)
        else:
            batch = Batch(captioner.cells(pairs), tokens, None, self.rewriter)
        worded = (batch.tokens[:, :, 0] != PAD).any(dim=1)
        shown = None if batch.present is None else batch.present[worded]
        batch = Batch(batch.cells[worded], batch.tokens[worded], shown, batch.rewriter)
        return {"mlm": self.mlm, "mvcl": self.mvcl, "fda": self.fda}[task](captioner, batch)

    def score(self, captioner: WordCaptioner, validation: Split) -> float | None:
        assert isinstance(captioner, IDCPCL)  # noqa: S101
        losses = []
        batches = epoch_batches(
            validation, captioner.vocabulary, _SCORED_AT_ONCE, seed=0, epoch=0, max_words=10**6
        )
        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(0)
            for pairs, tokens in batches:
                cells = captioner.cells(pairs.to(captioner.device))
                losses.append(float(self.mlm(captioner, Batch(cells, tokens.to(captioner.device)))))
        return -float(np.mean(losses))

    def mlm(self, captioner: IDCPCL, batch: Batch) -> Tensor:
        cells, tokens, present, _ = batch
        pictures = captioner.encode_difference(cells, present)
        b, t = (tokens[:, :, 0] != PAD).nonzero(as_tuple=True)
        if not len(b):
            return 0.0 * pictures.sum()
        words = tokens[b, t]
        chosen = _some(words != PAD, self.options.masked)
        kind, known = torch.rand(words.shape, device=words.device), len(captioner.vocabulary)
        others = torch.randint(UNK + 1, max(known, UNK + 2), words.shape, device=words.device).clamp(
            max=known - 1
        )
        hidden = torch.where(kind < _KEPT, words, torch.where(kind < _KEPT + _RANDOM, others, captioner.mask))
        text = prepend_start(captioner, torch.where(chosen, hidden, words))
        after, _ = captioner.fuse(text, pictures[b], None if present is None else present[b])
        return cross_entropy(captioner.next_word(after[:, 2:][chosen]), words[chosen])

    def mvcl(self, captioner: IDCPCL, batch: Batch) -> Tensor:
        assert self.visual is not None  # noqa: S101 - built with the task
        cells, tokens, present, _ = batch
        n = len(cells)
        side = torch.randint(2, (n,), device=cells.device) if present is None else cells.new_zeros(n).long()
        hidden = _some(torch.ones(n, CELLS, dtype=torch.bool, device=cells.device), self.options.masked)
        zeroed = torch.zeros(n, 2, CELLS, dtype=torch.bool, device=cells.device)
        zeroed[torch.arange(n, device=cells.device), side] = hidden
        with torch.no_grad():
            features = normalize(captioner.embed_cell(cells), dim=3)
        pictures = captioner.encode_difference(cells.masked_fill(zeroed.unsqueeze(3), 0.0), present)
        _, after = captioner.fuse(prepend_start(captioner, _one_sentence(tokens)), pictures, present)
        predicted = normalize(self.visual(after.view(n, 2, IMAGE, -1)[:, :, 1:][zeroed]), dim=1)
        logits = predicted @ features.flatten(0, 2).T / self.options.temperature
        right = zeroed.flatten().nonzero()[:, 0]
        usable = ~zeroed if present is None else ~zeroed & present.unsqueeze(2)
        candidates = usable.flatten().expand(len(right), -1).clone()
        rows = torch.arange(len(right), device=cells.device)
        other = right + torch.where(right // CELLS % 2 == 0, CELLS, -CELLS)
        candidates[rows, other] = False  # the same cell of the other image
        candidates[rows, right] = True  # the positive
        return cross_entropy(logits.masked_fill(~candidates, -torch.inf), right)

    def fda(self, captioner: IDCPCL, batch: Batch) -> Tensor:
        cells, tokens, present, own = batch
        rewriter = own or self.rewriter
        assert rewriter is not None  # noqa: S101 - built with the task
        rng = np.random.default_rng(int(torch.randint(2**31, ())))
        words = captioner.vocabulary
        decoded = [" ".join(words.decode(s)) for s in _one_sentence(tokens).tolist()]
        true = [[" ".join(words.decode(s)) for s in pair] for pair in tokens.tolist()]
        texts = [
            [text, *(n.text for n in rewriter.negatives(text, rng, _NEGATIVES_EACH, all_true))]
            for text, all_true in zip(decoded, true, strict=True)
        ]
        captions = words.batch(texts, tokens.shape[2]).to(tokens.device)
        n, number = captions.shape[:2]
        repeated = None if present is None else present.repeat_interleave(number, dim=0)
        pictures = captioner.encode_difference(cells, present).repeat_interleave(number, dim=0)
        text, images = captioner.fuse(prepend_start(captioner, captions.flatten(0, 1)), pictures, repeated)
        heads = images[:, ::IMAGE]
        both = heads.mean(dim=1) if present is None else heads[:, 0]
        near = cosine_similarity(both, text[:, 0], dim=1).view(n, number) / self.options.temperature
        there = captions[:, :, 0] != PAD
        return cross_entropy(near.masked_fill(~there, -torch.inf), there.new_zeros(n).long())


def prepend_start(captioner: IDCPCL, tokens: Tensor) -> Tensor:
    """Sentences ``(N, L)`` with [CLS] and [BOS] before them, ``(N, L + 2)``."""
    start = torch.tensor([captioner.cls, BOS], device=tokens.device).expand(len(tokens), 2)
    return torch.cat([start, tokens], dim=1)


def _one_sentence(tokens: Tensor) -> Tensor:
    """One of the given sentences of each pair, drawn, ``(B, L)``; each pair has one."""
    weights = (tokens[:, :, 0] != PAD).float()
    return tokens[torch.arange(len(tokens), device=tokens.device), weights.multinomial(1)[:, 0]]


def _some(among: Tensor, share: float) -> Tensor:
    """A random share of what is True in each row of ``(N, M)``, at least one."""
    drawn = torch.rand(among.shape, device=among.device).masked_fill(~among, 2.0)
    chosen = (drawn < share) & among
    chosen[torch.arange(len(drawn), device=drawn.device), drawn.argmin(dim=1)] = True
    return chosen & among


def _draw_task(tasks: dict[str, float]) -> str:
    names = list(tasks)
    return names[int(torch.tensor([float(tasks[name]) for name in names]).multinomial(1))]


_AT_ONCE = 16


@dataclass(frozen=True, slots=True, eq=False)
class CaptionedImages:
    cells: NDArray[np.float16]  # float16 ``(N, 49, channels)``, their grid features
    captions: tuple[tuple[str, ...], ...]  # per image, at least one

    def batch(self, vocabulary: Vocabulary, size: int) -> tuple[Tensor, Tensor]:
        """Random images, ``(size, 2, 49, channels)``, the second zeros, and captions ``(size, 1, L)``."""
        rows, which = torch.randint(len(self.captions), (size,)).tolist(), torch.rand(size).tolist()
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
    """Grid features, float16 ``(N, 49, channels)``, computed once and memory-mapped from the folder."""
    paths = [image.path for image in images]
    try:
        made_from = [encoder.sha256, *(hashlib.sha256(path.read_bytes()).hexdigest() for path in paths)]
    except OSError as error:
        raise SampleError(f"{error.filename} cannot be read: {error.strerror}; fetch it again") from error
    compute = Memory(folder / ".features", mmap_mode="r", verbose=0).cache(
        _compute, ignore=["images", "encoder"]
    )
    try:
        cells: NDArray[np.float16] = compute(paths, encoder, made_from)
    except OSError as error:
        raise SampleError(f"{folder} cannot be written ({error}); free some space") from error
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
