"""What is carried from one epoch of a run to the next, and through its state file."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.captioner import Captioner
from models.checkpoint import ENCODER, save
from pipeline.disk import replacing
from train.learning.distributed import ALONE, ProcessGroup
from train.learning.objectives import Objective

STATE_FORMAT = 2


class TrainError(Exception):
    """Training cannot start or go on; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Point:
    """One epoch of the curves: mean training loss per annotation, validation CIDEr and perplexity.

    An objective with a score of its own has that instead, and neither CIDEr nor perplexity (NaN).
    """

    epoch: int
    train_loss: float
    val_cider: float
    val_perplexity: float
    val_score: float | None = None

    @property
    def score(self) -> float:
        """What chooses between epochs."""
        return self.val_cider if self.val_score is None else self.val_score

    def plain(self) -> dict[str, float | None]:
        """As plain values for JSON, which knows no NaN: the perplexity of a split without clusters."""
        values = {k: v for k, v in asdict(self).items() if v is not None}
        return {k: round(v, 5) if math.isfinite(v) else None for k, v in values.items()}


@dataclass(slots=True)
class RunState:
    """The curves, and the weights of the best epoch, of captioner and objective."""

    curves: list[Point]
    best_epoch: int
    best_weights: dict[str, Tensor]
    best_objective: dict[str, Tensor]

    @property
    def best(self) -> float:
        """The best epoch's score."""
        return self.curves[self.best_epoch - 1].score if self.best_epoch else -math.inf

    def take(self, point: Point, learner: Learner, *, best: bool) -> None:
        """Add an epoch, and keep its weights if it is the best."""
        self.curves.append(point)
        if best:
            self.best_epoch = point.epoch
            self.best_weights = {k: v.clone() for k, v in weights(learner.captioner).items()}
            self.best_objective = {k: v.clone() for k, v in weights(learner.objective).items()}


@dataclass(frozen=True, slots=True, eq=False)
class Learner:
    """Who learns.

    Attributes:
        captioner: it is written as the checkpoint.
        objective: what is lowered, with parameters of its own.
        optimizer: of both.
        group: the processes that learn together.
        bf16: whether the loss is computed in bfloat16.
    """

    captioner: Captioner
    objective: Objective
    optimizer: torch.optim.Optimizer
    group: ProcessGroup = ALONE
    bf16: bool = False

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Everything that is trained."""
        every = [*self.captioner.parameters(), *self.objective.parameters()]
        return [p for p in every if p.requires_grad]


def weights(module: nn.Module) -> dict[str, Tensor]:
    """Its state on the CPU, but for the frozen encoder's."""
    return {k: v.detach().cpu() for k, v in module.state_dict().items() if not k.startswith(ENCODER)}


def fingerprint(captioner: Captioner) -> str:
    """Hash over what must be equal for a run to go on; how long it may last is none of it."""
    decides = {k: v for k, v in captioner.record.items() if k not in ("command", "versions")}
    described = [decides, captioner.arguments(), captioner.vocabulary.words, captioner.encoder.sha256]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Of what trains, for the training record."""
    return {
        "narrated": version("narrated"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def refuse_folder(out: Path) -> None:
    """Nothing is trained for long that could not be written then.

    Raises:
        TrainError: `out` is a folder.
    """
    if out.is_dir():
        raise TrainError(f"{out} is a folder; --out names the checkpoint file to write")


def written(captioner: Captioner, out: Path) -> str:
    """Write a checkpoint; its sha256 (hex).

    Raises:
        TrainError: it cannot be written.
    """
    try:
        return save(captioner, out)
    except OSError as error:
        raise TrainError(f"{out} cannot be written ({error.strerror}); choose another --out") from error


def state_path(out: Path) -> Path:
    """Where the state of the run lies that writes the checkpoint `out`."""
    return out.with_name(out.name + ".state")


def write_state(path: Path, learner: Learner, run: RunState, mark: str) -> None:
    """Write the state beside its place and rename it: a kill must leave the state of the epoch before.

    Raises:
        TrainError: the file cannot be written.
    """
    content = {
        "format": STATE_FORMAT,
        "fingerprint": mark,
        "weights": weights(learner.captioner),
        "objective": weights(learner.objective),
        "optimizer": learner.optimizer.state_dict(),
        "curves": [asdict(p) for p in run.curves],
        "best_epoch": run.best_epoch,
        "best_weights": run.best_weights,
        "best_objective": run.best_objective,
    }
    try:
        with replacing(path, durable=True) as file:
            torch.save(content, file)
    except (OSError, RuntimeError) as error:
        raise TrainError(
            f"{path} cannot be written ({error}); free some space or choose another --out"
        ) from error


def restored(path: Path, learner: Learner, mark: str) -> RunState:
    """Put a run back where its state was written.

    Raises:
        TrainError: the file is damaged, or of a run with other settings or samples.
    """
    try:
        content = torch.load(path, map_location=learner.captioner.device, weights_only=True)
        if content["format"] != STATE_FORMAT or content["fingerprint"] != mark:
            raise TrainError(
                f"{path} is the state of another run (other samples, settings, seed or version); "
                "repeat that run's options, or start anew without --resume"
            )
        learner.captioner.load_state_dict(content["weights"], strict=False)
        learner.objective.load_state_dict(content["objective"])
        learner.optimizer.load_state_dict(content["optimizer"])
        curves = [Point(**p) for p in content["curves"]]
        return RunState(
            curves, content["best_epoch"], _cpu(content["best_weights"]), _cpu(content["best_objective"])
        )
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


def _cpu(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: value.cpu() for name, value in tensors.items()}
