"""The verb `run`."""

from __future__ import annotations

import typer

from daemon.commands.options import ConfigurationFile
from daemon.config.configuration import load_configuration
from daemon.config.secrets import Secrets
from daemon.service.log import start_logging


def run(config: ConfigurationFile) -> None:
    """Watch the cameras of a configuration, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config)
    secrets = Secrets()
    from daemon.service import daemon as live  # noqa: PLC0415
    from daemon.threads.allocator import keep_little  # noqa: PLC0415

    keep_little()
    start_logging()
    raise typer.Exit(live.run(config, configuration, secrets))
