"""The camera that a verb is told to look at."""

from __future__ import annotations

from daemon.config.settings import CameraDefaults, Configuration


def address_and_settings(name: str, configuration: Configuration | None) -> tuple[str, CameraDefaults]:
    """URL (secrets not put in) and settings of a configured camera, else the name itself and the defaults."""
    if configuration is None:
        return name, CameraDefaults()
    known = configuration.cameras.get(name)
    return (known.url, known) if known else (name, configuration.defaults)
