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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

if TYPE_CHECKING:  # reading a label must not load it
    from numpy.typing import NDArray

FORMAT = 2  # since 2 the grounded captioner's detector is an ONNX graph

KEY = "narrated"

_WEIGHTS = Path(__file__).parent / "weights"

SHIPPED = {"grounded": _WEIGHTS / "grounded.safetensors", "ddla": _WEIGHTS / "ddla.safetensors"}
"""The checkpoints that this project trained and that ship with the package, by name."""

DEFAULT = "grounded"  # name of the default captioner


class CheckpointError(Exception):
    """A checkpoint cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointLabel:
    """Metadata of a checkpoint."""

    name: str  # of its captioner, a key of `CAPTIONERS`
    arguments: Mapping[str, Any]  # of its constructor, besides vocabulary and encoder
    encoder: str  # a key of `ENCODERS`, and the hash (hex) of the weights it was trained on
    encoder_sha256: str
    words: tuple[str, ...]  # the vocabulary without the special words
    record: Mapping[str, Any]  # how it was trained
    sha256: str  # of the file (hex), and its format
    format: int = FORMAT


def read_label(path: Path) -> CheckpointLabel:
    """The label of a checkpoint file; CheckpointError where it is absent, damaged, or of a later format."""
    try:
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
    except FileNotFoundError as error:
        raise CheckpointError(
            f"no checkpoint at {path}; give the path of one, or train one with narrated-train"
        ) from error
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} is damaged, cut short or not a checkpoint ({error}); copy it again from its source"
        ) from error
    if KEY not in metadata:
        raise CheckpointError(
            f"{path} holds tensors but is not a checkpoint of narrated; give one that narrated-train wrote"
        )
    return _parse_label(path, metadata[KEY], sha256)


def _parse_label(path: Path, text: str, sha256: str) -> CheckpointLabel:
    try:
        described = json.loads(text)
        if described["format"] > FORMAT:
            raise CheckpointError(
                f"{path} has format {described['format']}, this version reads up to {FORMAT}: update narrated"
            )
        return CheckpointLabel(
            name=described["captioner"],
            arguments=described["arguments"],
            encoder=described["encoder"]["name"],
            encoder_sha256=described["encoder"]["sha256"],
            words=tuple(described["vocabulary"]),
            record=described["record"],
            sha256=sha256,
            format=described["format"],
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: its description is damaged ({error!r}); copy or train it again"
        ) from error


def read_checkpoint(path: Path) -> tuple[CheckpointLabel, dict[str, NDArray[Any]]]:
    """The label and the weights by name, without building the captioner; raises `CheckpointError`."""
    label = read_label(path)
    with safe_open(path, framework="np") as file:
        return label, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


def write_labelled(label: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], path: Path) -> str:
    from safetensors.numpy import save as serialized  # noqa: PLC0415 - loads NumPy

    weights = {name: value if value.flags.c_contiguous else value.copy("C") for name, value in arrays.items()}
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
