"""The verb `check-config`."""

from __future__ import annotations

import typer

from daemon.commands.options import ConfigurationFile, warn
from daemon.config.configuration import load_configuration
from daemon.config.secrets import Secrets
from pipeline.report.words import many


def check_config(config: ConfigurationFile) -> None:
    """Check a configuration file and what it names: secrets, checkpoint, folders, server, footage."""
    from daemon.config.checks import check_configuration  # noqa: PLC0415
    from daemon.rules.configured import rule_problems  # noqa: PLC0415

    configuration = load_configuration(config)
    for warning in check_configuration(configuration, Secrets(), config, rule_problems(configuration)):
        warn(warning)
    typer.echo(f"{config}: fine, {many(len(configuration.cameras), 'camera')}")
