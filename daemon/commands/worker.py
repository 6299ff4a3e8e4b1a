"""The verb that lends its eyes: worker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daemon.commands.options import OptionalFile, Verbose
from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.config.secrets import Secrets

BATCH = {"cpu": 1, "cuda": 16}
"""Asks that are looked at together; a processor gains nothing from more than one."""


def worker(
    *,
    redis: Annotated[
        str | None, typer.Option(help="The edges' server; secrets as ${env:..}, ${file:..}, ${cred:..}")
    ] = None,
    config: OptionalFile = None,
    captioner_file: Annotated[
        Path | None, typer.Option(help="The checkpoint, as the edges have it; by default the shipped one.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:1.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, max=256, help="Pairs looked at together.")] = None,
    verbose: Verbose = False,
) -> None:
    """Analyse pictures for daemons with `narrate: {workers: redis}`, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config) if config else None
    url = redis or (configuration.redis.url if configuration else None)
    if url is None or url.startswith("embedded"):
        raise typer.BadParameter(
            "name the edges' server: --redis URL, or -c with redis.url", param_hint="--redis"
        )
    secrets = Secrets()
    secrets.reveal(url)  # one that is absent ends it before anything is loaded
    from daemon.config.checkpoint import chosen_checkpoint  # noqa: PLC0415 - loads torch
    from daemon.config.device import chosen_device  # noqa: PLC0415
    from daemon.health.log import start_logging  # noqa: PLC0415
    from daemon.service.work import work  # noqa: PLC0415
    from models import load_captioner  # noqa: PLC0415
    from models.grounded.grounded import Grounded  # noqa: PLC0415

    start_logging(secrets, verbose=verbose)
    settings = configuration.captioner if configuration else None
    where = chosen_device(device or (settings.device if settings else "auto"))
    captioner = load_captioner(chosen_checkpoint(settings, file=captioner_file), where)
    if not isinstance(captioner, Grounded):
        raise ConfigurationError([f"captioner {captioner.name}: it has no workers; take grounded"])
    raise typer.Exit(work(captioner, lambda: secrets.reveal(url), batch or BATCH.get(where.type, 1)))
