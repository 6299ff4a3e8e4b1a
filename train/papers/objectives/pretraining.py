"""Pre-training of IDC-PCL: three tasks, one drawn for each batch.

Yao, Wang and Jin, "Image Difference Captioning with Pre-training and Contrastive Learning", AAAI 2022.

* **MLM**, masked language modelling: 15 % of the words, and EOS as often, are predicted from the others and
  both images; of these 80 % read [MASK], 10 % another word, 10 % themselves.
* **MVCL**, masked visual contrastive learning: 15 % of one image's grid features are zeroed; what comes out
  at such a cell is to be nearer (cosine, tau) to the feature that was there than to those of the batch.
* **FDA**, fine-grained difference aligning: the mean of [IMG1] and [IMG2] is to be nearer (cosine, tau) to
  the [CLS] of the caption than to that of six false ones (`train.papers.objectives.rewriter`).
* **Data expansion**: captions of single images and pictures of fine-grained classes
  (`train.papers.objectives.expansion`).

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
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, normalize

from models.papers.captioner import WordCaptioner
from models.papers.idc_pcl import CELLS, IDCPCL, IMAGE
from models.papers.pair_batch import PairBatch
from models.papers.vocabulary import BOS, PAD, UNK
from train.papers.batches import Split, epoch_batches
from train.papers.objectives import Objective, Step
from train.papers.objectives.expansion import ClassTask, captioned_images, classed_images
from train.papers.objectives.rewriter import Rewriter

TASKS = {"mlm": 8.0, "mvcl": 1.0, "fda": 2.0}
"""Weights with which the tasks are drawn."""

_SCORED_AT_ONCE = 32
_NEGATIVES_EACH = 2
_RANDOM, _KEPT = 0.1, 0.1


class PreTraining(Objective):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Objective.Options):
        # how often each is drawn, of mlm, mvcl, fda, single (captions of single images: these three in their
        # proportions) and classes; None is `TASKS`, with 2 for each further set that is given
        tasks: dict[str, float] | None = None
        masked: float = 0.15  # share of words, and of cells
        temperature: float = 1.0  # tau of both contrastive tasks
        # folder of single images with captions, see `train.papers.objectives.expansion`
        single_images: str | None = None
        classes: str | None = None  # folder of single images with classes
        margin: float = 0.4  # of the contrastive loss between classes

        def __post_init__(self) -> None:
            drawn, folders = self.task_weights, self.folders
            unknown = [task for task in drawn if task not in (*TASKS, *folders)]
            if unknown or not any(drawn.values()) or min(drawn.values()) < 0:
                known = ", ".join((*TASKS, *folders))
                raise ValueError(f"tasks are {known} with how often each is drawn, not {drawn}")
            lacking = [task for task, folder in folders.items() if drawn.get(task) and not folder]
            if lacking:
                raise ValueError(f"task {lacking[0]} needs its folder (single_images, classes)")
            if not 0 < self.masked < 1 or self.temperature <= 0:
                raise ValueError(
                    f"masked ({self.masked}) must be between 0 and 1, "
                    f"temperature ({self.temperature}) above 0"
                )

        @property
        def folders(self) -> dict[str, str | None]:
            return {"single": self.single_images, "classes": self.classes}

        @property
        def task_weights(self) -> dict[str, float]:
            if self.tasks is not None:
                return self.tasks
            return TASKS | {task: 2.0 for task, folder in self.folders.items() if folder}

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
        self.tasks = options.task_weights
        self.visual = nn.Linear(captioner.size, captioner.size) if self.tasks.get("mvcl") else None
        texts = [[s for annotation in sample.annotations for s in annotation] for sample in training.samples]
        self.rewriter = Rewriter(texts) if self.tasks.get("fda") else None
        self.single = (
            captioned_images(Path(str(options.single_images)), encoder) if self.tasks.get("single") else None
        )
        self.single_rewriter = Rewriter(self.single.captions) if self.single and self.rewriter else None
        self.classes = (
            ClassTask(classed_images(Path(str(options.classes)), encoder), captioner, options.margin)
            if self.tasks.get("classes")
            else None
        )

    def arguments(self) -> dict[str, Any]:
        """Arguments for the record, of a folder only its name."""
        options = self.options
        named = {task: Path(f).name for task, f in options.folders.items() if f and self.tasks.get(task)}
        return {
            "tasks": self.tasks,
            "masked": options.masked,
            "temperature": options.temperature,
            "margin": options.margin,
            **named,
        }

    def loss(self, captioner: WordCaptioner, pairs: PairBatch, tokens: Tensor, step: Step) -> Tensor:  # noqa: ARG002
        assert isinstance(captioner, IDCPCL)  # noqa: S101 - the constructor looks
        task = _draw_task(self.tasks)
        if task == "classes" and self.classes is not None:
            of_classes: Tensor = self.classes(captioner, len(tokens))
            return of_classes
        if task == "single" and self.single is not None:
            cells, words = self.single.batch(captioner.vocabulary, len(tokens))
            present = torch.tensor([[True, False]], device=captioner.device).expand(len(cells), 2)
            inner = {name: self.tasks[name] for name in TASKS if self.tasks.get(name)}
            cells, words = cells.to(captioner.device), words.to(captioner.device)
            task, rewriter = _draw_task(inner or {"mlm": 1.0}), self.single_rewriter
            return self._task(captioner, task, cells, words, present=present, rewriter=rewriter)
        return self._task(captioner, task, captioner.cells(pairs), tokens)

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
                losses.append(float(self.mlm(captioner, cells, tokens.to(captioner.device))))
        return -float(np.mean(losses))

    def mlm(self, captioner: IDCPCL, cells: Tensor, tokens: Tensor, present: Tensor | None = None) -> Tensor:
        """Masked language modelling, mean over the masked words, of cells ``(B, 2, 49, channels)``.

        `present`, bool ``(B, 2)``: which images there are; None both.
        """
        pictures = captioner.encode_difference(cells, present)
        b, t = (tokens[:, :, 0] != PAD).nonzero(as_tuple=True)
        if not len(b):
            return 0.0 * pictures.sum()
        words = tokens[b, t]
        real = words != PAD
        chosen = _some(real, self.options.masked)
        kind = torch.rand(words.shape, device=words.device)
        others = torch.randint(
            UNK + 1, max(len(captioner.vocabulary), UNK + 2), words.shape, device=words.device
        )
        others = others.clamp(max=len(captioner.vocabulary) - 1)
        hidden = torch.where(kind < _KEPT, words, torch.where(kind < _KEPT + _RANDOM, others, captioner.mask))
        text = prepend_start(captioner, torch.where(chosen, hidden, words))
        shown = None if present is None else present[b]
        after, _ = captioner.fuse(text, pictures[b], shown)
        return cross_entropy(captioner.next_word(after[:, 2:][chosen]), words[chosen])

    def mvcl(self, captioner: IDCPCL, cells: Tensor, tokens: Tensor, present: Tensor | None = None) -> Tensor:
        """Masked visual contrastive learning, mean over the zeroed cells; arguments as of `mlm`."""
        assert self.visual is not None  # noqa: S101 - built with the task
        n = len(cells)
        side = torch.randint(2, (n,), device=cells.device) if present is None else cells.new_zeros(n).long()
        hidden = _some(torch.ones(n, CELLS, dtype=torch.bool, device=cells.device), self.options.masked)
        zeroed = torch.zeros(n, 2, CELLS, dtype=torch.bool, device=cells.device)
        zeroed[torch.arange(n, device=cells.device), side] = hidden
        with torch.no_grad():
            features = captioner.embed_cell(cells)
        pictures = captioner.encode_difference(cells.masked_fill(zeroed.unsqueeze(3), 0.0), present)
        text = prepend_start(captioner, _one_sentence(tokens))
        _, after = captioner.fuse(text, pictures, present)
        seen = after.view(n, 2, IMAGE, -1)[:, :, 1:]
        predicted = normalize(self.visual(seen[zeroed]), dim=1)
        every = normalize(features, dim=3)
        logits = predicted @ every.flatten(0, 2).T / self.options.temperature
        right = zeroed.flatten().nonzero()[:, 0]
        usable = ~zeroed if present is None else ~zeroed & present.unsqueeze(2)
        wrong = usable.flatten().expand(len(right), -1).clone()
        rows = torch.arange(len(right), device=cells.device)
        other = right + torch.where(right // CELLS % 2 == 0, CELLS, -CELLS)
        wrong[rows, other] = False  # the same cell of the other image
        wrong[rows, right] = True  # the positive
        return cross_entropy(logits.masked_fill(~wrong, -torch.inf), right)

    def fda(
        self,
        captioner: IDCPCL,
        cells: Tensor,
        tokens: Tensor,
        present: Tensor | None = None,
        rewriter: Rewriter | None = None,
    ) -> Tensor:
        """Fine-grained difference aligning, mean over pairs; as `mlm`, and what makes the negatives."""
        rewriter = rewriter or self.rewriter
        assert rewriter is not None  # noqa: S101 - built with the task
        rng = np.random.default_rng(int(torch.randint(2**31, ())))
        words = captioner.vocabulary
        decoded = [" ".join(words.decode(s)) for s in _one_sentence(tokens).tolist()]
        true = [[" ".join(words.decode(s)) for s in pair] for pair in tokens.tolist()]
        texts = [
            [text, *(n.text for n in rewriter.negatives(text, rng, _NEGATIVES_EACH, all_true))]
            for text, all_true in zip(decoded, true, strict=True)
        ]
        batch = words.batch(texts, tokens.shape[2]).to(tokens.device)
        n, number = batch.shape[:2]
        repeated = None if present is None else present.repeat_interleave(number, dim=0)
        pictures = captioner.encode_difference(cells, present).repeat_interleave(number, dim=0)
        text, images = captioner.fuse(prepend_start(captioner, batch.flatten(0, 1)), pictures, repeated)
        heads = images[:, ::IMAGE]
        both = heads.mean(dim=1) if present is None else heads[:, 0]
        near = cosine_similarity(both, text[:, 0], dim=1).view(n, number) / self.options.temperature
        there = batch[:, :, 0] != PAD
        return cross_entropy(near.masked_fill(~there, -torch.inf), there.new_zeros(n).long())

    def _task(
        self,
        captioner: IDCPCL,
        task: str,
        cells: Tensor,
        tokens: Tensor,
        *,
        present: Tensor | None = None,
        rewriter: Rewriter | None = None,
    ) -> Tensor:
        has_words = (tokens[:, :, 0] != PAD).any(dim=1)
        cells, tokens, present = (
            cells[has_words],
            tokens[has_words],
            None if present is None else present[has_words],
        )
        if task == "fda":
            return self.fda(captioner, cells, tokens, present, rewriter)
        return (self.mvcl if task == "mvcl" else self.mlm)(captioner, cells, tokens, present)


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
