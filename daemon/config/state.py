"""Default folder of journals and evidence."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_state_path


def unit_folder(otherwise: Path) -> Path:
    """The folder that systemd made for the unit, else another."""
    folder = os.environ.get("STATE_DIRECTORY")
    return Path(folder.split(":")[0]) if folder else otherwise


def usual_state() -> Path:
    """The folder that systemd made for the service, else the user's."""
    return unit_folder(user_state_path("narrated", appauthor=False))
