"""Tensors in, tokens and scores out: knows no files but checkpoints, no cameras, clocks or Redis."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from models.label import CheckpointError, CheckpointLabel, read_label

if TYPE_CHECKING:  # naming captioners must not load numpy, nor torch
    from models.captioner import Captioner
    from models.encoders.encoder import Encoder

__all__ = [
    "CAPTIONERS", "DEFAULT", "DEFAULT_CHECKPOINT", "SHIPPED", "CheckpointError", "CheckpointLabel",
    "load_captioner", "read_label",
]  # fmt: skip

_WEIGHTS = Path(__file__).parent / "weights"

SHIPPED = {"grounded": _WEIGHTS / "grounded.safetensors", "ddla": _WEIGHTS / "ddla.safetensors"}
"""The checkpoints that this project trained and that ship with the package, by name."""

DEFAULT = "grounded"  # name of the default captioner

DEFAULT_CHECKPOINT = SHIPPED[DEFAULT]


def _in(module: str, name: str) -> Callable[[], type[Captioner]]:
    """A captioner's class, loaded when it is asked for."""

    def load() -> type[Captioner]:
        captioner: type[Captioner] = getattr(import_module(f"models.{module}"), name)
        return captioner

    return load


CAPTIONERS: dict[str, Callable[[], type[Captioner]]] = {
    "grounded": _in("grounded.grounded", "Grounded"),
    "ddla": _in("papers.ddla", "DDLA"),
    "nn": _in("papers.ddla", "Nearest"),
    "nn-multi": _in("papers.ddla", "NearestMulti"),
    "capt": _in("papers.ddla", "Capt"),
    "capt-masked": _in("papers.ddla", "CaptMasked"),
    "capt-multi": _in("papers.ddla", "CaptMulti"),
    "capt-pix-diff": _in("papers.duda", "CaptPixDiff"),
    "capt-rep-diff": _in("papers.duda", "CaptRepDiff"),
    "capt-att": _in("papers.duda", "CaptAtt"),
    "capt-dual-att": _in("papers.duda", "CaptDualAtt"),
    "duda": _in("papers.duda", "DUDA"),
    "spot-it": _in("papers.spot_it", "SpotIt"),
    "idc-pcl": _in("papers.idc_pcl", "IDCPCL"),
}
"""Every captioner by its name; call the value for its class."""


def load_captioner(
    path: Path | None = None, device: str = "cpu", encoder: Encoder | None = None
) -> Captioner:
    """Load a trained captioner, ready to describe: the packaged one, or that of the file `path`.

    `device` is "cpu", "cuda", "cuda:1", ... An `encoder` that is loaded already, or has weights from a file,
    replaces the one that the checkpoint names.

    Raises:
        CheckpointError: absent, damaged, of another model, or trained on other encoder weights.
        ImportError: the captioner or its encoder needs a package that is not installed.
    """
    from models.checkpoint import read_checkpoint  # noqa: PLC0415 - loads numpy

    path = path or DEFAULT_CHECKPOINT
    label, arrays = read_checkpoint(path)
    if label.name not in CAPTIONERS:
        raise CheckpointError(
            f"{path} holds a captioner {label.name!r}, this version knows {', '.join(CAPTIONERS)}: "
            "update narrated or take another checkpoint"
        )
    try:
        captioner = CAPTIONERS[label.name]().of(label, arrays, device, encoder)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        extra = "gpu" if label.name == DEFAULT else "papers"
        raise CheckpointError(f"{path}: {label.name} needs torch: pip install 'narrated[{extra}]'") from error
    captioner.record, captioner.sha256 = label.record, label.sha256
    return captioner
