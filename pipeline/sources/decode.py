"""Packets to intact frames: damage is skipped and counted, and as little as possible is decoded.

Decoding is most of a camera's cost, so a gate leaves it out while nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from time import monotonic

from av.container.input import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.stream import Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.distance import l2_luma
from pipeline.loop import Loop
from pipeline.sources.frame import Luma, Source, SourceError, SourceReport

KEYFRAME_WAIT_S = 10.0  # longest wait for a keyframe after damage; streams with intra refresh never send one

_NOT_VIDEO = frozenset({"tty", "lrc", "srt", "webvtt", "ass"})  # libav makes "video" of any text

STILL_S = 10.0  # motion this long ago lets the gate close: longer than any pair waits to settle
FIRST_S = 90.0  # at first everything is decoded: thresholds are calibrated on it
KEYFRAME_GAP_S = 12.0  # keyframes further apart than this are not enough to watch by
LAG_S = 2.0  # a sub-stream may show motion this much later than the main stream

FRESH_S = 10.0
"""A keyframe of the main stream is decoded this often although the sub-stream shows nothing: slow change is
detected, and a sub-stream that is frozen or shows something else does not blind the camera."""

HELD_BYTES = 32 << 20  # packets that are held at most; beyond, they are decoded
LATE_S = 3.0  # without a picture for this long a sub-stream shows nothing: the main stream is decoded
WAKING_L2 = 12.0  # L2 distance of a block, in grey levels, that is motion: below the least lower threshold

_BLOCK = 16


def video_stream(container: InputContainer) -> VideoStream:
    """The first stream of moving pictures, its decoder set to one thread; SourceError without one."""
    for stream in container.streams.video:
        if container.format.name in _NOT_VIDEO or stream.disposition & Disposition.attached_pic:
            continue
        if not stream.codec_context:  # of a codec that libav does not know
            continue
        stream.codec_context.thread_count = 1
        stream.thread_type = "SLICE"
        return stream
    raise SourceError("it holds no video stream: give a video file, or a folder of stills")


def packets_of(container: InputContainer, stream: VideoStream) -> Iterator[Packet[VideoStream]]:
    """All packets of a stream, at its end an empty one; raises FFmpegError."""
    with suppress(IndexError):  # PyAV's, at the end of a file in which damage has begun another stream
        yield from container.demux(stream)


class IntactFrames:
    """Decodes packet after packet; a damaged frame and those up to the next keyframe are skipped and counted.

    They are predicted from it and look smeared, often without being flagged, and a smear looks like a change.
    A packet that is not wanted is decoded only where others are predicted from it.
    """

    def __init__(
        self,
        report: SourceReport,
        *,
        joined_midway: bool = False,
        is_wanted: Callable[[Packet[VideoStream]], bool] = lambda _: True,
    ) -> None:
        self._report, self._is_wanted = report, is_wanted
        self._waiting = joined_midway
        self._joining = joined_midway
        self._since_s: float | None = None

    def decode(self, packet: Packet[VideoStream]) -> Iterator[VideoFrame]:
        """Intact frames that the packet completes (the empty packet at the end: all that are left)."""
        packet.stream.codec_context.skip_frame = "DEFAULT" if self._is_wanted(packet) else "NONREF"
        yield from self._intact(packet.decode)

    def drain(self, context: VideoCodecContext) -> Iterator[VideoFrame]:
        """Intact frames that the decoder still holds; it then starts afresh and needs a keyframe."""
        frames = [*self._intact(context.decode)]
        context.flush_buffers()
        yield from frames

    def restart(self, context: VideoCodecContext) -> None:
        """Packets were left out on purpose: the decoder starts over, at a keyframe."""
        context.flush_buffers()
        self._wait()

    def _intact(self, decode: Callable[[], list[VideoFrame]]) -> Iterator[VideoFrame]:
        try:
            frames = decode()
        except FFmpegError:
            self._report.corrupt += 1
            self._wait()
            return
        for frame in frames:
            self._report.decoded += 1
            if self._is_intact(frame):
                yield frame
            elif not self._joining:
                self._report.corrupt += 1

    def _wait(self) -> None:
        if not self._waiting:
            self._waiting, self._since_s = True, None

    def _is_intact(self, frame: VideoFrame) -> bool:
        if frame.is_corrupt:
            self._wait()
            return False
        if self._waiting and not frame.key_frame:
            now_s = frame.time if frame.pts is not None else None
            if now_s is None:
                return False
            self._since_s = now_s if self._since_s is None else self._since_s
            if abs(now_s - self._since_s) < KEYFRAME_WAIT_S:
                return False
        self._waiting = self._joining = False
        return True


def has_motion(before: Luma | None, after: Luma) -> bool:
    """True where anything moved between two luma planes, or there is nothing to compare."""
    if before is None or before.shape != after.shape:
        return True
    return bool(l2_luma(before, after, _BLOCK)[1].max() > WAKING_L2)


class Screen:
    """Watches a camera's sub-stream for motion, in a thread of its own."""

    def __init__(self, source: Source) -> None:
        self.moved_s = self._frame_s = float("-inf")
        self.source = source  # the sub-stream, its areas blackened
        self.loop = Loop(f"screen {source.camera}", self._watch)

    @property
    def is_current(self) -> bool:
        """True while frames of the sub-stream arrive."""
        return monotonic() - self._frame_s <= LATE_S

    def close(self) -> None:
        self.loop.stop()
        self.source.close()

    def _watch(self) -> None:
        last: Luma | None = None
        with self.source as frames:
            for frame in frames:
                self._frame_s = monotonic()
                if has_motion(last, frame.luma):
                    self.moved_s = self._frame_s
                last = frame.luma
        self.loop.stop()  # closed, or the footage has ended


_Received = tuple["Packet[VideoStream]", datetime, float]  # PyAV has no generics at run time
"""A packet, and the aware UTC time and the monotonic second at which it came."""


class DecodeGate:
    """Decodes every packet while something moves; else it holds them (`idle`), from a keyframe on.

    Motion shows in keyframes, which are then decoded alone, or in a sub-stream's screen (in `keyframes` too
    while that gets no frames). On motion all held packets are decoded: frames whose references were not
    decoded look wrong, and none is flagged. A keyframe that is decoded alone is drained from the decoder,
    which otherwise keeps it back, and decoded again on waking.
    """

    def __init__(
        self,
        screen: Screen | None = None,
        *,
        keyframes: bool = True,
        still_s: float = STILL_S,
        first_s: float = FIRST_S,
    ) -> None:
        self._screen, self._keyframes, self._still_s = screen, keyframes, still_s
        self._moved_s = monotonic() + max(0.0, first_s - still_s)
        self.connected()

    def connected(self) -> None:
        """A new connection: decode everything until nothing has moved for a while."""
        self.idle = self._waking = self._apart = False
        self._plane: Luma | None = None
        self._keyframe_s: float | None = None
        self._gap_s: float | None = None
        self._yielded: int | None = None  # pts up to which frames are not yielded again
        self._alone: Packet[VideoStream] | None = None  # the keyframe that was decoded alone
        self._last: Packet[VideoStream] | None = None  # of the held packets that are being decoded
        self._fresh_s = float("-inf")
        self._moved_s = max(self._moved_s, monotonic())
        self._held: list[_Received] = []

    def due(self, packet: Packet[VideoStream], received: datetime) -> list[_Received]:
        """Packets to decode now that one has come: it, none, or on waking all that were held."""
        now_s = monotonic()
        came = packet, received, now_s
        if packet.is_keyframe:
            self._gap_s = None if self._keyframe_s is None else now_s - self._keyframe_s
            self._keyframe_s = now_s
        if not self.idle:
            self._fresh_s = now_s
            return [came]
        self._hold(came)
        if self._must_wake(now_s):
            self.idle = self._waking = False
            self._moved_s = max(self._moved_s, now_s)
            held, self._held, self._last = self._held, [], packet
            return held
        if packet.is_keyframe and (
            now_s - self._fresh_s >= FRESH_S or not (self._screen and self._screen.is_current)
        ):
            self._release(len(self._held) - 1)  # nothing before it can be yielded any more
            self._fresh_s = now_s
            return [came]
        return []

    def decode(self, packet: Packet[VideoStream], intact: IntactFrames) -> Iterator[VideoFrame]:
        """Intact frames of a packet that is due, each yielded once."""
        if self._apart:
            # What the decoder held back is old, and what precedes a keyframe may be predicted from it.
            intact.restart(packet.stream.codec_context)
            self._apart = False
            if packet.pts is not None:
                self._yielded = packet.pts if packet is self._alone else packet.pts - 1
        elif packet.is_keyframe:
            self._yielded = None
        alone = self.idle
        for frame in intact.decode(packet):
            if alone or self._yielded is None or frame.pts is None or frame.pts > self._yielded:
                yield frame
        if alone:
            self._alone = packet
            yield from intact.drain(packet.stream.codec_context)
            self._apart = True
        elif packet is self._last:
            self._last = None

    def look(self, plane: Luma) -> None:
        """Decide by the luma plane of a sampled frame how much is decoded from here on."""
        if not (self._screen or self._keyframes):
            return
        last, self._plane = self._plane, plane
        now_s = monotonic()
        if has_motion(last, plane):
            self._moved_s = max(self._moved_s, now_s)
            self._waking = self.idle
        elif not self.idle and now_s - self._moved_s >= self._still_s and self._may_rest(now_s):
            self.idle = True

    def _is_quiet(self, now_s: float) -> bool:
        """True where the screen shows no motion, or gets no frames and keyframes stand in for it."""
        if self._screen is not None and self._screen.is_current:
            return now_s - self._screen.moved_s >= self._still_s
        return self._keyframes

    def _hold(self, came: _Received) -> None:
        """Keep a packet, and all before it from the last keyframe that came `LAG_S` ago or earlier."""
        self._held.append(came)
        for number in reversed(range(len(self._held))):
            packet, _, came_s = self._held[number]
            if packet.is_keyframe and came[2] - came_s >= LAG_S:
                self._release(number)
                break

    def _release(self, count: int) -> None:
        self._apart = self._apart or count > 0
        del self._held[:count]

    def _must_wake(self, now_s: float) -> bool:
        if self._waking or sum(packet.size for packet, _, _ in self._held) > HELD_BYTES:
            return True
        if self._keyframe_s is None or now_s - self._keyframe_s > KEYFRAME_GAP_S:
            return True
        return not self._is_quiet(now_s)

    def _may_rest(self, now_s: float) -> bool:
        """True where keyframes come close enough (streams with intra refresh have none) and nothing moves."""
        if self._last is not None or self._gap_s is None or self._keyframe_s is None:
            return False
        return max(self._gap_s, now_s - self._keyframe_s) <= KEYFRAME_GAP_S and self._is_quiet(now_s)
