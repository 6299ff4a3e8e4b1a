"""The frame, what every source of frames promises, and recorded footage as a source."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.redaction import redact
from pipeline.sources.areas import Polygon

Image = NDArray[np.uint8]  # RGB, uint8, ``(height, width, 3)``
Luma = NDArray[np.uint8]  # luma plane at analysis size, uint8, ``(height, width)``

ERRORS_KEPT = 100  # a camera that is away for weeks must not fill the memory with errors
_CLOCK_SET_S = 10.0  # a camera's clock and delays of the network account for less
_SET_AHEAD_S = 60.0  # frames that were held back until something moved are decoded some seconds late


class SourceError(Exception):
    """A source cannot be opened or read at all; the message says what to do and holds no secret."""


class Clock(StrEnum):
    """Where a frame's time comes from."""

    RTCP = "rtcp"
    RECEIVE = "receive"
    FILE = "file"


class ConnectionState(StrEnum):
    CONNECTING = "connecting"
    STREAMING = "streaming"
    STALLED = "stalled"
    BACKING_OFF = "backing off"


def shrink(image: Image, width: int) -> Image:
    """A picture at most so wide, by area and in its own proportions; itself where it is no wider."""
    height, full_width = image.shape[:2]
    if full_width <= width:
        return image
    size = (width, max(1, round(height * width / full_width)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


class LazyPicture:
    """A decoded picture, converted at the first use; safe to ask from several threads.

    `convert` makes it, RGB uint8 ``(height, width, 3)``, `convert_small` one at most so wide.
    """

    def __init__(
        self, convert: Callable[[], Image], convert_small: Callable[[int], Image] | None = None
    ) -> None:
        self._convert, self._convert_small = convert, convert_small
        self._rgb: Image | None = None
        self._lock = threading.Lock()

    def rgb(self) -> Image:
        """The same array at every call until `release`."""
        with self._lock:
            if self._rgb is None:
                self._rgb = self._convert()
            return self._rgb

    def release(self) -> None:
        """Let go of the RGB image, which can be made again: of 1080p it takes 6 MB, the decoder's own 3."""
        with self._lock:
            self._rgb = None

    def small(self, width: int) -> Image:
        """The picture in its own proportions, at most so wide; made at every call."""
        return self._convert_small(width) if self._convert_small else shrink(self.rgb(), width)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    camera: str
    time: datetime  # aware UTC capture time
    clock: Clock  # where `time` comes from
    pts: int  # presentation time stamp in the container's own units (stills: the index)
    luma: Luma  # screening plane at analysis size, uint8 ``(height, width)``
    picture: LazyPicture  # gives the full-size RGB image on demand
    steady_s: float | None = None  # `boot_time_s` when a live frame was decoded; None for footage

    @property
    def image(self) -> Image:
        return self.picture.rgb()


def boot_time_s() -> float:
    """Seconds since the machine was started, asleep or not; this clock cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Timed(Protocol):
    @property
    def time(self) -> datetime: ...

    @property
    def steady_s(self) -> float | None: ...


def seconds_between(before: Timed, after: Timed) -> float:
    """Seconds from one frame to another; of live ones by the steady clock where the wall clock disagrees."""
    seconds = (after.time - before.time).total_seconds()
    if before.steady_s is None or after.steady_s is None:
        return seconds
    steady = after.steady_s - before.steady_s
    return steady if abs(seconds - steady) > _CLOCK_SET_S else seconds


def is_set_ahead(before: Timed, after: Timed) -> bool:
    """True where the wall clock was set ahead between two live frames."""
    return (after.time - before.time).total_seconds() - seconds_between(before, after) > _SET_AHEAD_S


@dataclass(frozen=True, slots=True)
class SourceOptions:
    sample_hz: float = 2.0  # of a file frames nearest to ``k / sample_hz`` seconds, of a camera the next ones
    analysis_width: int = 480  # of the luma plane, pixels; the height keeps the aspect, rounded to even
    start: datetime | None = None  # aware time of a file's first frame; None: its creation time, else 1970
    rtsp_transport: str = "tcp"  # ``tcp`` or ``udp``
    open_timeout_s: float = 5.0  # longest wait for a live source to open
    stall_timeout_s: float = 10.0  # longest silence of a live source before it is opened again
    privacy: tuple[Polygon, ...] = ()  # areas that are black in every picture and plane
    masks: tuple[Polygon, ...] = ()  # areas that are black in the luma plane only, and so ignored
    idle_keyframes: bool = False  # decode only keyframes of a live source while nothing moves in them
    fast: bool = False  # of a file decode only keyframes where nothing moves (`pipeline.sources.fast`)


@dataclass(slots=True)
class SourceReport:
    decoded: int = 0  # frames
    sampled: int = 0
    corrupt: int = 0  # frames or packets skipped because they were damaged
    dropped: int = 0  # sampled frames of a live source that were not read before newer ones came
    reconnections: int = 0  # times a live source was opened again
    errors: tuple[str, ...] = ()  # one redacted sentence per failure, the newest `ERRORS_KEPT`
    state: ConnectionState | None = None  # of a live source; None for files
    skew_s: float | None = None  # the camera's clock less ours, with packets' delay; None: it sends none
    screening: SourceReport | None = None  # of the sub-stream that is screened in place of this one

    @property
    def damaged(self) -> bool:
        return bool(self.corrupt or self.errors)

    def add_error(self, error: object) -> str:
        sentence = redact(error)
        self.errors = (*self.errors, sentence)[-ERRORS_KEPT:]
        return sentence


class Source(ABC):
    """Iterates the sampled frames of one camera in the order of their time; a context manager."""

    camera: str
    live: bool
    duration_s: float | None

    @property
    @abstractmethod
    def report(self) -> SourceReport: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Frame]: ...

    @abstractmethod
    def close(self) -> None:
        """End a running iteration soon, without an error; may be called from any thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Reader = Callable[[SourceReport, threading.Event], Iterator[Frame]]
"""Reads footage from its start: counts in the report, and ends when the event is set."""


class RecordedSource(Source):
    """Footage, read as it is iterated (`read` is called for each iteration), without a thread.

    `duration_s` is None where containers do not say; `unreadable` has one error a file.
    """

    live = False

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

    def close(self) -> None:
        self._closed.set()

    def _begin(self) -> None:
        self._report = SourceReport()
        for sentence in self._unreadable:
            self._report.add_error(sentence)
