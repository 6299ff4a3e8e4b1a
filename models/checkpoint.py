"""Checkpoints: a captioner in one file that describes itself.

A safetensors file: the weights but for the frozen encoder's, and in its metadata, under "narrated", JSON with
the format, the captioner's name, its constructor's arguments, the encoder's name and hash, the vocabulary and
the training record. Tensors and plain values only, so that nothing in it can run.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save as serialized
from torch import Tensor

from models.captioner import Captioner
from models.label import FORMAT, GRAPH, KEY, CheckpointError, CheckpointLabel, read_label

ENCODER = "encoder."


def save(captioner: Captioner, path: Path) -> str:
    """Write a captioner to a file, atomically.

    Args:
        captioner: as it is; its `sha256` becomes that of the file.
        path: ends usually in ``.safetensors``; its folder is made if need be.

    Returns:
        sha256 (hex) of the file. The same weights and record give the same bytes.
    """
    described = {
        "format": FORMAT,
        "captioner": captioner.name,
        "arguments": captioner.arguments(),
        "encoder": {"name": captioner.encoder.name, "sha256": captioner.encoder.sha256},
        "vocabulary": captioner.vocabulary.words[4:],
        "record": captioner.record,
    }
    weights = {
        name: value.detach().cpu().contiguous()
        for name, value in captioner.state_dict().items()
        if not name.startswith(ENCODER)
    }
    for name, graph in captioner.graphs.items():
        weights[GRAPH + name] = torch.frombuffer(bytearray(graph), dtype=torch.uint8)
    content = serialized(weights, metadata={KEY: json.dumps(described, sort_keys=True)})
    captioner.sha256 = write_atomically(path, content)
    return captioner.sha256


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


def read_checkpoint(path: Path) -> tuple[CheckpointLabel, dict[str, Tensor]]:
    """The label of a checkpoint file, and its weights by name; the captioner is not built.

    Raises:
        CheckpointError: absent, damaged, not a checkpoint of this project, or of a later format.
    """
    label = read_label(path)
    with safe_open(path, framework="pt") as file:
        return label, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


def fill(captioner: Captioner, label: CheckpointLabel, weights: Mapping[str, Tensor], path: Path) -> None:
    """Give a newly built captioner a checkpoint's weights, record and hash.

    Raises:
        CheckpointError: weights are missing, too many, or of other shapes.
    """
    graphs = {name: value for name, value in weights.items() if name.startswith(GRAPH)}
    captioner.graphs = {k.removeprefix(GRAPH): v.numpy().tobytes() for k, v in graphs.items()}
    own = {name: value for name, value in weights.items() if name not in graphs}
    try:
        missing, unexpected = captioner.load_state_dict(own, strict=False)
    except RuntimeError as error:
        raise CheckpointError(
            f"{path}: the weights do not fit captioner {captioner.name}: {error}"
        ) from error
    lacking = [name for name in missing if not name.startswith(ENCODER)]
    if lacking or unexpected:
        raise CheckpointError(
            f"{path} does not fit this version's captioner {captioner.name} "
            f"(missing {lacking[:3]}, unknown {list(unexpected)[:3]}); train it again, or install the "
            "version it is from"
        )
    captioner.record = label.record
    captioner.sha256 = label.sha256
