"""The verb that lends its eyes: worker."""

from __future__ import annotations

from typing import Annotated

import typer

from daemon.commands.options import CaptionerChoice, Device, OptionalFile, Verbose, loaded_captioner
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
    captioner: CaptionerChoice = None,
    device: Device = None,
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
    from daemon.service.log import start_logging  # noqa: PLC0415
    from daemon.service.work import work  # noqa: PLC0415
    from models.grounded.grounded import Grounded  # noqa: PLC0415

    start_logging(verbose=verbose)
    loaded = loaded_captioner(captioner, device, configuration)
    if not isinstance(loaded, Grounded):
        raise ConfigurationError([f"captioner {loaded.name}: it has no workers; take grounded"])
    size = batch or BATCH.get(loaded.device.type, 1)
    raise typer.Exit(work(loaded, lambda: secrets.reveal(url), size))
