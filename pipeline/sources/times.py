"""Times of frames: from time stamps, from names of files, by a camera's clock or by ours."""

from __future__ import annotations

import re
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

from av.packet import Packet
from av.video.stream import VideoStream

from pipeline.sources.frame import Clock

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # of the first frame where nothing says better
SANE = timedelta(seconds=5)  # a camera's clock further from ours than this is not believed
TRUST_PACKETS = 15  # packets in a row that must carry a sane time before the camera's clock is believed

_WINDOW = 64  # packets whose least delay tells how far the clocks are apart: a burst after a jam does not
_MICROSECOND = timedelta(microseconds=1)
_PRFT_TIME = slice(0, 8)

_STAMP = re.compile(
    r"(?<!\d)((?:19|20)\d{2})[-_.]?(\d{2})[-_.]?(\d{2})[T _-]?(\d{2})[-_.:]?(\d{2})"
    r"(?:[-_.:]?(\d{2}))?Z?(?!\d)"
)
_TO_THE_MILLISECOND = re.compile(r"(?<!\d)((?:19|20)\d{2})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})\d{3}(?!\d)")
_UNIX = re.compile(r"(?<!\d)(1[4-9]\d{8})(?:\.\d{1,9}|\d{3})?(?!\d)")


def stamp_in_name(path: Path, pattern: re.Pattern[str] = _STAMP) -> datetime | None:
    """Time stamp such as ``20170721T141005``, ``2017-07-21_14-10`` or ``201707211410`` in a name, as UTC."""
    match = pattern.search(path.stem)
    with suppress(ValueError):  # digits in the right places that are no date
        return datetime(*(int(part or 0) for part in match.groups()), tzinfo=UTC) if match else None  # type: ignore[misc,arg-type]
    return None


def moment_in_name(path: Path) -> datetime | None:
    """Time stamp in a file's name, taken as UTC, also as cameras write it.

    To the millisecond (``20230613031146123``), or seconds since 1970 (numbers before 2014 are counters).
    """
    if stamp := stamp_in_name(path) or stamp_in_name(path, _TO_THE_MILLISECOND):
        return stamp
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
    """Aware UTC time from a container's ``creation_time``; recorders without a clock write 1904 or 1970."""
    try:
        time = datetime.fromisoformat(text or "")
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):  # the year 1 east of Greenwich
        return None
    return time if time > EPOCH + timedelta(days=1) else None


def to_timedelta(pts: int, time_base: Fraction) -> timedelta:
    """``pts x time_base`` rounded to microseconds, by integers only (a float drifts in long files)."""
    numerator, denominator = time_base.numerator * 1_000_000, time_base.denominator
    return timedelta(microseconds=(2 * pts * numerator + denominator) // (2 * denominator))


class Sampler:
    """Takes the first frame of each ``1 / sample_hz`` slot; the slot depends on the time stamp alone.

    Live, time stamps may jump, stand still, or be missing: a frame is also taken once two slots have gone by
    without one.
    """

    def __init__(self, sample_hz: float, *, live: bool = False) -> None:
        self._rate = Fraction(sample_hz).limit_denominator(1_000_000)
        self._longest_us = int(2_000_000 / sample_hz) if live else None
        self._slot: int | None = None
        self._taken_us = 0

    def takes(self, pts: int, time_base: Fraction, received_us: int = 0) -> bool:
        """True for the first frame of a slot; `received_us` is when the frame of a live source came."""
        slot = self.slot_of(pts, time_base)
        overdue = self._longest_us and abs(received_us - self._taken_us) >= self._longest_us
        if slot == self._slot and not overdue:
            return False
        self._slot, self._taken_us = slot, received_us
        return True

    def slot_of(self, pts: int, time_base: Fraction) -> int:
        slot = pts * time_base.numerator * self._rate.numerator
        return slot // (time_base.denominator * self._rate.denominator)

    def release(self) -> None:
        """Take another frame of the slot, as the last one cannot be used."""
        self._slot = None


class CaptureClock:
    """Times of one camera's frames, over all its connections.

    After the first RTCP sender report libav gives each packet the camera's own time (side data `prft`). It
    counts once it was within `SANE` of ours for `TRUST_PACKETS` packets, until it is not or runs back.
    """

    def __init__(self) -> None:
        self.clock: Clock | None = None
        self._last: datetime | None = None
        self.connected()

    @property
    def skew_s(self) -> float | None:
        """Camera's clock less ours in seconds, the packets' delay included; None where it sends no time."""
        return max(self._skews).total_seconds() if self._skews else None

    def connected(self) -> None:
        """A new connection: what its time stamps mean is not known yet."""
        self._start: datetime | None = None
        self._trust = 0
        self._skews: deque[timedelta] = deque(maxlen=_WINDOW)

    def note(self, packet: Packet[VideoStream], received: datetime) -> None:
        if packet.pts is None or not packet.has_sidedata("prft"):
            return
        captured_us = int.from_bytes(bytes(packet.get_sidedata("prft"))[_PRFT_TIME], "little", signed=True)
        self.note_capture(captured_us, packet.pts, packet.time_base, received)

    def note_capture(self, captured_us: int, pts: int, time_base: Fraction, received: datetime) -> None:
        try:
            captured = EPOCH + captured_us * _MICROSECOND
            self._start = captured - to_timedelta(pts, time_base)
            self._skews.append(captured - received)
        except OverflowError:  # a clock that counts from its own start, or from nowhere
            self._trust = 0
            return
        self._trust = self._trust + 1 if abs(captured - received) <= SANE else 0

    def time_of(self, pts: int | None, time_base: Fraction, received: datetime) -> datetime | None:
        """Aware UTC time of a frame, by `clock`; None where it comes before one that was given already."""
        time = self._captured(pts, time_base, received)
        clock = Clock.RECEIVE if time is None else Clock.RTCP
        time = time or received
        # A machine whose clock was set back by more than clocks may differ: the frames start over.
        if self._last is not None and self._last - 2 * SANE < time <= self._last:
            return None
        self._last, self.clock = time, clock
        return time

    def _captured(self, pts: int | None, time_base: Fraction, received: datetime) -> datetime | None:
        if pts is None or self._start is None or self._trust < TRUST_PACKETS:
            return None
        try:
            captured = self._start + to_timedelta(pts, time_base)
        except OverflowError:  # a stamp from nowhere
            self._trust = 0
            return None
        ran_back = self.clock is Clock.RTCP and self._last is not None and captured <= self._last
        if ran_back or abs(captured - received) > SANE:
            self._trust = 0
            return None
        return captured
