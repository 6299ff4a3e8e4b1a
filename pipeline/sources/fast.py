"""Reading a file fast: keyframes, and in full only the groups of pictures in which something happens.

Motion between two keyframes shows in the second one, or, where it is over by then, in the sizes of the
packets between them. Groups in which either shows are decoded, and those shortly before and after. Where a
camera's noise fills its bit rate, sizes say nothing: then everything is decoded, unless keyframes come every
`LONE_S` seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
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
from pipeline.sources.frame import LazyPicture, Luma, SourceReport
from pipeline.sources.gate import has_motion
from pipeline.sources.picture import View

BEFORE_S, AFTER_S = 2.0, 6.0  # decoded around an event: a pair waits 4.5 s at most
LEAST_GROUP_S = 1.5  # keyframes that follow sooner begin no group: some footage has nothing else

LONGEST_GROUP_S = 20.0  # a longer group is decoded in parts: its packets are held until that is decided
LONE_S = 2.5  # keyframes are enough without the sizes of packets where they are no further apart

_DECODERS = 2  # keyframes that are decoded at a time
_AHEAD = 12  # groups read ahead: their keyframes are decoded while frames are tracked; 3 MB each at 1080p

_BACK_S = 1.0  # a stamp that is so much before the last one has jumped
_BIN_S = 0.5
_NOISY = 1 / 60  # bytes per pixel in half a second without motion: with more, noise hides a person in it
_KNOWN = 60  # calm groups with whose packets others are compared
_FEWEST = 5
_LARGER, _LARGER_BY = 1.25, 1 / 4000  # than those of calm groups, and bytes per pixel besides


Viewed = tuple[Luma, LazyPicture]  # what `View.of_frame` makes of a decoded frame


@dataclass(slots=True, eq=False)
class _PictureGroup:
    """A keyframe and all packets up to the next; `pending` is None in one that goes on without a keyframe."""

    start_s: float
    end_s: float
    pending: Future[tuple[VideoFrame, Viewed] | None] | None
    packets: list[Packet[VideoStream]] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)  # of the packets
    is_active: bool = False

    @property
    def keyframe(self) -> tuple[VideoFrame, Viewed] | None:
        return self.pending.result() if self.pending else None


class FastReader:
    """Decodes the parts of a file in which something happens; more threads decode keyframes ahead."""

    def __init__(
        self,
        stream: VideoStream,
        view: View,
        report: SourceReport,
        is_wanted: Callable[[Packet[VideoStream]], bool] = lambda _: True,
    ) -> None:
        self._stream, self._view, self._report, self._is_wanted = stream, view, report, is_wanted
        self._tick_s = float(stream.time_base or 0)
        self._frame_s = float(1 / (stream.average_rate or stream.guessed_rate or 25))
        self._shift_s = 0.0  # by which stamps have jumped back
        self._idle = SimpleQueue[VideoCodecContext]()
        for _ in range(_DECODERS):
            decoder = CodecContext.create(stream.codec_context.name, "r")
            assert isinstance(decoder, VideoCodecContext)  # noqa: S101 - that of a video stream
            decoder.extradata, decoder.thread_count = stream.codec_context.extradata, 1
            self._idle.put(decoder)
        self._last_plane: Luma | None = None
        self._peaks: deque[int] = deque(maxlen=_KNOWN)
        self._active_until_s = float("-inf")
        self._intact: IntactFrames | None = None  # while groups are decoded in full

    def frames(self, packets: Iterable[Packet[VideoStream]]) -> Iterator[tuple[VideoFrame, Viewed | None]]:
        """Frames in order: all of a group in which something happens, or the keyframe, which was viewed."""
        waiting: deque[_PictureGroup] = deque()
        with ThreadPoolExecutor(_DECODERS) as pool:
            for group in self._groups(packets, pool):
                self._compare_keyframe(group, waiting[-1] if waiting else None)
                self._compare_sizes(group)
                waiting.append(group)
                while waiting[0].end_s + BEFORE_S < group.start_s:
                    yield from self._decode(waiting.popleft(), waiting)
        while waiting:
            yield from self._decode(waiting.popleft(), waiting)
        yield from self._drain()

    def _groups(
        self, packets: Iterable[Packet[VideoStream]], pool: ThreadPoolExecutor
    ) -> Iterator[_PictureGroup]:
        """Complete groups, some behind that which is being read: keyframes are decoded meanwhile."""
        read: deque[_PictureGroup] = deque()
        at_s = 0.0
        for packet in packets:
            if not packet.size:  # the end: what the decoder holds is drained there
                continue
            at_s = self._time(packet, at_s)
            least_s = LEAST_GROUP_S if packet.is_keyframe else LONGEST_GROUP_S
            if not read or at_s - read[-1].start_s >= least_s:
                if len(read) > _AHEAD:
                    yield read.popleft()
                pending = pool.submit(self._decode_alone, packet) if packet.is_keyframe else None
                read.append(_PictureGroup(at_s, at_s, pending))
            group = read[-1]
            group.packets.append(packet)
            group.times_s.append(at_s)
            group.end_s = max(group.end_s, at_s)
        yield from read

    def _compare_keyframe(self, group: _PictureGroup, before: _PictureGroup | None) -> None:
        """Mark the group, and the one before, active where the keyframe differs from the last one."""
        keyframe = group.keyframe
        if keyframe is not None:  # else it can only be decoded behind the one before
            _, (plane, _) = keyframe
            last, self._last_plane = self._last_plane, plane
            if not has_motion(last, plane):
                return
        group.is_active = True
        if before:
            before.is_active = True

    def _compare_sizes(self, group: _PictureGroup) -> None:
        """Mark the group active where its packets are larger than those of calm groups."""
        sizes: Counter[int] = Counter()
        for packet, at_s in zip(group.packets, group.times_s, strict=True):
            if not packet.is_keyframe:
                sizes[int((at_s - group.start_s) / _BIN_S)] += packet.size
        peak = max(sizes.values(), default=0)
        usual = median(self._peaks) if len(self._peaks) >= _FEWEST else 0.0
        if not group.is_active:
            self._peaks.append(peak)
        pixels = self._stream.width * self._stream.height
        if usual > _NOISY * pixels:
            group.is_active |= group.end_s - group.start_s > LONE_S
        else:
            group.is_active |= peak > _LARGER * usual + _LARGER_BY * pixels

    def _decode(
        self, group: _PictureGroup, later: Iterable[_PictureGroup]
    ) -> Iterator[tuple[VideoFrame, Viewed | None]]:
        if group.is_active:
            self._active_until_s = max(self._active_until_s, group.end_s + AFTER_S)
        is_near = any(each.is_active and each.start_s <= group.end_s + BEFORE_S for each in later)
        if not (is_near or group.start_s <= self._active_until_s):
            yield from self._drain()
            if (keyframe := group.keyframe) is not None:
                self._report.decoded += 1
                yield keyframe
            return
        if self._intact is None:
            self._intact = IntactFrames(self._report, joined_midway=True, is_wanted=self._is_wanted)
        for packet in group.packets:
            for frame in self._intact.decode(packet):
                yield frame, None

    def _drain(self) -> Iterator[tuple[VideoFrame, None]]:
        if self._intact is not None:
            for frame in self._intact.drain(self._stream.codec_context):
                yield frame, None
            self._intact = None

    def _decode_alone(self, packet: Packet[VideoStream]) -> tuple[VideoFrame, Viewed] | None:
        decoder = self._idle.get()
        try:
            frames = [*decoder.decode(packet), *decoder.decode(None)]
        except FFmpegError:
            frames = []
        finally:
            decoder.flush_buffers()
            self._idle.put(decoder)
        frame = next((frame for frame in frames if not frame.is_corrupt), None)
        return None if frame is None else (frame, self._view.of_frame(frame))

    def _time(self, packet: Packet[VideoStream], last_s: float) -> float:
        """Seconds of a packet in decoding order, never before the last one; stamps that jump back go on."""
        stamp = packet.pts if packet.dts is None else packet.dts
        if stamp is None:
            return last_s + self._frame_s
        at_s = stamp * self._tick_s + self._shift_s
        if at_s < last_s - _BACK_S:
            self._shift_s += last_s - at_s
        return max(last_s, at_s)
