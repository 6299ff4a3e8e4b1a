"""RTSP cameras: opened again for ever, never spinning, their frames fresh."""

from __future__ import annotations

import logging
import queue
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import Self

from pipeline.loop import Loop
from pipeline.redaction import redacted
from pipeline.sources.clock import ReceiveClock
from pipeline.sources.frame import Frame, SourceError, SourceOptions, SourceReport
from pipeline.sources.idle import IdleGate
from pipeline.sources.session import Feed, Sessions
from pipeline.sources.state import CameraState, Connection
from pipeline.sources.tally import Tally

log = logging.getLogger(__name__)

BACK_OFF_S = (0.5, 30.0)
"""First and longest pause before a camera is opened again."""

BACK_OFF_GROWTH = 1.25
"""Keeps the pause at about a quarter of the absence: a camera away for 5 s is back within 3 s."""

STEADY_S = 5.0
"""A session this long starts the pauses over; one that breaks at once does not, or it would spin."""

FRAMES_KEPT = 4
"""Sampled frames that wait for a slow reader; the oldest are dropped and counted."""

REPEAT_S = 600.0
"""A camera that is away for the same reason is told again after so long, not at each of 3,000 tries a day."""

_POLL_S = 0.2


class RtspSource:
    """Frames of an RTSP camera; opening and decoding run in a thread of their own.

    Nothing can interrupt libav's reads from outside before their time-out, and closing a container under a
    reading thread crashes: so that thread reads, and iteration only waits for frames, ending at `close`.
    The thread ends by itself at the latest after the running time-out.

    Args:
        url: ``rtsp://`` or ``rtsps://``.
        options: transport, time-outs, sampling, areas.
        camera: name of the camera.
        clock: this machine's; None takes the system's.
        gate: which packets are decoded; None makes one where `options.idle_keyframes` is set.
        meanwhile: what happens while it is away, for the warning.
    """

    live = True

    def __init__(
        self,
        url: str,
        options: SourceOptions,
        camera: str,
        clock: ReceiveClock | None = None,
        *,
        gate: IdleGate | None = None,
        meanwhile: str = "",
    ) -> None:
        self.camera = camera
        self.duration_s: float | None = None
        self._url = url
        self._options = options
        self._tally = Tally()
        self._connection = Connection(options.stall_timeout_s)
        self._clock = clock or ReceiveClock()
        self._gate = gate or (IdleGate() if options.idle_keyframes else None)
        self._frames: queue.Queue[Frame] = queue.Queue(FRAMES_KEPT)
        self._reading = Loop(f"rtsp {camera}", self._read)
        self._failures = 0
        self._meanwhile = f"; {meanwhile}" if meanwhile else ""
        self._warned = ("", float("-inf"))

    @property
    def report(self) -> SourceReport:
        """Counts so far, and the state; `errors` tells each interruption."""
        state, since = self._connection.now
        return replace(self._tally.report(), state=state, since=since)

    @property
    def state(self) -> CameraState:
        """What the source is doing."""
        return self._connection.now[0]

    @property
    def since(self) -> datetime:
        """Aware UTC time at which `state` began."""
        return self._connection.now[1]

    @property
    def silent_s(self) -> float:
        """Seconds since the reading thread last got on: a packet came, or an attempt began or ended."""
        return self._connection.silent_s

    @property
    def screening_silent_s(self) -> float:
        """Seconds since the thread that reads the sub-stream last got on; 0 where there is none."""
        return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._reading.join(1.0)

    def close(self) -> None:
        """Stop: a running iteration ends within a fraction of a second."""
        self._reading.stop()

    def __iter__(self) -> Iterator[Frame]:
        """Sampled frames as they come, for ever; the camera is opened again after every interruption."""
        if not self._reading.started:
            self._reading.start()
        while not self._reading.stopped.is_set():
            try:
                frame = self._frames.get(timeout=_POLL_S)
            except queue.Empty:
                raise_error(self._reading, self.camera)
                continue
            self._tally.sampled += 1
            yield frame

    @cached_property
    def _sessions(self) -> Sessions:
        """Made by the thread that reads: trying a graphics card takes a while."""
        feed = Feed(self._tally, self._connection, self._put, self._reading.stopped)
        return Sessions(self._url, self._options, self.camera, feed, clock=self._clock, gate=self._gate)

    def _read(self) -> None:
        """A turn of the thread: one session, then a pause that grows with those that failed in a row."""
        began = monotonic()
        reason = self._sessions.run()
        if self._reading.stopped.is_set():
            return
        if self._connection.streamed_s >= STEADY_S:
            self._failures, self._warned = 0, ("", float("-inf"))
        else:
            self._failures += 1
        pause_s = back_off_s(max(0, self._failures - 1))
        self._connection.backing_off()
        self._tell(reason, pause_s, monotonic() - began)
        self._reading.stopped.wait(pause_s)

    def _tell(self, reason: str, pause_s: float, took_s: float) -> None:
        sentence = self._tally.error(f"{self.camera}: {reason}{self._meanwhile}")
        last, warned_s = self._warned
        same = reason == last or (last and self._meanwhile)  # what is done without is told of once
        if same and monotonic() - warned_s < REPEAT_S:
            log.debug("%s; next try in %.1f s (after %.1f s)", sentence, pause_s, took_s)
            return
        self._warned = (reason, monotonic())
        log.warning("%s; next try in %.1f s (after %.1f s)", sentence, pause_s, took_s)

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


def raise_error(thread: Loop, camera: str) -> None:
    """Raise what has ended a thread that reads for a camera, if anything has.

    Raises:
        SourceError: it, without secrets.
    """
    if (error := thread.error) is not None:
        raise SourceError(redacted(f"{camera}: {type(error).__name__}: {error}")) from None


def back_off_s(failures: int) -> float:
    """Pause in seconds after `failures` earlier failures in a row, jittered over its upper half.

    Without jitter all cameras of a rebooted switch come back at the same moment.
    """
    first_s, longest_s = BACK_OFF_S
    pause_s = min(longest_s, first_s * BACK_OFF_GROWTH ** min(failures, 40))
    return pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret depends on it
