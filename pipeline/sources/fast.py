"""Reading a file fast: keyframes, and in full only the groups of pictures in which something happens.

What happens between two keyframes shows in the second of them, or, where it is over by then, in the sizes of
the packets between them: what moves must be coded. Groups in which either is seen are decoded, and so are
those shortly before (where it comes from) and after (whether it stays). Of all others the keyframe alone is
given out, so that slow change is still seen.

Where a camera's noise fills its bit rate the sizes tell nothing. Then keyframes must come every `LONE_S`
seconds, or all is decoded; and what comes and goes in between is missed.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from statistics import median

from av.codec.context import CodecContext
from av.error import FFmpegError
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.sources.decode import IntactFrames
from pipeline.sources.frame import Luma, SourceReport
from pipeline.sources.picture import View
from pipeline.sources.screen import moves

BEFORE_S, AFTER_S = 2.0, 6.0
"""So much footage around what happens is decoded: a pair waits 4.5 s at most until it is given out."""

LEAST_GROUP_S = 1.5
"""Keyframes that follow sooner begin no group: of footage that has nothing else some must be left out."""

LONGEST_GROUP_S = 20.0
"""A longer group is decoded in parts: its packets are held until that is decided."""

LONE_S = 2.5
"""Keyframes are enough without the sizes of packets where they are no further apart."""

_BIN_S = 0.5
_NOISY = 1 / 60  # bytes per pixel in half a second without motion: with more, noise hides a person in it
_KNOWN = 60  # calm groups by whose packets others are judged
_FEWEST = 5
_AHEAD = 4  # keyframes that are decoded side by side, at most
_LARGER, _LARGER_BY = 1.25, 1 / 4000  # than those of calm groups, and bytes per pixel besides


@dataclass(slots=True, eq=False)
class _PictureGroup:
    """A group of pictures: a keyframe and all up to the next.

    Attributes:
        start_s, end_s: time of its first and last packet.
        coming: its keyframe, while that is decoded; None in what goes on without one.
        packets: all of them.
        happens: whether something happens in it.
        sizes: bytes of its packets but for keyframes, by half seconds from its start.
    """

    start_s: float
    end_s: float
    coming: Future[VideoFrame | None] | None = None
    packets: list[Packet[VideoStream]] = field(default_factory=list)
    happens: bool = False
    sizes: Counter[int] = field(default_factory=Counter)

    @property
    def keyframe(self) -> VideoFrame | None:
        """Decoded; None where it cannot be, and where there is none."""
        return self.coming.result() if self.coming else None

    def add(self, packet: Packet[VideoStream], at_s: float) -> None:
        self.packets.append(packet)
        self.end_s = max(self.end_s, at_s)
        if not packet.is_keyframe:
            self.sizes[int((at_s - self.start_s) / _BIN_S)] += packet.size

    @property
    def peak(self) -> int:
        """Bytes of its fullest half second."""
        return max(self.sizes.values(), default=0)


class FastReader:
    """Decodes what of a file is worth it."""

    def __init__(self, stream: VideoStream, view: View, report: SourceReport) -> None:
        self._stream, self._view, self._report = stream, view, report
        self._threads = min(_AHEAD, len(os.sched_getaffinity(0)))
        self._idle: SimpleQueue[VideoCodecContext] = SimpleQueue()
        for _ in range(self._threads):
            self._idle.put(_decoder_like(stream.codec_context))
        self._seen: Luma | None = None
        self._peaks: deque[int] = deque(maxlen=_KNOWN)
        self._busy_until_s = float("-inf")
        self._intact: IntactFrames | None = None  # while groups are decoded in full
        self._at_s = 0.0

    def frames(self, packets: Iterable[Packet[VideoStream]]) -> Iterator[VideoFrame]:
        """Frames in order: all of a group in which something happens, or the keyframe."""
        waiting: deque[_PictureGroup] = deque()
        with ThreadPoolExecutor(self._threads) as pool:
            for group in self._ahead(packets, pool):
                before = waiting[-1] if waiting else None
                if before is not None:
                    self._judge(before)
                self._look(group, before)
                waiting.append(group)
                while waiting[0].end_s + BEFORE_S < waiting[-1].start_s:
                    yield from self._given(waiting.popleft(), waiting)
        if waiting:
            self._judge(waiting[-1])
        while waiting:
            yield from self._given(waiting.popleft(), waiting)
        yield from self._rest()

    def _ahead(
        self, packets: Iterable[Packet[VideoStream]], pool: ThreadPoolExecutor
    ) -> Iterator[_PictureGroup]:
        """Whole groups, some behind what is being read: their keyframes are decoded by then."""
        read: deque[_PictureGroup] = deque()
        for packet in packets:
            if not packet.size:  # the end: what the decoder holds is drained there
                continue
            at_s = self._time(packet)
            if not read or self._begins(packet, at_s, read[-1]):
                if len(read) > self._threads:
                    yield read.popleft()
                coming = pool.submit(self._decoded, packet) if packet.is_keyframe else None
                read.append(_PictureGroup(at_s, at_s, coming))
            read[-1].add(packet, at_s)
        yield from read

    def _time(self, packet: Packet[VideoStream]) -> float:
        stamp = packet.pts if packet.dts is None else packet.dts
        if stamp is not None and packet.time_base:
            self._at_s = max(self._at_s, float(stamp * packet.time_base))
        return self._at_s

    @staticmethod
    def _begins(packet: Packet[VideoStream], at_s: float, now: _PictureGroup) -> bool:
        lasted_s = at_s - now.start_s
        return lasted_s >= (LEAST_GROUP_S if packet.is_keyframe else LONGEST_GROUP_S)

    def _look(self, group: _PictureGroup, before: _PictureGroup | None) -> None:
        """The keyframe of a new group shows what happened in the one before."""
        keyframe = group.keyframe
        if keyframe is None:  # it can only be decoded behind the one before
            happened = True
        else:
            plane, _ = self._view.of_frame(keyframe)
            happened, self._seen = moves(self._seen, plane), plane
        if happened:
            group.happens = True
            if before:
                before.happens = True

    def _judge(self, group: _PictureGroup) -> None:
        """By its packets, now that all of them are there."""
        peak = group.peak
        usual = median(self._peaks) if len(self._peaks) >= _FEWEST else 0.0
        if not group.happens:
            self._peaks.append(peak)
        pixels = self._stream.width * self._stream.height
        if usual > _NOISY * pixels:
            group.happens |= group.end_s - group.start_s > LONE_S
        else:
            group.happens |= peak > _LARGER * usual + _LARGER_BY * pixels

    def _given(self, group: _PictureGroup, after: Iterable[_PictureGroup]) -> Iterator[VideoFrame]:
        if group.happens:
            self._busy_until_s = max(self._busy_until_s, group.end_s + AFTER_S)
        soon = any(each.happens and each.start_s <= group.end_s + BEFORE_S for each in after)
        if not (soon or group.start_s <= self._busy_until_s):
            yield from self._rest()
            if (keyframe := group.keyframe) is not None:
                self._report.decoded += 1
                yield keyframe
            return
        if self._intact is None:
            self._intact = IntactFrames(self._report, joined_midway=True)
        for packet in group.packets:
            yield from self._intact.decode(packet)

    def _rest(self) -> Iterator[VideoFrame]:
        """Frames that the decoder still holds of the groups that were decoded."""
        if self._intact is not None:
            yield from self._intact.drain(self._stream.codec_context)
            self._intact = None

    def _decoded(self, packet: Packet[VideoStream]) -> VideoFrame | None:
        """A keyframe by itself, by a decoder of its own."""
        alone = self._idle.get()
        try:
            frames = [*alone.decode(packet), *alone.decode(None)]
        except FFmpegError:
            frames = []
        finally:
            alone.flush_buffers()
            self._idle.put(alone)
        return next((frame for frame in frames if not frame.is_corrupt), None)


def _decoder_like(context: VideoCodecContext) -> VideoCodecContext:
    """Another decoder of the same stream: keyframes are looked at before it is decided what is decoded."""
    alone = CodecContext.create(context.name, "r")
    assert isinstance(alone, VideoCodecContext)  # noqa: S101 - that of a video stream
    alone.extradata = context.extradata
    alone.thread_count = 1
    return alone
