"""Video files: one, or the segments of one camera read one after the other.

Read fast, keyframes are decoded, and in full only the groups of pictures in which something happens. Motion
between two keyframes shows in the second one, or, where it is over by then, in the sizes of the packets
between them. Groups in which either shows are decoded, and those shortly before and after. Where a camera's
noise fills its bit rate, sizes say nothing: then everything is decoded, unless keyframes come every `LONE_S`
seconds.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from statistics import median

import av
from av.codec.context import CodecContext
from av.container.input import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.redaction import redact
from pipeline.sources.decode import IntactFrames, has_motion, packets_of, video_stream
from pipeline.sources.frame import (
    Clock,
    Frame,
    LazyPicture,
    Luma,
    RecordedSource,
    SourceError,
    SourceOptions,
    SourceReport,
    View,
    turns_of,
)
from pipeline.sources.times import (
    EPOCH,
    Sampler,
    natural_key,
    parse_creation_time,
    stamp_in_name,
    to_timedelta,
)

READ_FAILURES = 10  # failed reads in a row after which the rest of a file is given up
LONGEST_S = 366 * 86_400  # a time stamp so far from the file's first one is damaged
SHORT_BY_S = 1.0  # a file that ends this much before its container's duration was cut off

ADJOINING = timedelta(seconds=2)  # a file that starts so soon after another's end continues it
_LARGEST_PTS = 2**53 - 1  # of a record; stamps may be nanoseconds since 1970
_FIRST_PACKETS = 100  # one of which gives a frame, unless the file is damaged
REORDER_FRAMES = 16  # that a decoder holds back at most: the first dts of an AVI is as late

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


@dataclass(frozen=True, slots=True)
class VideoFile:
    path: Path
    duration_s: float | None  # by the container; None where it does not say
    recorded: datetime | None  # time of its first frame by container or name; None if neither says
    turns: int = 0  # see `turns_of`
    start: datetime | None = None  # by the clock of all segments; None: where the last ended


def open_videos(paths: Sequence[Path], options: SourceOptions, camera: str) -> RecordedSource:
    """A camera's video files as a source, by time stamps; SourceError where not one can be opened."""
    segments, unreadable = list[VideoFile](), list[str]()
    for path in paths:
        try:
            segments.append(probe(path))
        except SourceError as error:
            unreadable.append(f"{path}: {error}")
    if not segments:
        raise SourceError("; ".join(unreadable[:3]))
    segments = in_order(segments, options.start)
    lengths = [segment.duration_s for segment in segments]

    def read(report: SourceReport, closed: threading.Event) -> Iterator[Frame]:
        end: datetime | None = None
        for segment in segments:
            own = segment.start or end or EPOCH
            # Names are of whole seconds, and clocks of recorders overlap: what follows at once is one stream.
            start = end if end and own - end <= ADJOINING else own
            reader = _SegmentReader(segment, options, camera, start, report=report, closed=closed)
            yield from reader.frames()
            end = reader.end

    duration_s = None if None in lengths else sum(length or 0.0 for length in lengths)
    return RecordedSource(camera, read, duration_s, tuple(unreadable))


def probe(path: Path) -> VideoFile:
    """The length and the times of a video file; raises `SourceError` where it is none."""
    with closing(open_container(path)) as container:
        stream = video_stream(container)
        created = container.metadata.get("creation_time") or stream.metadata.get("creation_time")
        recorded = parse_creation_time(created) or stamp_in_name(path)
        return VideoFile(path, _duration_of(container, stream), recorded, _turns_of(container, stream))


def _turns_of(container: InputContainer, stream: VideoStream) -> int:
    with suppress(FFmpegError):  # the reading counts it
        for packet in islice(packets_of(container, stream), _FIRST_PACKETS):
            for frame in packet.decode():
                return turns_of(frame)
    return 0


class _SegmentReader:
    """Reads one segment; positions are times from its start in units of its time base."""

    def __init__(
        self,
        segment: VideoFile,
        options: SourceOptions,
        camera: str,
        start: datetime,
        *,
        report: SourceReport,
        closed: threading.Event,
    ) -> None:
        self._segment, self._options, self._camera, self._start = segment, options, camera, start
        self._report, self._closed = report, closed
        self._last: int | None = None  # position of the last frame
        self._reached = 0  # where the last packet ended, sound or not
        self._shift = self._frame_length = 0
        self._time_base, self._by_dts = Fraction(1), False

    @property
    def end(self) -> datetime:
        """Time at which the last frame ended, sound or not."""
        return self._start + to_timedelta(self._reached, self._time_base)

    def frames(self) -> Iterator[Frame]:
        try:
            container = open_container(self._segment.path)
        except SourceError as error:  # it went away since it was probed
            self._report.add_error(f"{self._segment.path}: {error}")
            return
        with closing(container):
            stream = video_stream(container)
            self._time_base = stream.time_base or Fraction(1, 1000)
            rate = stream.average_rate or stream.guessed_rate or Fraction(25)
            # AVI stores no pts; what libav makes up for B-frames is out of order, its dts is right.
            self._by_dts = container.format.name == "avi"
            self._frame_length = max(1, round(1 / (rate * self._time_base)))
            self._shift = -(stream.start_time or 0)
            yield from self._sampled(container, stream)
        if not self._closed.is_set():
            self._check_end()

    def _sampled(self, container: InputContainer, stream: VideoStream) -> Iterator[Frame]:
        sampler, view = Sampler(self._options.sample_hz), View(self._options, self._segment.turns)
        half_slot = int(Fraction(1, 2) / Fraction(self._options.sample_hz) / self._time_base)
        packets = self._packets(container, stream)

        def is_wanted(packet: Packet[VideoStream]) -> bool:
            """True where the frame may be the first of its slot; a slot without it takes the next one."""
            stamp = self._stamp(packet)
            if self._by_dts or stamp is None:
                return True
            length = packet.duration or self._frame_length
            position = stamp + self._shift + min(length // 2, half_slot)
            slots = (sampler.slot_of(each, self._time_base) for each in (position - length - 1, position + 1))
            return len({*slots}) > 1

        if self._options.fast:
            frames = FastReader(stream, view, self._report, is_wanted).frames(packets)
        else:
            intact = IntactFrames(self._report, is_wanted=is_wanted)
            frames = ((frame, None) for packet in packets for frame in intact.decode(packet))
        for frame, viewed in frames:
            stamp = self._stamp(frame)
            position = self._position(frame, stamp)
            if position is None:
                continue
            # Half a frame ahead: the frame nearest to the beginning of a slot is taken, not the next one.
            ahead = min((frame.duration or self._frame_length) // 2, half_slot)
            if not sampler.takes(position + ahead, self._time_base):
                continue
            self._report.sampled += 1
            time = self._start + to_timedelta(position, self._time_base)
            pts = position if stamp is None or abs(stamp) > _LARGEST_PTS else stamp
            yield Frame(self._camera, time, Clock.FILE, pts, *(viewed or view.of_frame(frame)))
            if self._closed.is_set():
                return

    def _packets(self, container: InputContainer, stream: VideoStream) -> Iterator[Packet[VideoStream]]:
        """Packets of the file, also behind a failed read; damaged ones count as read to their end."""
        failures, start, longest = 0, stream.start_time or 0, self._segment.duration_s
        end = None if longest is None else int(longest / self._time_base)
        while failures < READ_FAILURES:
            try:
                for packet in packets_of(container, stream):
                    if self._closed.is_set():
                        return
                    failures, stamp = 0, self._stamp(packet)
                    if stamp is not None:
                        reached = stamp - start + (packet.duration or self._frame_length)
                        if end is not None:  # a damaged stamp may lie days ahead
                            reached = min(reached, end)
                        self._reached = max(self._reached, reached)
                    yield packet
            except FFmpegError as error:
                failures, reason = failures + 1, error.strerror or type(error).__name__
                self._report.corrupt += 1
            else:
                return
        self._report.add_error(f"the rest could not be read ({reason})")

    def _stamp(self, coded: Packet[VideoStream] | VideoFrame) -> int | None:
        stamp = coded.dts if self._by_dts or coded.pts is None else coded.pts
        is_near = stamp is not None and abs(stamp + self._shift) * self._time_base < LONGEST_S
        return stamp if is_near else None

    def _position(self, frame: VideoFrame, stamp: int | None) -> int | None:
        """Position of a frame by its stamp; None: it comes too late."""
        if stamp is None:
            # Neither stamp (raw streams, the last frames of an AVI): it follows on the one before.
            position = 0 if self._last is None else self._last + self._frame_length
        else:
            position = stamp + self._shift
        if self._last is None and self._by_dts and 0 < position <= REORDER_FRAMES * self._frame_length:
            self._shift, position = self._shift - position, 0
        if self._last is not None and position <= self._last:
            back = to_timedelta(self._last - position, self._time_base)
            if back <= timedelta(seconds=SHORT_BY_S):
                return None  # a twin of the frame before, or one out of order by damage
            at = f"by {back.total_seconds():.1f} s at {float(self._last * self._time_base):.1f} s"
            text = f"time stamps jump back {at}; the rest follows on without a gap"
            self._report.add_error(f"{self._segment.path}: {text}")
            self._shift += self._last + self._frame_length - position
            position = self._last + self._frame_length
        self._last = position
        self._reached = max(self._reached, position + (frame.duration or self._frame_length))
        return position

    def _check_end(self) -> None:
        end_s, duration_s = float(self._reached * self._time_base), self._segment.duration_s
        path, early = self._segment.path, f"ends early, at {end_s:.1f} s of {duration_s or 0.0:.1f} s"
        if self._last is None:
            self._report.add_error(f"{path}: not one frame could be decoded; record or copy it again")
        elif duration_s is not None and end_s < duration_s - SHORT_BY_S:
            self._report.add_error(f"{path}: {early}; the copy may be cut off")


def open_container(path: Path) -> InputContainer:
    """Raises `SourceError`, without the file's name."""
    if not path.exists():
        raise SourceError("no such file: check the path")
    if path.is_file() and path.stat().st_size == 0:
        raise SourceError("the file is empty (0 bytes): record or copy it again")
    try:
        # "file:" keeps libav from taking "a:b.mp4" for a protocol.
        return av.open(f"file:{path}", mode="r", metadata_errors="replace")  # recorders write Latin-1 or GBK
    except PermissionError:
        raise SourceError("may not be read: give this user permission to read it") from None
    except (FFmpegError, OSError) as error:
        reason = redact(getattr(error, "strerror", None) or type(error).__name__)
        raise SourceError(f"cannot be read as video ({reason}): it may lack its end, or be none") from None


def _duration_of(container: InputContainer, stream: VideoStream) -> float | None:
    if container.format.name == "avi" and stream.frames > 0 and stream.average_rate:
        # For a file that was cut off libav gives the length of the rest; the header still knows.
        return float(stream.frames / stream.average_rate)
    if stream.duration is not None and stream.time_base is not None and stream.duration > 0:
        return float(stream.duration * stream.time_base)
    if container.duration is not None and container.duration > 0:
        return container.duration / av.time_base
    return None


def in_order(segments: Sequence[VideoFile], start: datetime | None) -> list[VideoFile]:
    """Segments in the order of their time, with gaps; without times by name, one behind the other.

    `start` is the time of the first.
    """
    by_name = sorted(segments, key=lambda segment: natural_key(segment.path))
    if not all(segment.recorded for segment in by_name):
        return [replace(by_name[0], start=start or by_name[0].recorded or EPOCH), *by_name[1:]]
    by_time = sorted(by_name, key=lambda segment: segment.recorded or EPOCH)
    first = by_time[0].recorded or EPOCH
    return [replace(s, start=(start or first) + ((s.recorded or EPOCH) - first)) for s in by_time]


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
