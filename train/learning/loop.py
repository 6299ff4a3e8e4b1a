"""The training loop, one for all captioners and objectives.

Adam (Jhamtani 2018: batches of 8), gradient clipping, early stop on the validation split's single-sentence
CIDEr, which is the one declared metric and chooses the checkpoint. Order and dropout of an epoch follow from
seed and epoch alone; the state is written after every epoch, so that a resumed run ends in the same
checkpoint, byte by byte, as an uninterrupted one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from models.captioner import Captioner, PairBatch
from models.papers.nearest import Nearest
from train.learning.batches import (
    Split,
    annotations_an_epoch,
    by_pair,
    epoch_batches,
    prior_features,
    tells_stories,
)
from train.learning.distributed import ProcessGroup
from train.learning.evaluation import likelihood, single_sentences
from train.learning.objectives import Objective, Own, Step
from train.learning.run_options import USUAL, OnBatch, RunOptions
from train.learning.run_state import (
    Learner,
    Point,
    RunState,
    TrainError,
    fingerprint,
    restored,
    state_path,
    versions,
    write_state,
    written,
)
from train.metrics.scores import text_scores

__all__ = ["Point", "TrainError", "TrainOptions", "Trained", "state_path", "train"]

LOADERS = min(os.cpu_count() or 1, 4)
"""Threads that make batches for another device; on the CPU training has the cores for itself."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How a captioner is trained.

    Attributes:
        epochs: at most this many.
        batch: annotations in a batch (the paper's 8).
        learning_rate: of Adam, in the first epoch.
        decay: the learning rate is multiplied by this after every `decay_every` epochs; 1 keeps it.
        decay_every: epochs, at least 1.
        warmup: batches over which the learning rate rises to its value, after which it falls with the root of
            the batch's number (Noam, Vaswani et al. 2017); 0 keeps it.
        clip_norm: gradients are scaled down to at most this norm.
        patience: training stops when the validation CIDEr has not risen for this many epochs.
        seed: of weights, order and dropout.
        max_words: longer training sentences are cut.
        keep: which epoch's weights are kept: the best by validation CIDEr, or the last, for a schedule whose
            rate has fallen by then (few validation cameras choose between epochs by chance).
        by_pair: whether what all annotators say of a pair is learnt at once: the pair is looked at once an
            epoch instead of once for each of them. A batch then counts pairs. Not for stories, nor where an
            objective takes all of it as one text.
        drawn: whether an epoch takes one annotation of each pair, drawn by chance, instead of all.
        swapped: share 0..1 of the pairs of a scene seen twice without a change that are seen from the other
            view, see `train.learning.batches.twins`. Not for captioners that look at masks.
    """

    epochs: int = 20
    batch: int = 8
    learning_rate: float = 1e-3
    decay: float = 1.0
    decay_every: int = 1
    warmup: int = 0
    clip_norm: float = 5.0
    patience: int = 4
    seed: int = 0
    max_words: int = 24
    keep: Literal["best", "last"] = "best"
    by_pair: bool = False
    drawn: bool = False
    swapped: float = 0.0

    def __post_init__(self) -> None:
        counts = (self.epochs, self.batch, self.max_words, self.decay_every)
        if min(*counts, self.learning_rate, self.decay, self.clip_norm) <= 0 or (
            min(self.patience, self.seed, self.warmup) < 0
        ):
            raise ValueError(
                f"training options must be positive (patience, seed and warmup at least 0): {self}"
            )
        if not 0 <= self.swapped <= 1 or (self.by_pair and self.drawn):
            raise ValueError("swapped must be in 0..1; by_pair takes all annotations and drawn one: choose")

    def rate(self, step: Step) -> float:
        """The learning rate of a batch."""
        rate = self.learning_rate * self.decay ** ((step.epoch - 1) // self.decay_every)
        if self.warmup:
            reached = (step.done + 1) / self.warmup
            rate *= min(reached, reached**-0.5)
        return rate


@dataclass(frozen=True, slots=True)
class Trained:
    """What came of a training run.

    Attributes:
        curves: one point per epoch.
        best_epoch: the epoch that the checkpoint is from, from 1.
        stopped_early: True where `patience` ended it.
        seconds: mean seconds per epoch of this run, validation included.
    """

    curves: tuple[Point, ...]
    best_epoch: int
    stopped_early: bool
    seconds: float


def train(
    captioner: Captioner,
    training: Split,
    validation: Split,
    options: TrainOptions,
    out: Path,
    *,
    objective: Objective | None = None,
    record: Mapping[str, Any] | None = None,
    run: RunOptions = USUAL,
) -> Trained:
    """Train a captioner, new or trained before; it and the checkpoint `out` keep the best epoch.

    The state of the run lies beside that under ``<out>.state``; `record` goes into the training record.

    Raises:
        TrainError: nothing to train on, a state of another run, or the loss is no longer a number.
    """
    objective = (objective or Own()).to(captioner.device)
    training = _suited(captioner, training, objective, options)
    precision = {"precision": "bfloat16"} if run.bf16 else {}
    decisive = _provenance(captioner, training, validation, options, objective)
    captioner.record = {**(record or {}), **precision, **decisive}
    if isinstance(captioner, Nearest):
        return _memorised(captioner, training, validation, options, out, group=run.group)
    learner, mark = _learner(captioner, objective, options, run), fingerprint(captioner)
    with torch.random.fork_rng():
        state = _begun(learner, training, out, mark, resume=run.resume)
        started, first = time.monotonic(), len(state.curves)
        while len(state.curves) < options.epochs and not _stale(state, options):
            _epoch(learner, training, validation, options, state, on_batch=run.telling.batch)
            _kept(learner, state, out, mark)
            run.telling.epoch(state.curves[-1])
    seconds = (time.monotonic() - started) / max(len(state.curves) - first, 1)
    captioner.load_state_dict(state.best_weights, strict=False)
    objective.load_state_dict(state.best_objective)
    _save_best(learner, state, out)
    return Trained(tuple(state.curves), state.best_epoch, _stale(state, options), seconds)


def _begun(learner: Learner, training: Split, out: Path, mark: str, *, resume: bool) -> RunState:
    """The state of the run that is gone on with, or of a new one."""
    captioner, path = learner.captioner, state_path(out)
    state = RunState([], 0, {}, {})
    if resume and path.exists():
        state = restored(path, learner, mark)
    elif not captioner.whole:
        captioner.fit_scaling(prior_features(training).to(captioner.device))
    learner.group.alike([*captioner.state_dict().values(), *learner.objective.state_dict().values()])
    return state


def _kept(learner: Learner, state: RunState, out: Path, mark: str) -> None:
    """Write what an epoch leaves: the checkpoint if it is the best, the state of the run in any case."""
    if state.best_epoch == len(state.curves):
        _save_best(learner, state, out)
    if learner.group.first:
        write_state(state_path(out), learner, state, mark)


def _suited(captioner: Captioner, training: Split, objective: Objective, options: TrainOptions) -> Split:
    """The split with pairs instead of annotations, where the options say so and it can be."""
    if not training.annotations:
        raise TrainError(
            f"nothing to train on: none of {len(training.samples)} pairs has a cluster of differing pixels; "
            "lower delta or min_area under `changes`"
        )
    if options.swapped and captioner.needs_masks:
        raise TrainError(
            f"{captioner.name} looks at masks, which are of one before frame: leave out training.swapped"
        )
    if not options.by_pair:
        return training
    if objective.one_text:
        raise TrainError(
            f"objective {objective.name} takes an annotator's sentences as one text, and would take those of "
            "all: leave out training.by_pair; training.drawn looks at each pair once an epoch, too"
        )
    if tells_stories(captioner):
        raise TrainError(
            f"{captioner.name} learns an annotator's sentences as one story: leave out training.by_pair"
        )
    return by_pair(training)


def _memorised(
    captioner: Nearest,
    training: Split,
    validation: Split,
    options: TrainOptions,
    out: Path,
    *,
    group: ProcessGroup,
) -> Trained:
    """Train a captioner that keeps the training pairs: one pass, nothing to lower, no epochs to choose."""
    started = time.monotonic()
    words, most = captioner.vocabulary, options.max_words
    captioner.memorise(
        epoch_batches(training, words, options.batch, seed=options.seed, epoch=1, max_words=most)
    )
    cider = text_scores(single_sentences(captioner, validation), validation.sentences).cider
    point = Point(1, 0.0, cider, math.nan)
    if group.first:
        _write(captioner, [point], 1, out)
    return Trained((point,), 1, stopped_early=False, seconds=time.monotonic() - started)


def _learner(captioner: Captioner, objective: Objective, options: TrainOptions, run: RunOptions) -> Learner:
    trained = [p for p in (*captioner.parameters(), *objective.parameters()) if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=options.learning_rate)
    return Learner(captioner, objective, optimizer, run.group, run.bf16)


def _epoch(
    learner: Learner,
    training: Split,
    validation: Split,
    options: TrainOptions,
    state: RunState,
    *,
    on_batch: OnBatch,
) -> None:
    """One pass over the training split, and its point of the curves."""
    epoch, captioner, group = len(state.curves) + 1, learner.captioner, learner.group
    # Dropout of an epoch must not depend on how the run came here, or a resumed run would differ.
    drawn = [options.seed, epoch, 1, *([group.rank] if group.rank else [])]
    torch.manual_seed(int(np.random.SeedSequence(drawn).generate_state(1)[0]))
    whole = annotations_an_epoch(training, drawn=options.drawn)
    batches = -(-whole // options.batch)
    total = 0.0
    captioner.train()
    learner.objective.train()
    ordered = epoch_batches(
        training,
        captioner.vocabulary,
        options.batch,
        seed=options.seed,
        epoch=epoch,
        max_words=options.max_words,
        group=group,
        drawn=options.drawn,
        swapped=options.swapped,
        workers=0 if captioner.device.type == "cpu" else LOADERS,
    )
    for number, (pairs, tokens) in enumerate(ordered, start=1):
        size = min(options.batch, whole - (number - 1) * options.batch)
        value = _lowered(learner, pairs, tokens, Step(epoch, number, batches), options, size=size)
        total += value * size
        on_batch(epoch, number, batches, value)
    loss = total / whole
    point = group.from_first(lambda: _measured(learner, validation, epoch, loss))
    state.take(point, learner, best=options.keep == "last" or point.score > state.best)


def _lowered(
    learner: Learner, pairs: PairBatch, tokens: Tensor, step: Step, options: TrainOptions, *, size: int
) -> float:
    """Take one step of the optimizer, and return the loss before it, of a batch of `size` annotations."""
    captioner, optimizer, group = learner.captioner, learner.optimizer, learner.group
    for each in optimizer.param_groups:
        each["lr"] = options.rate(step)
    pairs, tokens = pairs.to(captioner.device), tokens.to(captioner.device)
    with torch.autocast(captioner.device.type, torch.bfloat16) if learner.bf16 else nullcontext():
        loss = learner.objective.loss(captioner, pairs, tokens, step)
    if group.size > 1:
        loss = loss * group.weight(size)
    value = group.summed(loss.item())
    if not math.isfinite(value):
        raise TrainError(
            f"the loss is {value} in epoch {step.epoch}, batch {step.number}; lower learning_rate "
            f"({options.learning_rate:g}) or clip_norm ({options.clip_norm:g})"
        )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    parameters = learner.parameters
    group.sum_gradients(parameters)
    torch.nn.utils.clip_grad_norm_(parameters, options.clip_norm)
    optimizer.step()
    return value


def _measured(learner: Learner, validation: Split, epoch: int, loss: float) -> Point:
    captioner = learner.captioner
    captioner.eval()
    learner.objective.eval()
    score = learner.objective.score(captioner, validation)
    if score is not None:
        return Point(epoch, loss, math.nan, math.nan, score)
    cider = text_scores(single_sentences(captioner, validation), validation.sentences).cider
    return Point(epoch, loss, cider, likelihood(captioner, validation).perplexity)


def _stale(state: RunState, options: TrainOptions) -> bool:
    return bool(state.best_epoch) and len(state.curves) - state.best_epoch >= max(options.patience, 1)


def _save_best(learner: Learner, state: RunState, out: Path) -> None:
    if learner.group.first:
        _write(learner.captioner, state.curves, state.best_epoch, out, learner.objective)


def _write(
    captioner: Captioner, curves: list[Point], best_epoch: int, out: Path, objective: Objective | None = None
) -> None:
    """Write the checkpoint, and what the objective leaves beside it."""
    plain = [p.plain() for p in curves]
    captioner.record = {**captioner.record, "curves": plain, "best_epoch": best_epoch}
    written(captioner, out)
    try:
        if objective is not None:
            objective.keep(captioner, out)
    except OSError as error:
        raise TrainError(f"{out} cannot be written: {error.strerror}; choose another --out") from error


def _provenance(
    captioner: Captioner, training: Split, validation: Split, options: TrainOptions, objective: Objective
) -> dict[str, Any]:
    """What decides the result, as plain values; nothing about the machine's paths or clock."""
    settings = asdict(options)
    for stops in ("epochs", "patience"):
        settings.pop(stops)
    record = {} if isinstance(objective, Own) else {"name": objective.name, **objective.arguments()}
    return {
        "captioner": captioner.name,
        "training": settings,
        **({"objective": record} if record else {}),
        "metric": objective.metric,
        "train_sha256": training.sha256,
        "val_sha256": validation.sha256,
        "train_pairs": len(training.samples),
        "train_annotations": len(training.annotations),
        "skipped_annotations": training.skipped,
        "val_pairs": len(validation.samples),
        "versions": versions(),
    }
