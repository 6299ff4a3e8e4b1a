"""The verb `check-config`."""

from contextlib import closing

import typer

from daemon.commands.options import ConfigurationFile, warn
from daemon.config.configuration import load_configuration
from daemon.config.secrets import reveal
from daemon.config.settings import Configuration
from pipeline.report.words import many


def check_config(config: ConfigurationFile) -> None:
    """Check a configuration file and what it names: secrets, checkpoint, folders, footage, server."""
    configuration = load_configuration(config)
    from daemon.service.checks import check_configuration  # noqa: PLC0415 - a mistake shows at once

    for warning in check_configuration(configuration, config, configuration.forward.addresses()):
        warn(warning)
    if url := configuration.redis.url:
        _try_server(reveal(url), configuration)
    typer.echo(f"{config}: fine, {many(len(configuration.cameras), 'camera')}")


def _try_server(url: str, configuration: Configuration) -> None:
    """Warn where the server does not answer, or no worker fits: both may come later."""
    from daemon.workers.worker import living_workers  # noqa: PLC0415
    from models import read_label  # noqa: PLC0415
    from pipeline.publisher import Publisher, PublisherError  # noqa: PLC0415

    try:
        with closing(Publisher(url)) as publisher:
            publisher.entry("check-config", "1-1")
        if any(each.narrate.workers == "redis" for each in configuration.cameras.values()):
            wanted = read_label(configuration.captioner.checkpoint).sha256
            living = living_workers(lambda: url)
            fit = sum(each["checkpoint"] == wanted for each in living)
            typer.echo(f"{fit} of {many(len(living), 'worker')} have the checkpoint {wanted[:12]}")
    except PublisherError as error:
        warn(f"redis.url: {error}")
