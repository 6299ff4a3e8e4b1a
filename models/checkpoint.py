"""Checkpoints: a captioner in one file that describes itself.

A safetensors file: the weights but for the frozen encoder's, and in its metadata, under "narrated", JSON with
the format, the captioner's name, its constructor's arguments, the encoder's name and hash, the vocabulary and
the training record. Tensors and plain values only, so that nothing in it can run.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save as serialized

from models import DEFAULT_CHECKPOINT
from models.captioner import Captioner
from models.label import FORMAT, KEY, CheckpointLabel, read_label
from models.tracking_weights import TrackingWeights


def save(captioner: Captioner, path: Path) -> str:
    """Write a captioner to a file, atomically; its sha256. Equal weights and record give equal bytes."""
    label = {"format": FORMAT, "captioner": captioner.name, "record": captioner.record, **captioner.label()}
    captioner.sha256 = write_labelled(label, captioner.arrays(), path)
    return captioner.sha256


def write_labelled(label: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], path: Path) -> str:
    weights = {name: np.asarray(value, order="C") for name, value in arrays.items()}
    return write_atomically(path, serialized(weights, metadata={KEY: json.dumps(label, sort_keys=True)}))


def write_atomically(path: Path, content: bytes) -> str:
    """Write a file atomically, and return its sha256 (hex); its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside it and then renamed: a full disk or a kill must not leave half a checkpoint.
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        written = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            written.chmod(0o644)
            written.replace(path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise
    return hashlib.sha256(content).hexdigest()


def read_checkpoint(path: Path) -> tuple[CheckpointLabel, dict[str, NDArray[Any]]]:
    """The label and the weights by name, without building the captioner; raises `CheckpointError`."""
    label = read_label(path)
    with safe_open(path, framework="np") as file:
        return label, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


@cache
def packaged_tracking() -> TrackingWeights:
    """Of the checkpoint that ships: also for captioners that were adapted before checkpoints held them."""
    return TrackingWeights.of(read_checkpoint(DEFAULT_CHECKPOINT)[1])
