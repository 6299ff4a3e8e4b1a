"""When a camera's frame was taken: by the camera's own clock where that is sane, else when it came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from time import monotonic

from av.packet import Packet
from av.video.stream import VideoStream

from pipeline.sources.frame import Clock
from pipeline.sources.times import EPOCH, to_timedelta

SANE = timedelta(seconds=5)  # a camera's clock further from ours than this is not believed
TRUST_PACKETS = 15  # so many packets in a row must carry a sane time before the camera's clock is believed

_STEP = timedelta(seconds=1)
_WINDOW = 64  # packets whose least delay tells how far the clocks are apart: a burst after a jam does not
_MICROSECOND = timedelta(microseconds=1)
_PRFT_TIME = slice(0, 8)


def _wall() -> datetime:
    return datetime.now(UTC)


class ReceiveClock:
    """Wall-clock times that do not wobble: the clock at the start, carried on by the monotonic clock.

    A clock that is set by more than a second is followed, forwards (a machine that boots in 1970 and finds
    its time server) and back (wrong times for ever are worse than one step); else times only rise.
    """

    def __init__(self, wall: Callable[[], datetime] = _wall, steady: Callable[[], float] = monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._anchor, self._since = wall(), steady()
        self._last = self._anchor

    def now(self) -> datetime:
        """Aware UTC time, later than every one given before unless the machine's clock was set back."""
        wall, since = self._wall(), self._steady()
        carried = self._anchor + timedelta(seconds=since - self._since)
        if abs(wall - carried) > _STEP:
            self._anchor, self._since, self._last = wall, since, wall
            return wall
        self._last = max(carried, self._last + _MICROSECOND)
        return self._last


class CaptureClock:
    """Times of one camera's frames, over all its connections.

    After the first RTCP sender report libav gives each packet the camera's own time (side data `prft`). It
    is believed when it was within `SANE` of ours for `TRUST_PACKETS` packets, and given up when it is not or
    when it runs back. A frame that would come before one that was given already is left out: at a change of
    clocks frames are left out for as long as the clocks are apart, at most `SANE`.
    """

    def __init__(self) -> None:
        self.clock: Clock | None = None
        self._last: datetime | None = None
        self.connected()

    @property
    def skew_s(self) -> float | None:
        """Camera's clock less ours in seconds, the packets' way included; None where it tells no time."""
        return max(self._skews).total_seconds() if self._skews else None

    def connected(self) -> None:
        """A new connection: what its time stamps mean is not known yet."""
        self._start: datetime | None = None
        self._trust = 0
        self._skews: deque[timedelta] = deque(maxlen=_WINDOW)

    def note(self, packet: Packet[VideoStream], received: datetime) -> None:
        """Take the camera's time from a packet, if it carries one."""
        if packet.pts is None or not packet.has_sidedata("prft"):
            return
        captured_us = int.from_bytes(bytes(packet.get_sidedata("prft"))[_PRFT_TIME], "little", signed=True)
        self.note_capture(captured_us, packet.pts, packet.time_base, received)

    def note_capture(self, captured_us: int, pts: int, time_base: Fraction, received: datetime) -> None:
        """Take the camera's time of the picture with time stamp `pts`: microseconds since 1970."""
        try:
            captured = EPOCH + captured_us * _MICROSECOND
            self._start = captured - to_timedelta(pts, time_base)
            self._skews.append(captured - received)
        except OverflowError:  # a clock that counts from its own start, or from nowhere
            self._trust = 0
            return
        self._trust = self._trust + 1 if abs(captured - received) <= SANE else 0

    def time_of(self, pts: int | None, time_base: Fraction, received: datetime) -> datetime | None:
        """Capture time of a frame; `clock` then tells by which clock.

        Args:
            pts: the frame's time stamp in units of `time_base`; None where it has none.
            time_base: seconds.
            received: when its packet came.

        Returns:
            Aware UTC time; None where the frame comes before one that was given already.
        """
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
        captured = self._start + to_timedelta(pts, time_base)
        ran_back = self.clock is Clock.RTCP and self._last is not None and captured <= self._last
        if ran_back or abs(captured - received) > SANE:
            self._trust = 0
            return None
        return captured
