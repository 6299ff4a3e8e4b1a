"""A camera's small second stream, screened so that the large one is decoded only while something moves."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from time import monotonic

from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.loop import Loop
from pipeline.redaction import redacted
from pipeline.sources.clock import ReceiveClock
from pipeline.sources.decode import SoundFrames
from pipeline.sources.frame import Frame, Luma, Source, SourceOptions, SourceReport
from pipeline.sources.idle import FIRST_S, KEYFRAME_GAP_S, STILL_S, Arrived, IdleGate, moves
from pipeline.sources.rtsp import RtspSource, raise_error

log = logging.getLogger(__name__)

SCREENED_HZ = 2.0
"""The sub-stream is looked at this often at least, however seldom the main stream is."""

LATE_S = 3.0
"""A sub-stream without a picture for so long screens nothing: the main stream is decoded."""

LAG_S = 2.0
"""A sub-stream may show a movement so much later than the main stream does."""

FRESH_S = 10.0
"""A keyframe of the main stream is decoded this often although the sub-stream shows nothing: the reference of
the pairs stays fresh, slow change is found, and a sub-stream that shows something else, or for ever the same,
does not blind the camera."""

AGAIN_S = 30.0
"""After an error of ours, not of the camera, the sub-stream is opened again so much later."""

HELD_BYTES = 32 << 20
"""Packets of the main stream that are held at most; beyond, they are decoded."""


class Screen:
    """Looks at a camera's sub-stream, in a thread of its own, and knows when something moved last.

    Args:
        opened: gives the sub-stream, its areas blackened; called again where reading one has failed.

    Attributes:
        moved_s: monotonic time at which something moved last.
    """

    def __init__(self, opened: Callable[[], Source]) -> None:
        self.moved_s = self._looked_s = float("-inf")
        self._opened, self._source = opened, opened()
        self._loop = Loop(f"screen {self._source.camera}", self._watch)

    @classmethod
    def of(cls, url: str, options: SourceOptions, camera: str) -> Screen:
        """The screen of a camera.

        Args:
            url: of its sub-stream.
            options: of its main stream; areas and time-outs are the same.
            camera: its name.
        """
        small = replace(
            options,
            sample_hz=max(SCREENED_HZ, options.sample_hz),
            idle_keyframes=False,
            hardware="none",
        )
        meanwhile = "the main stream is screened meanwhile"
        return cls(lambda: RtspSource(url, small, f"{camera}: sub-stream", meanwhile=meanwhile))

    @property
    def sees(self) -> bool:
        """Whether the sub-stream shows what happens."""
        return monotonic() - self._looked_s <= LATE_S

    @property
    def report(self) -> SourceReport:
        """What was read of the sub-stream."""
        return self._source.report

    @property
    def silent_s(self) -> float:
        """Seconds since the thread that reads the sub-stream last got on; 0 before it has begun."""
        return self._source.silent_s if self._loop.alive else 0.0

    def start(self) -> None:
        """Begin to look; a second call does nothing."""
        if not self._loop.started:
            self._loop.start()

    def raise_error(self) -> None:
        """Raise what has ended the thread, if anything has.

        Raises:
            SourceError: it, without secrets.
        """
        raise_error(self._loop, self._source.camera)

    def close(self) -> None:
        """Stop looking."""
        self._loop.stop()
        self._source.close()

    def _watch(self) -> None:
        try:
            self._look()
        except Exception as error:  # noqa: BLE001 - the next try may succeed
            log.warning(
                "%s; the main stream is screened meanwhile; next try in %.0f s", redacted(error), AGAIN_S
            )
        else:
            self._loop.stop()  # closed, or the footage has ended
        if not self._loop.stopped.wait(AGAIN_S):
            self._source = self._opened()

    def _look(self) -> None:
        seen: Luma | None = None
        with self._source as frames:
            if self._loop.stopped.is_set():  # while it was opened again
                return
            for frame in frames:
                self._looked_s = monotonic()
                if moves(seen, frame.luma):
                    self.moved_s = self._looked_s
                seen = frame.luma


class ScreenedGate(IdleGate):
    """Decodes nothing of the main stream while the sub-stream shows nothing, but holds what came.

    Held is everything from a keyframe on that came `LAG_S` ago or earlier. When the sub-stream shows
    movement, or nothing any more, all of that is decoded, so that every frame has its references and the
    scene just before the movement is seen as well. Every `FRESH_S` one keyframe is decoded alone.

    Args:
        screen: of the sub-stream.
        keyframes: decode keyframes alone, not everything, while the sub-stream is away and nothing moves.
        still_s, first_s: see `IdleGate`.
    """

    def __init__(
        self, screen: Screen, *, keyframes: bool = False, still_s: float = STILL_S, first_s: float = FIRST_S
    ) -> None:
        super().__init__(still_s, first_s)
        self.screen = screen
        self._keyframes = keyframes
        self._held: deque[tuple[float, Arrived]] = deque()
        self._bytes = 0
        self._fresh_s = float("-inf")
        self._last: Packet[VideoStream] | None = None  # of those that were held and are being decoded

    def connected(self) -> None:
        """A new connection: nothing of the last one is of use."""
        super().connected()
        self._last = None
        self._let_go(len(self._held))

    def due(self, packet: Packet[VideoStream], received: datetime) -> list[Arrived]:
        """Everything that comes, or nothing; all that was held, when something moves."""
        if not self.idle:
            self._let_go(len(self._held))
            self._fresh_s = monotonic()
            return super().due(packet, received)
        if packet.is_keyframe:
            self._note_keyframe()
        now_s = monotonic()
        self._hold(now_s, packet, received)
        if self._must_wake(now_s):
            self.idle = False
            self._moved_s = max(self._moved_s, now_s)
            held = [arrived for _, arrived in self._held]
            self._let_go(len(held))
            self._last = packet
            return held
        if packet.is_keyframe and (now_s - self._fresh_s >= FRESH_S or not self.screen.sees):
            # It will be given out: nothing before it can be any more.
            self._let_go(len(self._held) - 1)
            self._fresh_s = now_s
            return [Arrived(packet, received)]
        return []

    def decode(self, packet: Packet[VideoStream], sound: SoundFrames) -> Iterator[VideoFrame]:
        """Sound frames of a packet that is due, none of them given out before."""
        yield from super().decode(packet, sound)
        if packet is self._last:
            self._last = None

    def _hold(self, now_s: float, packet: Packet[VideoStream], received: datetime) -> None:
        self._held.append((now_s, Arrived(packet, received)))
        self._bytes += packet.size
        late = [
            number
            for number, (came_s, held) in enumerate(self._held)
            if held.packet.is_keyframe and now_s - came_s >= LAG_S
        ]
        self._let_go(late[-1] if late else 0)

    def _let_go(self, count: int) -> None:
        """Forget the oldest packets."""
        for _ in range(count):
            self._bytes -= self._held.popleft()[1].packet.size
            self._apart = self._apart or self.idle

    def _must_wake(self, now_s: float) -> bool:
        if not self.screen.sees:
            return not self._keyframes
        overdue = self._keyframe_s is None or now_s - self._keyframe_s > KEYFRAME_GAP_S
        return overdue or self._bytes > HELD_BYTES or now_s - self.screen.moved_s < self._still_s

    def _may_rest(self, now_s: float) -> bool:
        if self._last is not None or not super()._may_rest(now_s):
            return False
        return now_s - self.screen.moved_s >= self._still_s if self.screen.sees else self._keyframes


class ScreenedSource(RtspSource):
    """An RTSP camera whose small second stream is screened; the frames are those of the main stream.

    Args:
        url: of the main stream.
        options: of both streams.
        camera: name of the camera.
        gate: holds the main stream.
        clock: this machine's; None takes the system's.
    """

    def __init__(
        self,
        url: str,
        options: SourceOptions,
        camera: str,
        gate: ScreenedGate,
        clock: ReceiveClock | None = None,
    ) -> None:
        super().__init__(url, options, camera, clock, gate=gate)
        self._screen = gate.screen

    @property
    def report(self) -> SourceReport:
        """Counts and state of the main stream, and of the sub-stream."""
        return replace(super().report, screening=self._screen.report)

    @property
    def screening_silent_s(self) -> float:
        """Seconds since the thread that reads the sub-stream last got on."""
        return self._screen.silent_s

    def close(self) -> None:
        """Stop both streams."""
        super().close()
        self._screen.close()

    def __iter__(self) -> Iterator[Frame]:
        """Sampled frames of the main stream, for ever."""
        self._screen.start()
        for frame in super().__iter__():
            self._screen.raise_error()
            yield frame
