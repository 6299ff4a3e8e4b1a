"""Which checkpoint writes the sentences."""

from __future__ import annotations

from pathlib import Path

from daemon.config.settings import CaptionerSettings
from models import DEFAULT, SHIPPED


class CaptionerChoiceError(Exception):
    """Two captioners are asked for at once; the message says so."""


def chosen_checkpoint(
    settings: CaptionerSettings | None = None, name: str | None = None, file: Path | None = None
) -> Path:
    """The checkpoint of the command line, else of the configuration, else the best that ships.

    Args:
        settings: of the configuration.
        name: of one that ships, a key of `models.SHIPPED`, from the command line.
        file: a checkpoint, from the command line.

    Raises:
        CaptionerChoiceError: both a name and a file were given.
    """
    if name and file:
        raise CaptionerChoiceError("give --captioner or --captioner-file, not both")
    settings = settings or CaptionerSettings()
    if name is None and (path := file or settings.checkpoint):
        return path
    return SHIPPED[name or settings.model or DEFAULT]
