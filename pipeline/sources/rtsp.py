"""RTSP cameras: opened again for ever, never spinning, their frames fresh."""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from time import monotonic
from weakref import WeakSet

import av
from av.container.input import InputContainer
from av.error import (
    FFmpegError,
    HTTPForbiddenError,
    HTTPNotFoundError,
    HTTPServerError,
    HTTPUnauthorizedError,
    InvalidDataError,
)
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.loop import LIMIT_S, Backoff, Heartbeats, Loop
from pipeline.redaction import redact
from pipeline.sources.decode import (
    KEYFRAME_WAIT_S,
    DecodeGate,
    IntactFrames,
    Screen,
    packets_of,
    video_stream,
)
from pipeline.sources.frame import (
    ConnectionState,
    Frame,
    LazyPicture,
    Source,
    SourceError,
    SourceOptions,
    SourceReport,
    View,
    boot_time_s,
)
from pipeline.sources.times import CaptureClock, Sampler

log = logging.getLogger(__name__)

BACKOFF_S = (0.5, 30.0)
"""First and longest pause before a camera is opened again, jittered: else all cameras of a rebooted switch
come back at the same moment."""

_TO_DOUBLE = 3  # failures in a row double the pause: a camera that is away for 5 s is back within 3 s

STEADY_S = 5.0  # a session this long starts the pauses over, not one that breaks at once
QUIET_SHARE = 0.5  # a camera that has been silent for this share of its stall time-out is shown as stalled

FRAMES_KEPT, KEPT_S = 4, 1.0
"""Sampled frames that wait for a slow reader, or seconds of them; the oldest are dropped and counted."""

REPEAT_S = 600.0  # a camera away for the same reason is logged again after this long, not at each attempt
SCREENED_HZ = 2.0  # frames of a sub-stream that are screened

LENT = 8
"""Frames that may lie in the decoder's memory at a time: as many as a quiet scene holds. It never gives back
what it lent while the narrator lagged, so that further ones are copied, which takes a millisecond or two."""

_POLL_S = 0.2
_TIMED_OUT = 0.9
_MICROSECOND = Fraction(1, 1_000_000)


class Connection:
    """State of one camera: written by the thread that reads it, read by any.

    It is streaming from the first intact picture, and stalled while packets or intact pictures stay away:
    the reading thread may be blocked, so a stall is worked out when the state is read.
    """

    def __init__(self, stall_timeout_s: float) -> None:
        self._stall_timeout_s = stall_timeout_s
        self.enter(ConnectionState.CONNECTING)

    def enter(self, state: ConnectionState) -> None:
        # The state comes last: a reader in between gets the new times with the old state, never a stall.
        self._entered_s = self._packet_s = self._picture_s = monotonic()
        self._state = state

    def packet(self) -> None:
        self._packet_s = monotonic()

    def picture(self) -> None:
        """An intact picture came, or would have, had its packet been decoded."""
        self._picture_s = self._packet_s
        if self._state is not ConnectionState.STREAMING:
            self.enter(ConnectionState.STREAMING)

    @property
    def streamed_s(self) -> float:
        """Seconds since the first picture of this connection; 0 where there was none."""
        return monotonic() - self._entered_s if self._state is ConnectionState.STREAMING else 0.0

    @property
    def silent_s(self) -> float:
        return monotonic() - self._packet_s

    @property
    def pictureless_s(self) -> float:
        return self._packet_s - self._picture_s

    @property
    def state(self) -> ConnectionState:
        state, packet_s, picture_s = self._state, self._packet_s, self._picture_s
        is_silent = monotonic() - packet_s > QUIET_SHARE * self._stall_timeout_s
        if state is ConnectionState.STREAMING and (is_silent or packet_s - picture_s > self._stall_timeout_s):
            return ConnectionState.STALLED
        return state


class RtspSource(Source):
    """Frames of an RTSP camera; opening and decoding run in a thread of their own.

    Nothing can interrupt libav's reads from outside before their time-out, and closing a container under a
    reading thread crashes: so that thread reads, and iteration only waits for frames, ending at `close`.
    """

    live = True

    def __init__(
        self,
        url: str,
        options: SourceOptions,
        camera: str,
        *,
        screen: Screen | None = None,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.camera = camera
        self.duration_s: float | None = None
        self._url, self._options = url, options
        self._report, self._connection = SourceReport(), Connection(options.stall_timeout_s)
        self._capture, self._view = CaptureClock(), View(options)
        self._screen, self._gate = screen, DecodeGate(screen, keyframes=options.idle_keyframes)
        self._frames: queue.Queue[Frame] = queue.Queue(max(FRAMES_KEPT, round(KEPT_S * options.sample_hz)))
        # No wait of libav, and no pause, is longer than these together.
        within_s = options.open_timeout_s + options.stall_timeout_s + BACKOFF_S[1] + LIMIT_S
        self._reading = Loop(f"rtsp {camera}", self._read, heartbeats=heartbeats, within_s=within_s)
        self._lent = WeakSet[LazyPicture]()
        self._sessions = 0
        first_s, longest_s = BACKOFF_S
        self._backoff = Backoff(camera, first_s, longest_s, to_double=_TO_DOUBLE, warn_every_s=REPEAT_S)

    @property
    def report(self) -> SourceReport:
        screening = self._screen.source.report if self._screen else None
        return replace(self._report, state=self._connection.state, screening=screening)

    def __exit__(self, *_: object) -> None:
        self.close()
        self._reading.join(1.0)

    def close(self) -> None:
        self._reading.stop()
        if self._screen:
            self._screen.close()

    def __iter__(self) -> Iterator[Frame]:
        threads = {self.camera: self._reading}
        if self._screen:
            threads[self._screen.source.camera] = self._screen.loop
        for thread in threads.values():
            if not thread.started:
                thread.start()
        while not self._reading.stopped.is_set():
            for name, thread in threads.items():
                if (error := thread.error) is not None:
                    raise SourceError(redact(f"{name}: {type(error).__name__}: {error}")) from None
            with suppress(queue.Empty):
                frame = self._frames.get(timeout=_POLL_S)
                self._report.sampled += 1
                yield frame

    def _read(self) -> None:
        """A turn of the thread: one session, then a pause that grows with those that failed in a row."""
        reason = self._session()
        if self._reading.stopped.is_set():
            return
        if self._connection.streamed_s >= STEADY_S:
            self._backoff.reset()
        self._connection.enter(ConnectionState.BACKING_OFF)
        self._report.add_error(f"{self.camera}: {reason}")
        self._reading.stopped.wait(self._backoff.next_s(reason))

    def _session(self) -> str:
        """Open the camera and read it until that breaks; the reason, in words without secrets."""
        self._connection.enter(ConnectionState.CONNECTING)
        try:
            with closing(open_camera(self._url, self._options)) as container:
                self._report.reconnections = self._sessions
                self._sessions += 1
                self._capture.connected()
                self._gate.connected()
                return self._demux(container)
        except SourceError as error:
            return str(error)

    def _demux(self, container: InputContainer) -> str:
        stream = video_stream(container)
        intact = IntactFrames(self._report, joined_midway=True)
        sampler = Sampler(self._options.sample_hz, live=True)
        connection, silence_s = self._connection, _TIMED_OUT * self._options.stall_timeout_s
        connection.packet()
        try:
            for packet in packets_of(container, stream):
                # At the time-out libav's parser gives out what it still held, which is no sign of life.
                if connection.silent_s >= silence_s:
                    break
                connection.packet()
                self._reading.beat()
                if self._backoff.reason and connection.streamed_s >= STEADY_S:
                    self._backoff.reset()
                self._look(packet, intact, sampler)
                self._report.skew_s = self._capture.skew_s
                if self._reading.stopped.is_set():
                    return "closed"
                if connection.pictureless_s > self._options.stall_timeout_s + KEYFRAME_WAIT_S:
                    return "packets arrive but no intact picture: check the camera's stream and the network"
        except (FFmpegError, OSError):
            pass  # a killed server ends like a file, a stall like invalid data: only the clock can say which
        if connection.silent_s >= silence_s:
            return f"silent for {self._options.stall_timeout_s:g} s: check the camera and the network"
        return "the stream ended: the camera or its server closed it"

    def _look(self, packet: Packet[VideoStream], intact: IntactFrames, sampler: Sampler) -> None:
        received, gate = datetime.now(UTC), self._gate
        self._capture.note(packet, received)
        for due, came, _ in gate.due(packet, received):
            for frame in gate.decode(due, intact):
                if not self._connection.streamed_s:
                    log.info("%s: streaming, %d x %d pixels", self.camera, frame.width, frame.height)
                self._connection.picture()
                came_us = int(came.timestamp() * 1_000_000)
                stamp = came_us if frame.pts is None else frame.pts
                base = (frame.pts is not None and frame.time_base) or _MICROSECOND
                if sampler.takes(stamp, base, came_us):
                    self._hand_out(frame, came)
            if self._reading.stopped.is_set():
                return
            self._connection.packet()  # decoding what was held takes a while: that is no silence
            self._reading.beat()
        if gate.idle:
            self._connection.picture()

    def _hand_out(self, frame: VideoFrame, received: datetime) -> None:
        time = self._capture.time_of(frame.pts, frame.time_base or _MICROSECOND, received)
        if is_copied := len(self._lent) >= LENT:
            frame.make_writable()
        luma, picture = self._view.of_frame(frame)
        if not is_copied:
            self._lent.add(picture)
        self._gate.look(luma)
        if time and (clock := self._capture.clock):
            self._put(Frame(self.camera, time, clock, frame.pts or 0, luma, picture, boot_time_s()))

    def _put(self, frame: Frame) -> None:
        if self._frames.full():  # only this thread puts
            with suppress(queue.Empty):  # the reader was faster
                self._frames.get_nowait()
                self._report.dropped += 1
        self._frames.put_nowait(frame)


_REASONS = {
    HTTPUnauthorizedError: "the camera refuses the user name or the password (401): check the credentials",
    HTTPForbiddenError: "this user may not see the stream (403): check the user's permissions in the camera",
    HTTPNotFoundError: "the camera has no such stream (404): check the path of the URL",
    HTTPServerError: "the camera reports a fault of its own (5xx): free one of its viewers, or restart it",
    InvalidDataError: "what answers sends no video by RTSP: check the port and the path of the URL",
    ConnectionRefusedError: "the connection was refused: check the port, and that the camera has RTSP on",
}


def open_camera(url: str, options: SourceOptions) -> InputContainer:
    """A connection to a camera, to be closed; SourceError has the reason and the remedy, without secrets."""
    began = monotonic()
    try:
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
            metadata_errors="replace",  # names of sessions need not be UTF-8
        )
    except (FFmpegError, OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or type(error).__name__
        reason = next((text for kind, text in _REASONS.items() if isinstance(error, kind)), "")
    # libav reports a silent host as invalid data, not as a time-out.
    if monotonic() - began >= _TIMED_OUT * options.open_timeout_s:
        reason = f"no answer within {options.open_timeout_s:g} s: check the address and the network"
    other = f"cannot be opened ({words}): check the host's name; in a password / is written %2F, and @ is %40"
    raise SourceError(reason or other)
