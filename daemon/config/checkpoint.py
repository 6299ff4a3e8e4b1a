"""Which checkpoint writes the sentences."""

from __future__ import annotations

from pathlib import Path

from daemon.config.settings import CaptionerSettings
from models import DEFAULT, SHIPPED


def chosen_checkpoint(settings: CaptionerSettings) -> Path:
    """The file that is named, or that of the captioner that ships under the name."""
    return settings.checkpoint or SHIPPED[settings.model or DEFAULT]
