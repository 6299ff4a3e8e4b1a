"""Stages of a training: each keeps its result in the run's folder and is not done twice from one input.

`ChainOptions` are the section `learning` of a configuration.
"""

import hashlib
import json
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pipeline.disk import replacing

Stateful = nn.Module | torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler
Result = dict[str, Any]  # tensors, graphs and plain values by names
_FORMAT = 2  # of what stages keep; results of another one are made again


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """Settings of each part's training; the seed is that of the section `training`."""

    detector_steps: int = 1800  # batches of the detector; 0 leaves it as it starts
    detector_batch: int = 16  # pictures of one, about 230,000 pixels each
    detector_rate: float = 2.5e-4  # its largest learning rate
    memory_mb: int = 2500  # decoded pictures are held in so many megabytes
    feature_steps: int = 3000  # batches of the embedding of the detector's features
    classifier_pairs: int = 6000  # pairs of frames from which the change classifier learns
    classifier_steps: int = 3000  # its batches
    members: int = 1  # feature embeddings and classifiers of other seeds, which answer as one
    embedding_steps: int = 400  # batches of the appearance embedding's last layer; 0 leaves it the identity

    def __post_init__(self) -> None:
        if min(astuple(self)[1:-1]) <= 0 or min(self.detector_steps, self.embedding_steps) < 0:
            raise ValueError(
                f"learning options must be positive, steps of detector and embedding or 0: {self}"
            )


@dataclass(frozen=True, slots=True)
class StageOptions:
    steps: int = 1800  # batches
    batch: int = 16  # pictures, or pairs of them, of one
    rate: float = 2.5e-4  # largest learning rate
    warm_up: int = 150  # steps over which the rate rises to it
    average: float = 0.998  # of the weights, the share that stays at each step
    clip: float = 5.0  # largest norm of the gradients
    seed: int = 1  # of what is drawn


@dataclass(frozen=True, slots=True, eq=False)
class StageOutput:
    result: Result  # of the stage
    key: str  # hash of what it was made from; later stages name it among their inputs


class Stages:
    """The folder of a run: NAME.pt of every finished stage, and a log."""

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._note = folder, note

    def log(self, line: str) -> None:
        with (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {line}\n")
        self._note(line)

    def run(self, name: str, inputs: Mapping[str, Any], make: Callable[[Path], Result]) -> StageOutput:
        """The result of a stage, made now unless it is there from the same inputs (plain values).

        `make` is given a folder for what an interrupted stage goes on from; its ``log.jsonl`` is kept.
        """
        text = json.dumps({"stage": name, "format": _FORMAT, **inputs}, sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()
        path = self.folder / f"{name}.pt"
        kept = _read_result(path, key)
        if kept is not None:
            self.log(f"{name}: there already, made from the same")
            return StageOutput(kept, key)
        self.log(f"{name}: begins")
        began = time.monotonic()
        scratch = self.folder / f"{name}-{key[:12]}"
        scratch.mkdir(exist_ok=True)
        result = make(scratch)
        with replacing(path, durable=True) as file:
            torch.save({"key": key, "result": result}, file)
        if (scratch / "log.jsonl").exists():
            (scratch / "log.jsonl").replace(self.folder / f"{name}.jsonl")
        shutil.rmtree(scratch)
        self.log(f"{name}: done in {time.monotonic() - began:.0f} s")
        return StageOutput(result, key)


def _read_result(path: Path, key: str) -> Result | None:
    """The result in a file, if it was made from the inputs of this key."""
    try:
        held = torch.load(path, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
        return None  # absent, or cut short: made again
    return held["result"] if isinstance(held, dict) and held.get("key") == key else None


def kept_rows(path: Path, make: Callable[[], Iterable[Any]]) -> list[dict[str, Any]]:
    """Dataclasses as dicts, made once and kept: whole or missing, whenever the power fails."""
    if not path.exists():
        rows = [asdict(each) for each in make()]
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, durable=True) as file:
            torch.save(rows, file)
    kept: list[dict[str, Any]] = torch.load(path, weights_only=True)
    return kept


def save_state(path: Path, step: int, **parts: Stateful) -> None:
    """Keep what an interrupted training goes on from, whole or not at all."""
    with replacing(path, durable=True) as file:
        torch.save({"step": step, **{name: part.state_dict() for name, part in parts.items()}}, file)


def load_state(path: Path, **parts: Stateful) -> int:
    """Put back what `save_state` kept; its step, 0 where nothing was kept."""
    if not path.exists():
        return 0
    kept = torch.load(path, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(kept[name])
    return int(kept["step"])
