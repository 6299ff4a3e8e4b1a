"""How long lies between two pictures, and how that is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from daemon.tools.exif import moment_in_exif
from pipeline.sources.times import moment_in_name

NOT_KNOWN = "not known"

_SAID = (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("days", 86400.0))
_ENOUGH = 2  # of a unit, to be said in it


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
        return (
            f"gap {NOT_KNOWN}" if self.seconds is None else f"gap {_spoken(self.seconds)}, from {self.origin}"
        )


def gap_between(before: Path, after: Path) -> Gap:
    """The gap that two pictures' own times tell: EXIF's, else those in their names.

    Two equal stamps name the recording, not the moment, and tell nothing.
    """
    sources: tuple[tuple[Callable[[Path], datetime | None], str], ...] = (
        (moment_in_exif, "EXIF"),
        (moment_in_name, "the file names"),
    )
    for moment, origin in sources:
        first, second = moment(before), moment(after)
        if first and second and first != second:
            return Gap(abs((second - first).total_seconds()), origin)
    return Gap()


def _spoken(seconds: float) -> str:
    unit, length = [(u, s) for u, s in _SAID if s == 1 or seconds >= _ENOUGH * s][-1]
    number = seconds / length
    return f"{number:.2g} {unit}" if number < 10 else f"{number:.0f} {unit}"  # noqa: PLR2004 - two digits do
