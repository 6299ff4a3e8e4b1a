"""The verb `warm-up`."""

from __future__ import annotations

from typing import Annotated

import typer

from daemon.commands.captioner import CaptionerChoice, CaptionerFile, loaded_captioner
from daemon.commands.options import OptionalFile
from daemon.config.configuration import load_configuration
from daemon.config.settings import CaptionerSettings


def warm_up(
    config: OptionalFile = None,
    captioner: CaptionerChoice = None,
    captioner_file: CaptionerFile = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
) -> None:
    """Compile ahead what the first start would compile, and try the captioner."""
    settings = load_configuration(config).captioner if config else CaptionerSettings()
    loaded = loaded_captioner(captioner, captioner_file, device or settings.device, settings)
    from daemon.threads.narrator import warm_up as tried  # noqa: PLC0415 - loads torch

    tried(loaded)
    typer.echo(f"{loaded.name} {loaded.sha256[:12]} works on {loaded.device}; its kernels are compiled")
