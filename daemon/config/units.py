"""Durations, rates, times and folders of files and options, without the settings' models."""

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from platformdirs import user_state_path

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}  # in each unit
DURATION_PATTERN = r"^(\d+(?:\.\d+)?)(ms|s|m|min|h|d)$"
RATE_PATTERN = r"^(\d+(?:\.\d+)?)/(s|m|min|h)$"

_LONGEST_S = 36_525 * 86_400.0  # beyond, there is no date so long ago
_CLOCK = re.compile(r"^(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:\.\d+)?)$")


def parse_duration(value: object) -> float:
    """Seconds of a duration such as ``5s``, ``500ms``, ``2m`` or ``1h``; ValueError for anything else."""
    text = str(value).strip()
    if not (match := re.match(DURATION_PATTERN, text)):
        raise ValueError(f"{text!r} is not a duration: write a number and its unit, such as 500ms, 5s, 2m")
    if (seconds := float(match[1]) * SECONDS[match[2]]) > _LONGEST_S:
        raise ValueError(f"{text!r} is longer than a century")
    return seconds


def parse_rate(value: object) -> float:
    """Times a second of a rate such as ``2/s`` or ``30/m``; above zero, 1000 at most, else ValueError."""
    text = str(value).strip()
    rate = float(match[1]) / SECONDS[match[2]] if (match := re.match(RATE_PATTERN, text)) else 0.0
    if not 0 < rate <= 1000:  # noqa: PLR2004 - no record has more
        raise ValueError(f"{text!r} is not a rate of up to 1000/s: write it with its unit: 2/s or 30/m")
    return rate


def parse_moment(text: str) -> timedelta | datetime:
    """A place in footage: an offset (``90s``, ``00:01:30.5``) or a time (ISO 8601; UTC without an offset).

    Raises `ValueError`.
    """
    if clock := _CLOCK.match(text.strip()):
        hours, minutes, seconds = clock.groups()
        return timedelta(hours=int(hours or 0), minutes=int(minutes), seconds=float(seconds))
    if re.match(DURATION_PATTERN, text.strip()):
        return timedelta(seconds=parse_duration(text))
    try:
        return parse_time(text)
    except ValueError as error:
        raise ValueError(f"{error}, or 90s or 00:01:30 from the start") from None


def parse_time(text: str) -> datetime:
    """An aware UTC time from ISO 8601; a time without a zone is UTC; raises `ValueError`."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write 2026-05-01T12:00:00Z") from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def unit_folder(otherwise: Path) -> Path:
    """The folder that systemd made for the unit, else another."""
    folder = os.environ.get("STATE_DIRECTORY")
    return Path(folder.split(":")[0]) if folder else otherwise


def usual_state() -> Path:
    """The folder that systemd made for the service, else the user's."""
    return unit_folder(user_state_path("narrated", appauthor=False))
