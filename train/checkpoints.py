"""Writing checkpoints of trained captioners, and what their training record says of the software."""

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from models import load_captioner
from models.captioner import Captioner
from models.grounded.grounded import Grounded
from pipeline.changes import ChangeOptions


class TrainError(Exception):
    """Training cannot start or go on; the message says what to do."""


def refuse_folder(out: Path) -> None:
    """Check `out` before a long training, not after it; TrainError if `out` is a folder."""
    if out.is_dir():
        raise TrainError(f"{out} is a folder; --out names the checkpoint file to write")


def load_grounded(path: Path | None) -> Grounded:
    """A grounded captioner, the packaged one for None; TrainError if the checkpoint is of another one."""
    captioner = load_captioner(path)
    if not isinstance(captioner, Grounded):
        raise TrainError(
            f"{path} holds a captioner {captioner.name}, which learns from pairs: give a checkpoint of a "
            "grounded one, or none for the packaged one"
        )
    return captioner


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """TrainError where what the block writes to a path cannot be written."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # the latter is torch's
        reason = getattr(error, "strerror", None) or error
        raise TrainError(f"{path} cannot be written ({reason}); make room or choose another --out") from error


def write_checkpoint(captioner: Captioner, out: Path) -> str:
    """Write a checkpoint and return its sha256 (hex); see `writing`."""
    with writing(out):
        return captioner.save(out)


def versions() -> dict[str, str]:
    return {
        "narrated": version("narrated"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def trained_changes(captioner: Captioner) -> ChangeOptions:
    """The change options in a captioner's training record; the defaults where it has none."""
    return ChangeOptions.of(captioner.record.get("changes", {}))


def camera_record(source: Mapping[str, Any], *, held: bool) -> dict[str, Any]:
    """A camera in a checkpoint's record: its files with their hashes, its source and licence as stated."""
    stated = source.get("stated") or {}
    return {
        "name": source["camera"],
        "used": "to validate" if held else "to learn from",
        "licence": stated.get("licence") or "not stated",
        "source": {k: v for k, v in stated.items() if k != "licence"} or "not stated",
        "files": source["made_of"]["files"],
    }
