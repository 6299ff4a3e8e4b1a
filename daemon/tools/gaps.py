"""The time between two pictures, and its origin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import av
from av.error import FFmpegError

from pipeline.sources.times import moment_in_name

NOT_KNOWN = "not known"

_UNITS = (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


@dataclass(frozen=True, slots=True)
class Gap:
    """The time between two pictures.

    Attributes:
        seconds: how long, 0 or more; None where that is not known.
        origin: how it is known: "--gap", "--pairs", "EXIF", "the file names"; or `NOT_KNOWN`.
    """

    seconds: float | None = None
    origin: str = NOT_KNOWN

    def __str__(self) -> str:
        """Such as ``gap 18 h, from the file names``."""
        if self.seconds is None:
            return f"gap {NOT_KNOWN}"
        unit, length = next((u, s) for u, s in _UNITS if self.seconds >= 2 * s or s == 1)
        number = self.seconds / length
        digits = f"{number:.2g}" if number < 10 else f"{number:.0f}"  # noqa: PLR2004 - two digits do
        return f"gap {digits} {unit}, from {self.origin}"


def gap_between(before: Path, after: Path) -> Gap:
    """The gap by the pictures' own times: EXIF's, else those in their names.

    Two equal stamps name the recording, not the moment: they are ignored.
    """
    for read_time, origin in ((exif_time, "EXIF"), (moment_in_name, "the file names")):
        first, second = read_time(before), read_time(after)
        if first and second and first != second:
            return Gap(abs((second - first).total_seconds()), origin)
    return Gap()


def exif_time(path: Path) -> datetime | None:
    """EXIF's DateTimeOriginal of a JPEG; None where there is none, or the file cannot be read.

    UTC where it has a zone; else the camera's local time, given as UTC: good for differences.
    """
    try:
        with path.open("rb") as file, av.open(file, "r") as container:
            metadata = next(container.decode(video=0)).metadata
        tags = {name.rpartition("/")[2]: text for name, text in metadata.items()}
        time = datetime.strptime(tags["DateTimeOriginal"], "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC)
    except (FFmpegError, OSError, StopIteration, IndexError, KeyError, ValueError):
        return None
    if fraction := re.match(r"\d+", tags.get("SubSecTimeOriginal", "")):
        time += timedelta(seconds=float(f"0.{fraction[0]}"))
    # FFmpeg has no name for OffsetTimeOriginal.
    if zone := re.match(r"([+-])(\d{2}):(\d{2})", tags.get("0x9011", tags.get("OffsetTimeOriginal", ""))):
        offset = timedelta(hours=int(zone[2]), minutes=int(zone[3]))
        time += offset if zone[1] == "-" else -offset
    return time
