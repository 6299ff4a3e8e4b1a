"""One connection to a camera: opened with limits, read until it breaks, always closed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from time import monotonic

import av
from av.codec.hwaccel import HWAccel
from av.container.input import InputContainer
from av.error import FFmpegError, HTTPForbiddenError, HTTPNotFoundError, HTTPUnauthorizedError
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.sources.clock import CaptureClock, ReceiveClock
from pipeline.sources.decode import KEYFRAME_WAIT_S, SoundFrames, video_stream
from pipeline.sources.frame import Frame, SourceError, SourceOptions
from pipeline.sources.hardware import Hardware
from pipeline.sources.idle import IdleGate
from pipeline.sources.picture import View
from pipeline.sources.state import Connection
from pipeline.sources.tally import Tally
from pipeline.sources.times import LiveSampler

log = logging.getLogger(__name__)

_TIMED_OUT = 0.9
_MICROSECOND = Fraction(1, 1_000_000)


@dataclass(frozen=True, slots=True)
class Feed:
    """Where a camera's reading thread puts what it has, and learns that nobody wants more.

    Attributes:
        tally, connection: what is counted, and the state that is shown.
        put: takes the sampled frames.
        closed: set when nobody wants more.
    """

    tally: Tally
    connection: Connection
    put: Callable[[Frame], None]
    closed: threading.Event


class Sessions:
    """Opens and reads one camera, again and again; for the thread that reads it.

    Args:
        url: with its credentials.
        options: transport, time-outs, sampling, areas.
        camera: its name.
        feed: where frames and counts go.
        clock: this machine's.
        gate: chooses what is decoded; None decodes everything.
    """

    def __init__(
        self,
        url: str,
        options: SourceOptions,
        camera: str,
        feed: Feed,
        *,
        clock: ReceiveClock,
        gate: IdleGate | None = None,
    ) -> None:
        self._url, self._options, self._camera = url, options, camera
        self._tally, self._connection, self._closed = feed.tally, feed.connection, feed.closed
        self._put, self._receive, self._gate = feed.put, clock, gate
        self._capture = CaptureClock()
        self._view = View(options)
        self._hardware = Hardware(options.hardware, camera)
        self._count = 0

    def run(self) -> str:
        """Open the camera and read it until that breaks; why it broke, in words without secrets."""
        began = monotonic()
        self._connection.connecting()
        try:
            container = open_camera(self._url, self._options, self._hardware.acceleration())
        except (FFmpegError, OSError, ValueError) as error:
            return why_not_opened(error, monotonic() - began, self._options)
        with closing(container):
            self._tally.reconnections = self._count
            self._count += 1
            self._capture.connected()
            if self._gate:
                self._gate.connected()
            try:
                return self._read(container)
            except SourceError as error:
                return str(error)

    def _read(self, container: InputContainer) -> str:
        stream = video_stream(container, self._options.threads)
        self._tally.hardware = self._hardware.opened(accelerated=stream.codec_context.is_hwaccel)
        sound = SoundFrames(self._tally, joined_midway=True)
        sampler = LiveSampler(self._options.sample_hz)
        connection, silence_s = self._connection, _TIMED_OUT * self._options.stall_timeout_s
        connection.packet()
        try:
            for packet in container.demux(stream):
                # At the time-out libav's parser gives out what it still held, which is no sign of life.
                if connection.silent_s >= silence_s:
                    break
                connection.packet()
                self._look(packet, sound, sampler)
                self._tally.skew_s = self._capture.skew_s
                if self._closed.is_set():
                    return "closed"
                if connection.pictureless_s > self._options.stall_timeout_s + KEYFRAME_WAIT_S:
                    return "packets arrive but no intact picture: check the camera's stream and the network"
        except (FFmpegError, OSError):
            pass  # a killed server ends like a file, a stall like invalid data: only the clock tells
        if connection.silent_s >= silence_s:
            return f"silent for {self._options.stall_timeout_s:g} s: check the camera and the network"
        return "the stream ended: the camera or its server closed it"

    def _look(self, packet: Packet[VideoStream], sound: SoundFrames, sampler: LiveSampler) -> None:
        """Decode a packet, or leave it, and hand out the frames of it that are wanted."""
        received = self._receive.now()
        self._capture.note(packet, received)
        gate = self._gate
        for due, came in gate.due(packet, received) if gate else [(packet, received)]:
            for frame in gate.decode(due, sound) if gate else sound.decode(due):
                if not self._connection.streamed_s:
                    log.info("%s: streaming, %d x %d pixels", self._camera, frame.width, frame.height)
                self._connection.picture()
                came_us = int(came.timestamp() * 1_000_000)
                if sampler.takes(frame.pts, frame.time_base or _MICROSECOND, came_us):
                    self._hand_out(frame, came)
            if self._closed.is_set():
                return
            self._connection.packet()  # what was held takes a while: that is no silence
        if gate and gate.idle:
            self._connection.picture()

    def _hand_out(self, frame: VideoFrame, received: datetime) -> None:
        time = self._capture.time_of(frame.pts, frame.time_base or _MICROSECOND, received)
        clock = self._capture.clock
        luma, picture = self._view.of_frame(frame)
        if self._gate:
            self._gate.look(luma)
        if time is None or clock is None:
            return
        self._tally.clock = clock
        self._put(Frame(self._camera, time, clock, frame.pts or 0, luma, picture))


def open_camera(url: str, options: SourceOptions, hwaccel: HWAccel | None = None) -> InputContainer:
    """A connection to a camera; it must be closed.

    Raises:
        FFmpegError, OSError, ValueError: it cannot be opened; `why_not_opened` says why.
    """
    return av.open(
        url,
        mode="r",
        options={
            "rtsp_transport": options.rtsp_transport,
            # Sound that goes on while the picture is dead would hide the stall.
            "allowed_media_types": "video",
            "flags": "low_delay",
            "analyzeduration": "500000",
            "probesize": "500000",
            "max_delay": "500000",
        },
        timeout=(options.open_timeout_s, options.stall_timeout_s),
        hwaccel=hwaccel,
    )


def why_not_opened(error: Exception, waited_s: float, options: SourceOptions) -> str:
    """What an error of `open_camera` means, and what to do, without secrets.

    Args:
        error: it.
        waited_s: how long opening took: libav reports a silent host as invalid data, not as a time-out.
        options: those it was opened with.
    """
    if waited_s >= _TIMED_OUT * options.open_timeout_s:
        return f"no answer within {options.open_timeout_s:g} s: check the address and the network"
    if isinstance(error, HTTPUnauthorizedError):
        return "the camera refuses the user name or the password (401): check the credentials"
    if isinstance(error, HTTPForbiddenError):
        return "this user may not see the stream (403): check the user's permissions in the camera"
    if isinstance(error, HTTPNotFoundError):
        return "the camera has no such stream (404): check the path of the URL"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused: check the port, and that RTSP is switched on in the camera"
    return f"cannot be opened ({getattr(error, 'strerror', None) or type(error).__name__}): check the URL"
