"""Tensors in, tokens and scores out: knows no files but checkpoints, no cameras, clocks or Redis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from models.checkpoint import DEFAULT, SHIPPED, CheckpointError, read_checkpoint, read_label

if TYPE_CHECKING:  # naming captioners must not load numpy, nor torch
    from models.captioner import Captioner
    from models.encoders import Encoder

__all__ = ["CAPTIONERS", "DEFAULT", "SHIPPED", "CheckpointError", "load_captioner", "read_label"]

CAPTIONERS: dict[str, Callable[[], type[Captioner]]] = {
    "grounded": partial(resolve_name, "models.grounded.grounded:Grounded"),
    "ddla": partial(resolve_name, "models.papers.ddla:DDLA"),
    "nn": partial(resolve_name, "models.papers.ddla:Nearest"),
    "nn-multi": partial(resolve_name, "models.papers.ddla:NearestMulti"),
    "capt": partial(resolve_name, "models.papers.ddla:Capt"),
    "capt-masked": partial(resolve_name, "models.papers.ddla:CaptMasked"),
    "capt-multi": partial(resolve_name, "models.papers.ddla:CaptMulti"),
    "capt-pix-diff": partial(resolve_name, "models.papers.duda:CaptPixDiff"),
    "capt-rep-diff": partial(resolve_name, "models.papers.duda:CaptRepDiff"),
    "capt-att": partial(resolve_name, "models.papers.duda:CaptAtt"),
    "capt-dual-att": partial(resolve_name, "models.papers.duda:CaptDualAtt"),
    "duda": partial(resolve_name, "models.papers.duda:DUDA"),
    "spot-it": partial(resolve_name, "models.papers.spot_it:SpotIt"),
    "idc-pcl": partial(resolve_name, "models.papers.idc_pcl:IDCPCL"),
}
"""Every captioner by its name; call the value for its class."""


def load_captioner(
    path: Path | str | None = None, device: str = "cpu", encoder: Encoder | None = None
) -> Captioner:
    """Load a trained captioner, ready to describe: the packaged one, or that of the file `path`.

    `device` is "cpu", "cuda", "cuda:1", ... An `encoder` that is loaded already, or has weights from a file,
    replaces the one that the checkpoint names.

    Raises:
        CheckpointError: absent, damaged, of another model, or trained on other encoder weights; or there is
            no such device.
        ImportError: the captioner or its encoder needs a package that is not installed.
    """
    path = Path(path or SHIPPED[DEFAULT])
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
    except (AssertionError, RuntimeError) as error:  # torch's, of a device
        if device == "cpu":
            raise
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{device} cannot be used ({reason}): write cpu, or a GPU") from error
    captioner.record, captioner.sha256 = label.record, label.sha256
    return captioner
