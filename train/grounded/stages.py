"""Stages of a training: each keeps its result in the run's folder and is not done twice from one input."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from models.checkpoint import write_atomically
from pipeline.disk import replacing

Stateful = nn.Module | torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler
Result = dict[str, Any]
"""Tensors and plain values by names."""


@dataclass(frozen=True, slots=True, eq=False)
class StageOutput:
    result: Result  # of the stage
    key: str  # hash of what it was made from; later stages name it among their inputs


class Stages:
    """The folder of a run: NAME.pt of every finished stage, and a log."""

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        """Make the folder; lines of the log are also given to `note`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._note = folder, note

    def log(self, line: str) -> None:
        with (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {line}\n")
        self._note(line)

    def run(self, name: str, inputs: Mapping[str, Any], make: Callable[[Path], Result]) -> StageOutput:
        """The result of a stage, made now unless it is there.

        Args:
            name: of the stage.
            inputs: plain values that decide its result; where they differ, it is made again.
            make: makes it, given a folder for what an interrupted stage goes on from; its ``log.jsonl`` is
                kept.
        """
        text = json.dumps({"stage": name, **inputs}, sort_keys=True)
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
        buffer = io.BytesIO()
        torch.save({"key": key, "result": result}, buffer)
        write_atomically(path, buffer.getvalue())
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
    if not isinstance(held, dict) or held.get("key") != key:
        return None
    result: Result = held["result"]
    return result


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
