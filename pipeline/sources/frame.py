"""The frame, its picture and plane, and what every source of frames promises."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol, Self

import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from pipeline.redaction import redact

Image = NDArray[np.uint8]  # RGB, uint8, ``(height, width, 3)``
Luma = NDArray[np.uint8]  # luma plane at analysis size, uint8, ``(height, width)``

ERRORS_KEPT = 100  # a camera that is away for weeks must not fill the memory with errors
_CLOCK_SET_S = 10.0  # a camera's clock and delays of the network account for less
_SET_AHEAD_S = 60.0  # frames that were held back until something moved are decoded some seconds late

Polygon = tuple[tuple[float, float], ...]
"""Corners ``(x, y)`` in 0..1 of the frame from its top left, in the order of a walk around the area."""

_FRACTION_BITS = 8

_LUMA_FIRST = frozenset(
    [
        *(f"yuv{way}{chroma}p" for way in ("", "a", "j") for chroma in (410, 411, 420, 422, 440, 444)),
        *("nv12", "nv16", "nv21", "nv24", "gray"),
    ]
)
"""Pixel formats whose first plane is 8-bit luma, one byte a pixel."""

TALLEST = 8  # heights of a picture, in its width

PRIVACY_MARGIN = 4  # pixels around an area that are black too: colour is shared by 2 x 2 pixels


# A frame that is held keeps its converter, and that keeps its pool of threads: a hundred for four cameras.
_THREADS = 1


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
    fast: bool = False  # of a file decode only keyframes where nothing moves (`pipeline.sources.video`)


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


@lru_cache(maxsize=64)
def polygon_mask(polygons: tuple[Polygon, ...], shape: tuple[int, int], margin: int = 0) -> NDArray[np.bool_]:
    """The pixels of a frame that any polygon touches, and `margin` more around; `shape` is (height, width).

    bool ``(height, width)``, read-only: it is kept for the next call.
    """
    height, width = shape
    plane = np.zeros(shape, np.uint8)
    for polygon in polygons:
        # Pixel i reaches from i - 0.5 to i + 0.5 in OpenCV's coordinates; each is drawn on its own, because
        # fillPoly leaves out where two overlap.
        corners = np.clip(np.array(polygon) * (width, height) - 0.5, 0, (width - 1, height - 1))
        fixed = np.round(corners * (1 << _FRACTION_BITS)).astype(np.int32)
        cv2.fillPoly(plane, [fixed], 1, lineType=cv2.LINE_8, shift=_FRACTION_BITS)
    # fillPoly rounds: pixels that an edge only grazes are found in the next row or column.
    reach = 2 * (margin + 1) + 1
    mask = cv2.dilate(plane, np.ones((reach, reach), np.uint8)).astype(bool)
    mask.setflags(write=False)
    return mask


def without_picture(frame: Frame) -> Frame:
    """Its time and plane, for whoever holds it longer than others hold its picture."""

    def no_picture() -> Image:
        raise AssertionError("only the luma plane of this frame was kept")

    return replace(frame, picture=LazyPicture(no_picture))


def turns_of(frame: VideoFrame) -> int:
    """Quarter turns, counterclockwise, that make a frame upright: of a phone that was held upright, say."""
    return round(frame.rotation / 90) % 4


def turn(image: Image, turns: int) -> Image:
    return np.ascontiguousarray(np.rot90(image, turns)) if turns else image


def rgb_of(frame: VideoFrame) -> Image:
    return np.ascontiguousarray(frame.to_ndarray(format="rgb24", threads=_THREADS), dtype=np.uint8)


def small_rgb_of(frame: VideoFrame, width: int, scaler: VideoReformatter) -> Image:
    """RGB of a frame at most so wide, by a camera's scaler: the frame's own would be held with it."""
    width = min(width, frame.width)
    height, by_area = max(1, round(frame.height * width / frame.width)), Interpolation.AREA
    return rgb_of(scaler.reformat(frame, width, height, "rgb24", interpolation=by_area, threads=_THREADS))


def luma_of(frame: VideoFrame) -> Luma:
    """Luma plane of a decoded frame at full size; of most formats a view into the decoder's buffer."""
    if frame.format.name not in _LUMA_FIRST:
        frame = frame.reformat(format="gray", threads=_THREADS)
    plane = frame.planes[0]
    buffer: Any = plane  # PyAV's planes speak the buffer protocol; its type stubs do not say so
    lines: Luma = np.frombuffer(buffer, dtype=np.uint8, count=plane.line_size * plane.height)
    # Lines are padded: without the line size the picture comes out sheared.
    luma: Luma = lines.reshape(plane.height, plane.line_size)[: frame.height, : frame.width]
    return luma


def resize_luma(luma: Luma, width: int) -> Luma:
    """A copy of the plane, averaged by area; its height keeps the aspect, rounded to even."""
    height = max(2, 2 * round(luma.shape[0] * width / luma.shape[1] / 2))
    if luma.shape == (height, width):
        return luma.copy()
    return np.asarray(cv2.resize(luma, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)


class View:
    """Makes planes and pictures of a camera: privacy areas are black in both, masks in planes alone."""

    def __init__(self, options: SourceOptions, turns: int = 0) -> None:
        self._turns = turns
        self._width, self._privacy, self._masks = options.analysis_width, options.privacy, options.masks
        self._scaler, self._scaling = VideoReformatter(), threading.Lock()

    def of_frame(self, frame: VideoFrame) -> tuple[Luma, LazyPicture]:
        return self._plane(turn(luma_of(frame), self._turns)), LazyPicture(
            lambda: self._private(turn(rgb_of(frame), self._turns)),
            None if self._turns else lambda width: self._small(frame, width),
        )

    def _small(self, frame: VideoFrame, width: int) -> Image:
        with self._scaling:
            return self._private(small_rgb_of(frame, width, self._scaler))

    def of_bgr(self, bgr: Image) -> tuple[Luma, LazyPicture]:
        """Luma plane at analysis size and picture of a BGR image uint8 ``(height, width, 3)``."""
        luma = np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY), np.uint8)
        rgb = self._private(np.ascontiguousarray(bgr[..., ::-1]))
        return self._plane(luma), LazyPicture(lambda: rgb)

    def _plane(self, luma: Luma) -> Luma:
        height, width = luma.shape
        if height > TALLEST * width:  # at the width of all planes it would fill the memory
            raise SourceError(f"no camera has pictures of {width} x {height} pixels")
        plane = resize_luma(self._private(luma), self._width)
        if self._masks:
            plane[polygon_mask(self._masks, (plane.shape[0], plane.shape[1]))] = 0
        return plane

    def _private(self, pixels: Image) -> Image:
        if not self._privacy:
            return pixels
        pixels = pixels.copy()  # what is given may be the decoder's own, from which it predicts
        pixels[polygon_mask(self._privacy, (pixels.shape[0], pixels.shape[1]), PRIVACY_MARGIN)] = 0
        return pixels


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
