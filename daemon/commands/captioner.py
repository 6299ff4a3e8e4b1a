"""Which captioner a verb takes, and where that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from daemon.config.settings import CaptionerName, CaptionerSettings

if TYPE_CHECKING:
    from models.captioner import Captioner

_SHIPPED = get_args(CaptionerName)


def _known(name: str | None) -> str | None:
    if name is not None and name not in _SHIPPED:
        raise typer.BadParameter(f"{name!r} does not ship; write {' or '.join(_SHIPPED)}")
    return name


CaptionerChoice = Annotated[
    str | None,
    typer.Option("--captioner", callback=_known, help=f"A captioner that ships: {' or '.join(_SHIPPED)}."),
]
CaptionerFile = Annotated[
    Path | None, typer.Option("--captioner-file", help="A checkpoint file of your own instead.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]


def loaded_captioner(
    name: str | None, path: Path | None, device: str, settings: CaptionerSettings | None = None
) -> Captioner:
    """The captioner of the command line, else of the configuration, else the best that ships."""
    from daemon.config.checkpoint import chosen_checkpoint  # noqa: PLC0415
    from daemon.config.device import chosen_device  # noqa: PLC0415
    from models import load_captioner  # noqa: PLC0415

    return load_captioner(chosen_checkpoint(settings, name, path), chosen_device(device))
