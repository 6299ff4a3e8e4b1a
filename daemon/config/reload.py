"""SIGHUP: the configuration file read again, as a whole or not at all."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from daemon.config.checks import check_configuration
from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.config.plan import CameraPlan, camera_plans
from daemon.config.secrets import SecretError, Secrets
from daemon.config.settings import Configuration

AT_RUN_TIME = frozenset({"cameras", "defaults", "forward", "serve"})
"""What a reload can change, and what is another process's; all else is opened once, at the start."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """A new configuration that can be used.

    Attributes:
        configuration: as it is in force from now on; what needs a restart stays as it was.
        plans: of its cameras.
    """

    configuration: Configuration
    plans: tuple[CameraPlan, ...]


def read_again(path: Path, old: Configuration, secrets: Secrets) -> ReadAgain | None:
    """Read the file and its secrets, and check all of it, before anything is touched.

    Returns:
        None where it cannot be used; the log then says why, line by line.
    """
    try:
        new = load_configuration(path)
        plans = camera_plans(new, secrets)
        for warning in check_configuration(new, secrets, path):
            logger.warning("%s", warning)
    except (ConfigurationError, SecretError) as error:
        refuse(error)
        return None
    if waiting := needs_restart(old, new):
        logger.warning("%s: the change takes effect at the next start only", ", ".join(waiting))
    return ReadAgain(new.model_copy(update={key: getattr(old, key) for key in waiting}), tuple(plans))


def refuse(error: Exception) -> None:
    """Say why a configuration is not taken, problem by problem."""
    for line in str(error).splitlines():
        logger.error("the new configuration was rejected, the old one stays in force: %s", line)


def needs_restart(old: Configuration, new: Configuration) -> list[str]:
    """Sections that differ and cannot be changed while the daemon runs."""
    names = [name for name in Configuration.model_fields if name not in AT_RUN_TIME]
    return [name for name in names if getattr(old, name) != getattr(new, name)]
