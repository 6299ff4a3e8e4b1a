"""The frame, what every source of frames promises, and recorded footage as a source."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.redaction import redact
from pipeline.sources.areas import Polygon

Image = NDArray[np.uint8]
"""RGB, uint8, ``(height, width, 3)``."""

Luma = NDArray[np.uint8]
"""Luma plane at analysis size, uint8, ``(height, width)``."""

MIN_ANALYSIS_WIDTH = 16  # below this width, in pixels, nothing is left to see
ERRORS_KEPT = 100  # a camera that is away for weeks must not fill the memory with sentences about it
_CLOCK_SET_S = 10.0  # a camera's clock and delays of the network account for less


class SourceError(Exception):
    """A source cannot be opened or read at all; the message says what to do and holds no secret."""


class Clock(StrEnum):
    """Where a frame's time comes from."""

    RTCP = "rtcp"
    RECEIVE = "receive"
    FILE = "file"


class ConnectionState(StrEnum):
    """State of a live source."""

    CONNECTING = "connecting"
    STREAMING = "streaming"
    STALLED = "stalled"
    BACKING_OFF = "backing off"


class Picture(Protocol):
    """A decoded picture that is converted to RGB only when somebody asks."""

    def rgb(self) -> Image: ...

    def small(self, width: int) -> Image: ...

    def release(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One sampled frame of one camera.

    Attributes:
        camera: name of the camera.
        time: aware UTC capture time.
        clock: where `time` comes from.
        pts: presentation time stamp in the container's own units (stills: the index).
        luma: screening plane at analysis size, uint8 ``(height, width)``.
        picture: gives the full-size RGB image on demand.
        steady_s: monotonic seconds when a live frame was decoded; None for footage.
    """

    camera: str
    time: datetime
    clock: Clock
    pts: int
    luma: Luma
    picture: Picture
    steady_s: float | None = None

    @property
    def image(self) -> Image:
        """RGB uint8 ``(height, width, 3)`` at full size, converted at the first use."""
        return self.picture.rgb()

    def without_picture(self) -> Frame:
        """Its time and plane, for whoever holds it longer than others hold its picture."""
        return replace(self, picture=_NO_PICTURE)


class _NoPicture:
    def rgb(self) -> Image:
        raise AssertionError("only the luma plane of this frame was kept")

    def small(self, width: int) -> Image:  # noqa: ARG002 - of the protocol
        return self.rgb()

    def release(self) -> None:
        pass


_NO_PICTURE = _NoPicture()


class Timed(Protocol):
    """A frame, or its stamp."""

    @property
    def time(self) -> datetime: ...

    @property
    def steady_s(self) -> float | None: ...


def seconds_between(before: Timed, after: Timed) -> float:
    """Seconds from one frame of a camera to another.

    Between live ones the monotonic clock counts where the wall clock disagrees: it may have been set.
    """
    seconds = (after.time - before.time).total_seconds()
    if before.steady_s is None or after.steady_s is None:
        return seconds
    steady = after.steady_s - before.steady_s
    return steady if abs(seconds - steady) > _CLOCK_SET_S else seconds


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of reading a source.

    Attributes:
        sample_hz: frames a second that are handed out. Of a file the frames nearest to ``k / sample_hz``
            seconds after its first, of a camera the first frame of each slot.
        analysis_width: width of the luma plane in pixels (height keeps the aspect, rounded to even).
        start: aware wall-clock time of the first frame of a file; None takes the container's
            creation time, else 1970-01-01T00:00:00Z.
        rtsp_transport: ``tcp`` or ``udp``.
        open_timeout_s: longest wait for a live source to open.
        stall_timeout_s: longest silence of a live source before it is opened again.
        threads: decoder threads; 0 lets FFmpeg choose.
        privacy: areas that are black in every picture and plane a source hands out.
        masks: areas that are not looked at: black in the luma plane only.
        idle_keyframes: decode only keyframes of a live source while nothing moves in them.
        fast: of a file decode keyframes, and in full only where something happens (`pipeline.sources.fast`).
    """

    sample_hz: float = 2.0
    analysis_width: int = 480
    start: datetime | None = None
    rtsp_transport: str = "tcp"
    open_timeout_s: float = 5.0
    stall_timeout_s: float = 10.0
    threads: int = 1
    privacy: tuple[Polygon, ...] = ()
    masks: tuple[Polygon, ...] = ()
    idle_keyframes: bool = False
    fast: bool = False

    def __post_init__(self) -> None:
        if not self.sample_hz > 0:
            raise ValueError(f"sample_hz is {self.sample_hz}: give a rate above 0, such as 2")
        if self.analysis_width < MIN_ANALYSIS_WIDTH:
            raise ValueError(
                f"analysis_width is {self.analysis_width}: give {MIN_ANALYSIS_WIDTH} or more pixels"
            )
        if self.start is not None and self.start.tzinfo is None:
            raise ValueError("start has no time zone: write it like 2026-03-01T08:00:00Z")
        if self.rtsp_transport not in {"tcp", "udp"}:
            raise ValueError(f"rtsp_transport is {self.rtsp_transport!r}: give 'tcp' or 'udp'")
        if not (self.open_timeout_s > 0 and self.stall_timeout_s > 0):
            raise ValueError("open_timeout_s and stall_timeout_s must be above 0 seconds")
        for area in (*self.privacy, *self.masks):
            if len(area) < 3 or not all(0 <= share <= 1 for corner in area for share in corner):  # noqa: PLR2004
                raise ValueError(f"{area} is no area: give three or more corners (x, y) in 0..1 of the frame")


@dataclass(slots=True)
class SourceReport:
    """Counts of a source, and its state.

    Attributes:
        decoded: frames decoded.
        sampled: frames handed out.
        corrupt: frames or packets skipped because they were damaged.
        dropped: sampled frames of a live source that were not handed out, because newer ones had come.
        reconnections: times a live source was opened again.
        errors: one redacted sentence per failed input or interruption, the newest `ERRORS_KEPT`.
        state: what a live source is doing; None for files.
        clock: where the time of the newest frame came from; None before the first.
        skew_s: the camera's clock less ours in seconds, the way of the packets included; None where the
            camera tells no time.
        screening: of the sub-stream that is screened in place of this one; None without one.
    """

    decoded: int = 0
    sampled: int = 0
    corrupt: int = 0
    dropped: int = 0
    reconnections: int = 0
    errors: tuple[str, ...] = ()
    state: ConnectionState | None = None
    clock: Clock | None = None
    skew_s: float | None = None
    screening: SourceReport | None = None

    @property
    def damaged(self) -> bool:
        """True where some of the input could not be read."""
        return bool(self.corrupt or self.errors)

    def add_error(self, error: object) -> str:
        """Keep a sentence, redacted, and return it."""
        sentence = redact(error)
        self.errors = (*self.errors, sentence)[-ERRORS_KEPT:]
        return sentence


class Source(Protocol):
    """Iterates the sampled frames of one camera in the order of their time; a context manager.

    Attributes:
        report: counts so far.
        silent_s: seconds since the threads that read a live source got on; 0 where iterating is the reading.
    """

    camera: str
    live: bool
    duration_s: float | None

    @property
    def report(self) -> SourceReport: ...

    @property
    def silent_s(self) -> float: ...

    def __iter__(self) -> Iterator[Frame]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Stop: a running iteration ends soon, without an error; may be called from any thread."""
        ...


Reader = Callable[[SourceReport, threading.Event], Iterator[Frame]]
"""Reads footage from its start: counts in the report, and ends when the event is set."""


class RecordedSource:
    """Footage, read as it is iterated, without a thread; `close` ends that at the next packet or still.

    Args:
        camera: name of the camera.
        read: called for each iteration.
        duration_s: length of the footage; None where its containers do not say.
        unreadable: a sentence for each file that cannot be opened.
    """

    live = False
    silent_s = 0.0

    def __init__(
        self, camera: str, read: Reader, duration_s: float | None, unreadable: tuple[str, ...] = ()
    ) -> None:
        self.camera, self.duration_s = camera, duration_s
        self._read, self._unreadable = read, unreadable
        self._report = SourceReport()
        self._closed = threading.Event()
        self._begin()

    @property
    def report(self) -> SourceReport:
        return replace(self._report)

    def __iter__(self) -> Iterator[Frame]:
        """Sampled frames in the order of their time; a second iteration reads and counts from the start."""
        self._begin()
        return self._read(self._report, self._closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()

    def _begin(self) -> None:
        self._report = SourceReport()
        for sentence in self._unreadable:
            self._report.add_error(sentence)
