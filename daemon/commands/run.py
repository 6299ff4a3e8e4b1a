import typer

from daemon.commands.options import ConfigurationFile
from daemon.config.configuration import load_configuration
from daemon.service import daemon as live
from daemon.service.process import limit_arenas, start_logging


def run(config: ConfigurationFile) -> None:
    """Watch the cameras in a configuration, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config)
    limit_arenas()
    start_logging()
    raise typer.Exit(live.run(config, configuration))
