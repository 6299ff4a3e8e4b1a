"""Times of frames: from presentation time stamps, from names of files, from start times."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Time of the first frame where nothing says better: the same at every run."""

_STAMP = re.compile(
    r"(?<!\d)((?:19|20)\d{2})[-_.]?(\d{2})[-_.]?(\d{2})[T _-]?(\d{2})[-_.:]?(\d{2})"
    r"(?:[-_.:]?(\d{2}))?Z?(?!\d)"
)
_TO_THE_MILLISECOND = re.compile(r"(?<!\d)((?:19|20)\d{2})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})\d{3}(?!\d)")
_UNIX = re.compile(r"(?<!\d)(1[4-9]\d{8})(?:\.\d{1,9}|\d{3})?(?!\d)")


def stamp_in_name(path: Path) -> datetime | None:
    """Time stamp such as ``20170721T141005``, ``2017-07-21_14-10`` or ``201707211410`` in a name, as UTC."""
    match = _STAMP.search(path.stem)
    if match is None:
        return None
    try:
        return datetime(*(int(part or 0) for part in match.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:  # digits in the right places that are no date
        return None


def moment_in_name(path: Path) -> datetime | None:
    """Time stamp in a file's name, taken as UTC; None where there is none.

    As `stamp_in_name`, then as cameras write it: to the millisecond (``20230613031146123``), or seconds since
    1970 (``1686625906.52``; numbers before 2014 are taken for counters).
    """
    if stamp := stamp_in_name(path):
        return stamp
    if match := _TO_THE_MILLISECOND.search(path.stem):
        with suppress(ValueError):  # digits in the right places that are no date
            return datetime(*(int(part) for part in match.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]
    match = _UNIX.search(path.name)
    return datetime.fromtimestamp(int(match[1]), UTC) if match else None


def name_without_stamp(path: Path) -> str:
    """The rest of a name that has a time stamp, or the folder's name where there is none; else empty."""
    if stamp_in_name(path) is None:
        return ""
    return _STAMP.sub("_", path.stem, count=1).strip("_.- ") or path.resolve().parent.name


def natural_key(path: Path) -> tuple[tuple[int, str, int], ...]:
    """Sort key that puts ``frame_10`` after ``frame_9``."""
    parts = re.split(r"(\d+)", path.name.casefold())
    return tuple((i % 2, "" if i % 2 else part, int(part) if i % 2 else 0) for i, part in enumerate(parts))


def parse_creation_time(text: str | None) -> datetime | None:
    """Aware UTC time from a container's ``creation_time``; None where it is missing or says nothing.

    Recorders without a clock write 1904 or 1970: such a time is no time.
    """
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return time if time > EPOCH + timedelta(days=1) else None


def to_timedelta(pts: int, time_base: Fraction) -> timedelta:
    """``pts x time_base`` rounded to microseconds, by integers only (a float drifts in long files)."""
    numerator, denominator = time_base.numerator * 1_000_000, time_base.denominator
    return timedelta(microseconds=(2 * pts * numerator + denominator) // (2 * denominator))


class Sampler:
    """Takes the first frame of each ``1 / sample_hz`` slot; the slot depends on the time stamp alone.

    Args:
        sample_hz: slots a second.
        live: time stamps may jump, stand still, or be missing: a frame is also taken once two slots have gone
            by without one.
    """

    def __init__(self, sample_hz: float, *, live: bool = False) -> None:
        self._rate = Fraction(sample_hz).limit_denominator(1_000_000)
        self._longest_us = int(2_000_000 / sample_hz) if live else None
        self._slot: int | None = None
        self._taken_us: int | None = None

    def takes(self, pts: int, time_base: Fraction, received_us: int = 0) -> bool:
        """True for the first frame of a slot.

        Args:
            pts: counts `time_base` from the start.
            time_base: seconds.
            received_us: when the frame of a live source came, in microseconds.
        """
        slot = pts * time_base.numerator * self._rate.numerator
        slot //= time_base.denominator * self._rate.denominator
        overdue = (
            self._longest_us is not None
            and self._taken_us is not None
            and abs(received_us - self._taken_us) >= self._longest_us
        )
        if slot == self._slot and not overdue:
            return False
        self._slot, self._taken_us = slot, received_us
        return True

    def give_back(self) -> None:
        """The frame just taken was no good: the next one of its slot is taken instead."""
        self._slot = None
