"""The label of a checkpoint, read without its weights and without torch."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

FORMAT = 2  # since 2 the grounded captioner's detector is an ONNX graph

KEY = "narrated"


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
