"""RTSP cameras: opened with limits, opened again for ever, never spinning."""

from __future__ import annotations

import logging
import queue
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from time import monotonic
from typing import Self

import av
from av.container.input import InputContainer
from av.error import FFmpegError, HTTPNotFoundError, HTTPUnauthorizedError
from av.video.frame import VideoFrame

from pipeline.sources.decode import KEYFRAME_WAIT_S, SoundFrames, video_stream
from pipeline.sources.frame import Clock, Frame, SourceError, SourceOptions, SourceReport
from pipeline.sources.picture import LazyPicture, luma_of, resized_luma, rgb_of
from pipeline.sources.redact import redacted
from pipeline.sources.tally import Tally
from pipeline.sources.timing import Sampler

log = logging.getLogger(__name__)

BACK_OFF_S = (0.5, 30.0)
"""First and longest pause before a camera is opened again."""

BACK_OFF_GROWTH = 1.5
"""Keeps the pause at about a third of the absence: a camera away for 7 s is back within 3 s of its return."""

STEADY_S = 5.0
"""A session this long starts the pauses over; one that breaks at once does not, or it would spin."""

FRAMES_KEPT = 4
"""Sampled frames that wait for a slow reader; the oldest are dropped and counted."""

_POLL_S = 0.2
_TIMED_OUT = 0.9
_MICROSECOND = Fraction(1, 1_000_000)


class RtspSource:
    """Frames of an RTSP camera; opening and decoding run in a thread of their own.

    Nothing can interrupt libav's reads from outside before their time-out, and closing a container under a
    reading thread crashes: so that thread reads, and iteration only waits for frames, ending at `close`.
    The thread ends by itself at the latest after the running time-out.

    Args:
        url: ``rtsp://`` or ``rtsps://``.
        options: transport, time-outs, sampling.
        camera: name of the camera.
    """

    live = True

    def __init__(self, url: str, options: SourceOptions, camera: str) -> None:
        self.camera = camera
        self.duration_s: float | None = None
        self._url = url
        self._options = options
        self._closed = threading.Event()
        self._tally = Tally()
        self._frames: queue.Queue[Frame] = queue.Queue(FRAMES_KEPT)
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None
        self._sessions = 0
        self._clock = ReceiveClock()

    @property
    def report(self) -> SourceReport:
        """Counts so far; `errors` tells each interruption."""
        return self._tally.report()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def close(self) -> None:
        """Stop: a running iteration ends within a fraction of a second."""
        self._closed.set()

    def __iter__(self) -> Iterator[Frame]:
        """Sampled frames as they come, for ever; the camera is opened again after every interruption."""
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(target=self._read, name=f"rtsp {self.camera}", daemon=True)
            self._thread.start()
        while not self._closed.is_set():
            try:
                frame = self._frames.get(timeout=_POLL_S)
            except queue.Empty:
                if self._failure is not None:
                    raise self._failure from None
                continue
            self._tally.sampled += 1
            yield frame

    def _read(self) -> None:
        """Thread: session after session, with growing pauses between those that fail."""
        try:
            failures = 0
            while not self._closed.is_set():
                began = monotonic()
                reason, steady = self._session()
                if self._closed.is_set():
                    return
                failures = 0 if steady else failures + 1
                pause_s = back_off_s(max(0, failures - 1))
                sentence = self._tally.error(f"{self.camera}: {reason}")
                log.warning("%s; next try in %.1f s (after %.1f s)", sentence, pause_s, monotonic() - began)
                self._closed.wait(pause_s)
        except Exception as error:  # noqa: BLE001 - the reading thread's error reaches whoever iterates
            self._failure = SourceError(redacted(f"{self.camera}: {type(error).__name__}: {error}"))

    def _session(self) -> tuple[str, bool]:
        """Open and read until it breaks: why it broke, and whether it had been steady."""
        began = monotonic()
        try:
            container = self._opened()
        except (FFmpegError, OSError, ValueError) as error:
            return self._why_not_opened(error, monotonic() - began), False
        with closing(container):
            self._sessions += 1
            self._tally.reconnections = self._sessions - 1
            opened = monotonic()
            try:
                reason = self._read_session(container)
            except SourceError as error:
                return str(error), False
            return reason, monotonic() - opened >= STEADY_S

    def _opened(self) -> InputContainer:
        options = self._options
        return av.open(
            self._url,
            mode="r",
            options={
                "rtsp_transport": options.rtsp_transport,
                # Sound that goes on while the picture is dead would hide the stall.
                "allowed_media_types": "video",
                "fflags": "nobuffer",
                "flags": "low_delay",
                "analyzeduration": "500000",
                "probesize": "500000",
                "max_delay": "500000",
            },
            timeout=(options.open_timeout_s, options.stall_timeout_s),
        )

    def _why_not_opened(self, error: Exception, waited_s: float) -> str:
        # By elapsed time: libav reports a silent host as invalid data, not as a time-out.
        if waited_s >= _TIMED_OUT * self._options.open_timeout_s:
            return f"no answer within {self._options.open_timeout_s:g} s: check the address and the network"
        if isinstance(error, HTTPUnauthorizedError):
            return "the camera refuses the user name or the password (401): check the credentials"
        if isinstance(error, HTTPNotFoundError):
            return "the camera has no such stream (404): check the path of the URL"
        if isinstance(error, ConnectionRefusedError):
            return "the connection is refused: check the port, and that the camera's RTSP is switched on"
        return f"cannot be opened ({getattr(error, 'strerror', None) or type(error).__name__}): check the URL"

    def _read_session(self, container: InputContainer) -> str:
        stream = video_stream(container, self._options.threads)
        sound = SoundFrames(self._tally, joined_midway=True)
        sampler = Sampler(self._options.sample_hz)
        last_packet = last_frame = monotonic()
        try:
            for packet in container.demux(stream):
                last_packet = monotonic()
                received = self._clock.now()
                for frame in sound.decode(packet):
                    last_frame = last_packet
                    if self._taken(frame, received, sampler):
                        self._put(self._frame(frame, received))
                if self._closed.is_set():
                    return "closed"
                if last_packet - last_frame > self._options.stall_timeout_s + KEYFRAME_WAIT_S:
                    return "packets come but no sound picture: check the camera's stream and the network"
        except (FFmpegError, OSError):
            pass  # a killed server ends like a file, a stall like invalid data: only the clock tells
        if monotonic() - last_packet >= _TIMED_OUT * self._options.stall_timeout_s:
            return f"silent for {self._options.stall_timeout_s:g} s: check the camera and the network"
        return "the stream ended: the camera or its server closed it"

    def _taken(self, frame: VideoFrame, received: datetime, sampler: Sampler) -> bool:
        if frame.pts is not None and frame.time_base is not None:
            return sampler.takes(frame.pts, frame.time_base)
        return sampler.takes(int(received.timestamp() * 1_000_000), _MICROSECOND)

    def _frame(self, frame: VideoFrame, received: datetime) -> Frame:
        return Frame(
            camera=self.camera,
            time=received,
            clock=Clock.RECEIVE,
            pts=frame.pts or 0,
            luma=resized_luma(luma_of(frame), self._options.analysis_width),
            picture=LazyPicture(partial(rgb_of, frame)),
        )

    def _put(self, frame: Frame) -> None:
        while True:
            try:
                self._frames.put_nowait(frame)
            except queue.Full:
                try:
                    self._frames.get_nowait()
                except queue.Empty:  # the reader was faster
                    continue
                self._tally.dropped += 1
            else:
                return


class ReceiveClock:
    """Wall-clock times that never run back: the clock at the start, carried on by the monotonic clock.

    A clock that is set forward (a machine that boots in 1970 and finds its time server) is followed; one
    that is set back is not, because a camera's frames are in the order of their time.
    """

    def __init__(self) -> None:
        self._anchor, self._since = datetime.now(UTC), monotonic()
        self._last = self._anchor

    def now(self) -> datetime:
        """Aware UTC time, later than every one given before."""
        wall, since = datetime.now(UTC), monotonic()
        carried = self._anchor + timedelta(seconds=since - self._since)
        if wall - carried > timedelta(seconds=1):
            self._anchor, self._since, carried = wall, since, wall
        self._last = max(carried, self._last + timedelta(microseconds=1))
        return self._last


def back_off_s(failures: int) -> float:
    """Pause in seconds after `failures` earlier failures in a row, jittered over its upper half.

    Without jitter all cameras of a rebooted switch come back at the same moment.
    """
    first_s, longest_s = BACK_OFF_S
    pause_s = min(longest_s, first_s * BACK_OFF_GROWTH ** min(failures, 20))
    return pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret depends on it
