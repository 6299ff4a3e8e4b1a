"""Video files: one, or the segments of one camera read one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
from av.container.input import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.redaction import redact
from pipeline.sources.decode import IntactFrames, packets_of, video_stream
from pipeline.sources.fast import FastReader
from pipeline.sources.frame import Clock, Frame, RecordedSource, SourceError, SourceOptions, SourceReport
from pipeline.sources.picture import View, turns_of
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
