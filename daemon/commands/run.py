"""The verb `run`."""

from __future__ import annotations

import cv2
import typer

from daemon.commands.options import ConfigurationFile
from daemon.config.configuration import load_configuration
from daemon.service import daemon as live
from daemon.service.log import start_logging
from daemon.threads.allocator import keep_little


def run(config: ConfigurationFile) -> None:
    """Watch the cameras of a configuration, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config)
    keep_little()
    cv2.setNumThreads(1)  # further threads would wake for each frame's plane, and save no time
    start_logging()
    raise typer.Exit(live.run(config, configuration))
