"""Packets to intact frames: damage is skipped and counted, and never ends the reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from av.container.input import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.stream import Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.sources.frame import SourceError, SourceReport

KEYFRAME_WAIT_S = 10.0  # longest wait for a keyframe after damage; streams with intra refresh never send one

_NOT_VIDEO = frozenset({"tty", "lrc", "srt", "webvtt", "ass"})  # libav makes "video" of any text


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
