"""The training loop, one for all captioners.

Adam (Jhamtani 2018: batches of 8), gradient clipping, early stop on the validation split's single-sentence
CIDEr, which is the one declared metric and chooses the checkpoint. Order and dropout of an epoch follow from
seed and epoch alone; the state is written after every epoch, so that a resumed run ends in the same
checkpoint, byte by byte, as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from models import save
from models.captioner import Captioner
from models.checkpoint import ENCODER
from train.batches import Split, epoch_batches, prior_features
from train.evaluate import perplexity, single_sentences
from train.scores import text_scores

STATE_FORMAT = 1
METRIC = "val_cider"


class TrainError(Exception):
    """Training cannot start or go on; the message says what to do."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How a captioner is trained.

    Attributes:
        epochs: at most this many.
        batch: annotations in a batch (the paper's 8).
        learning_rate: of Adam, in the first epoch.
        decay: the learning rate is multiplied by this after every epoch; 1 keeps it.
        clip_norm: gradients are scaled down to at most this norm.
        patience: training stops when the validation CIDEr has not risen for this many epochs.
        seed: of weights, order and dropout.
        max_words: longer training sentences are cut.
        keep: which epoch's weights are kept: the best by validation CIDEr, or the last, for a schedule whose
            rate has fallen by then (few validation cameras choose between epochs by chance).
    """

    epochs: int = 20
    batch: int = 8
    learning_rate: float = 1e-3
    decay: float = 1.0
    clip_norm: float = 5.0
    patience: int = 4
    seed: int = 0
    max_words: int = 24
    keep: Literal["best", "last"] = "best"

    def __post_init__(self) -> None:
        positive = (self.epochs, self.batch, self.learning_rate, self.decay, self.clip_norm, self.max_words)
        if min(positive) <= 0 or min(self.patience, self.seed) < 0:
            raise ValueError(f"training options must be positive (patience and seed at least 0): {self}")


@dataclass(frozen=True, slots=True)
class Point:
    """One epoch of the curves: mean training loss per annotation, validation CIDEr and perplexity."""

    epoch: int
    train_loss: float
    val_cider: float
    val_perplexity: float


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


@dataclass(slots=True)
class _Run:
    """What is carried from one epoch to the next, and through the state file."""

    curves: list[Point]
    best_epoch: int
    best_weights: dict[str, Tensor]

    @property
    def best(self) -> float:
        return self.curves[self.best_epoch - 1].val_cider if self.best_epoch else -math.inf


OnBatch = Callable[[int, int, int, float], None]
"""Called with epoch, batches done, batches of the epoch, and the loss."""


def train(
    captioner: Captioner,
    training: Split,
    validation: Split,
    options: TrainOptions,
    out: Path,
    *,
    record: Mapping[str, Any] | None = None,
    resume: bool = False,
    keep_scaling: bool = False,
    on_batch: OnBatch | None = None,
    on_epoch: Callable[[Point], None] | None = None,
) -> Trained:
    """Train a captioner and keep its best epoch.

    Args:
        captioner: newly built, or trained already; afterwards it holds the best epoch's weights.
        training: what is learnt.
        validation: chooses the epoch.
        options: how.
        out: where the checkpoint is kept; the state of the run lies beside it under ``<out>.state``.
        record: plain values that go into the checkpoint's training record.
        resume: go on from the state, where there is one.
        keep_scaling: leave the scaling of the prior's features as it is, for a captioner trained already.
        on_batch: told how far an epoch is.
        on_epoch: told each point of the curves.

    Returns:
        Curves and the chosen epoch.

    Raises:
        TrainError: nothing to train on, a state of another run, or the loss is no longer a number.
    """
    if not training.annotations:
        raise TrainError(
            f"nothing to train on: none of {len(training.samples)} pairs has a cluster of differing pixels; "
            "lower delta or min_area under `changes`"
        )
    captioner.record = {**(record or {}), **_provenance(captioner, training, validation, options)}
    fingerprint = _fingerprint(captioner)
    optimizer = torch.optim.Adam(
        [p for p in captioner.parameters() if p.requires_grad], lr=options.learning_rate
    )
    state = state_path(out)
    run = _Run([], 0, {})
    with torch.random.fork_rng():
        if resume and state.exists():
            run = _restored(state, captioner, optimizer, fingerprint)
        elif not keep_scaling:
            captioner.fit_scaling(prior_features(training).to(captioner.device))
        started, first = time.monotonic(), len(run.curves)
        while len(run.curves) < options.epochs and not _stale(run, options):
            _epoch(captioner, optimizer, training, validation, options, run=run, on_batch=on_batch)
            if run.best_epoch == len(run.curves):
                _save_best(captioner, run, out)
            _write_state(state, captioner, optimizer, run, fingerprint)
            if on_epoch:
                on_epoch(run.curves[-1])
    seconds = (time.monotonic() - started) / max(len(run.curves) - first, 1)
    captioner.load_state_dict(run.best_weights, strict=False)
    _save_best(captioner, run, out)
    return Trained(tuple(run.curves), run.best_epoch, _stale(run, options), seconds)


def state_path(out: Path) -> Path:
    """Where the state of the run lies that writes the checkpoint `out`."""
    return out.with_name(out.name + ".state")


def _epoch(
    captioner: Captioner,
    optimizer: torch.optim.Optimizer,
    training: Split,
    validation: Split,
    options: TrainOptions,
    *,
    run: _Run,
    on_batch: OnBatch | None,
) -> None:
    """One pass over the training split, and its point of the curves."""
    epoch = len(run.curves) + 1
    for group in optimizer.param_groups:
        group["lr"] = options.learning_rate * options.decay ** (epoch - 1)
    # Dropout of an epoch must not depend on how the run came here, or a resumed run would differ.
    torch.manual_seed(int(np.random.SeedSequence([options.seed, epoch, 1]).generate_state(1)[0]))
    batches = -(-len(training.annotations) // options.batch)
    total = 0.0
    captioner.train()
    ordered = epoch_batches(
        training,
        captioner.vocabulary,
        options.batch,
        seed=options.seed,
        epoch=epoch,
        max_words=options.max_words,
    )
    for number, (pairs, tokens) in enumerate(ordered, start=1):
        loss = captioner.loss(pairs.to(captioner.device), tokens.to(captioner.device))
        value = loss.item()
        if not math.isfinite(value):
            raise TrainError(
                f"the loss is {value} in epoch {epoch}, batch {number}; lower learning_rate "
                f"({options.learning_rate:g}) or clip_norm ({options.clip_norm:g})"
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(captioner.parameters(), options.clip_norm)
        optimizer.step()
        total += value * len(tokens)
        if on_batch:
            on_batch(epoch, number, batches, value)
    cider = text_scores(single_sentences(captioner, validation), validation.sentences).cider
    point = Point(epoch, total / len(training.annotations), cider, perplexity(captioner, validation))
    if options.keep == "last" or cider > run.best:
        run.best_epoch = epoch
        run.best_weights = {name: value.clone() for name, value in _weights(captioner).items()}
    run.curves.append(point)


def _stale(run: _Run, options: TrainOptions) -> bool:
    return bool(run.best_epoch) and len(run.curves) - run.best_epoch >= max(options.patience, 1)


def _save_best(captioner: Captioner, run: _Run, out: Path) -> None:
    # JSON knows no NaN, which is the perplexity of a split without clusters.
    curves = [
        {k: round(v, 5) if math.isfinite(v) else None for k, v in asdict(p).items()} for p in run.curves
    ]
    captioner.record = {**captioner.record, "curves": curves, "best_epoch": run.best_epoch}
    try:
        save(captioner, out)
    except OSError as error:
        raise TrainError(f"{out} cannot be written: {error.strerror}; choose another --out") from error


def _provenance(
    captioner: Captioner, training: Split, validation: Split, options: TrainOptions
) -> dict[str, Any]:
    """What decides the result, as plain values; nothing about the machine's paths or clock."""
    settings = asdict(options)
    for stops in ("epochs", "patience"):
        settings.pop(stops)
    return {
        "captioner": captioner.name,
        "training": settings,
        "metric": METRIC,
        "train_sha256": training.sha256,
        "val_sha256": validation.sha256,
        "train_pairs": len(training.samples),
        "train_annotations": len(training.annotations),
        "skipped_annotations": training.skipped,
        "val_pairs": len(validation.samples),
        "versions": {
            "narrated": version("narrated"),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }


def _fingerprint(captioner: Captioner) -> str:
    """Hash over what must be equal for a run to go on; how long it may last is none of it."""
    decides = {k: v for k, v in captioner.record.items() if k not in ("command", "versions")}
    described = [decides, captioner.arguments(), captioner.vocabulary.words, captioner.encoder.sha256]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _weights(captioner: Captioner) -> dict[str, Tensor]:
    return {k: v.detach().cpu() for k, v in captioner.state_dict().items() if not k.startswith(ENCODER)}


def _write_state(
    path: Path, captioner: Captioner, optimizer: torch.optim.Optimizer, run: _Run, fingerprint: str
) -> None:
    """Write the state beside its place and rename it: a kill must leave the state of the epoch before."""
    part = path.with_name(path.name + ".part")
    content = {
        "format": STATE_FORMAT,
        "fingerprint": fingerprint,
        "weights": _weights(captioner),
        "optimizer": optimizer.state_dict(),
        "curves": [asdict(p) for p in run.curves],
        "best_epoch": run.best_epoch,
        "best_weights": run.best_weights,
    }
    try:
        with part.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, RuntimeError) as error:
        part.unlink(missing_ok=True)
        raise TrainError(
            f"{path} cannot be written ({error}); free some space or choose another --out"
        ) from error


def _restored(path: Path, captioner: Captioner, optimizer: torch.optim.Optimizer, fingerprint: str) -> _Run:
    """Put a run back where its state was written.

    Raises:
        TrainError: the file is damaged, or of a run with other settings or samples.
    """
    try:
        content = torch.load(path, map_location=captioner.device, weights_only=True)
        if content["format"] != STATE_FORMAT or content["fingerprint"] != fingerprint:
            raise TrainError(
                f"{path} is the state of another run (other samples, settings, seed or version); "
                "repeat that run's options, or start anew without --resume"
            )
        captioner.load_state_dict(content["weights"], strict=False)
        optimizer.load_state_dict(content["optimizer"])
        best = {name: value.cpu() for name, value in content["best_weights"].items()}
        return _Run([Point(**p) for p in content["curves"]], content["best_epoch"], best)
    except (
        OSError,
        RuntimeError,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        pickle.UnpicklingError,
    ) as error:
        raise TrainError(f"{path} is damaged ({error!r}); start anew without --resume") from error
