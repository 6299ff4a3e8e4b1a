"""Conversion of grounded checkpoints of format 1, which held the detector as tensors, to format 2.

python -m train.grounded.conversion OLD NEW
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from models.checkpoint import read_checkpoint, save
from models.families import CLASSES
from models.grounded.detector import Detector
from models.grounded.grounded import Grounded
from train.grounded.graph import draw


def convert(old: Path, new: Path) -> str:
    """Write a checkpoint of format 1 as one of format 2, with the same weights.

    Returns:
        sha256 (hex) of the new file.
    """
    label, arrays = read_checkpoint(old)
    net = Detector(len(CLASSES))
    net.load_state_dict({name: torch.from_numpy(each) for name, each in _part(arrays, "detector.").items()})
    found = {name: each for name, each in arrays.items() if "_weights" in name or name == "threshold"}
    found |= {name: each for name, each in arrays.items() if name.startswith("graph.")}
    found["graph.detector"] = np.frombuffer(draw(net.eval()), np.uint8)
    embeddings = _part(arrays, "embeddings.")
    for part in ("weight", "bias"):
        found[f"embedding.{part}"] = _stack(embeddings, f"embed.{part}")
    classifier = _part(arrays, "classifier.")
    for part in ("mean", "deviation"):
        found[f"classifier.{part}"] = _stack(classifier, part)
    for n, layer in enumerate((0, 2, 4)):
        for part in ("weight", "bias"):
            found[f"classifier.{n}.{part}"] = _stack(classifier, f"net.{layer}.{part}")
    captioner = Grounded.of(label, found, "cpu")
    captioner.record = label.record
    return save(captioner, new)


def _part(arrays: Mapping[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    return {key.removeprefix(name): each for key, each in arrays.items() if key.startswith(name)}


def _stack(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """Of all members; a single one has no number in its names."""
    if name in arrays:
        return arrays[name][None]
    members = len({key.partition(".")[0] for key in arrays})
    return np.stack([arrays[f"{member}.{name}"] for member in range(members)])


if __name__ == "__main__":
    print(convert(Path(sys.argv[1]), Path(sys.argv[2])))  # noqa: T201
