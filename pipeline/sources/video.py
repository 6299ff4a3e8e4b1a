"""Video files: one, or the segments of one camera read one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import av
from av.container.input import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.redaction import redacted
from pipeline.sources.counts import Counts
from pipeline.sources.decode import IntactFrames, packets_of, video_stream
from pipeline.sources.fast import FastReader
from pipeline.sources.frame import Clock, Frame, SourceError, SourceOptions
from pipeline.sources.picture import View
from pipeline.sources.recorded import RecordedSource
from pipeline.sources.times import (
    EPOCH,
    Sampler,
    ViratName,
    elapsed,
    natural_key,
    parse_creation_time,
    stamp_in_name,
    virat_name,
)

SHORT_BY_S = 1.0
"""A file that ends this much before its container's duration was cut off."""

REORDER_FRAMES = 16
"""Most frames a decoder holds back to reorder them: by so many is the first dts of an AVI late."""


@dataclass(frozen=True, slots=True)
class VideoFile:
    """One video file of a camera.

    Attributes:
        path: the file.
        duration_s: by the container; None where it does not say.
        recorded: wall-clock time of its first frame by the container or by its name, None if neither says.
        virat: what a VIRAT name says.
        start: when it starts by the clock of all segments; None: where the one before ended.
    """

    path: Path
    duration_s: float | None
    recorded: datetime | None
    virat: ViratName | None
    start: datetime | None = None


class VideoSource(RecordedSource):
    """Frames of video files, their time from presentation time stamps.

    Raises:
        SourceError: not one of the files can be opened.
    """

    def __init__(self, paths: Sequence[Path], options: SourceOptions, camera: str) -> None:
        super().__init__(options, camera)
        self._unreadable: list[str] = []
        segments = [segment for path in paths if (segment := self._probed(path))]
        if not segments:
            raise SourceError("; ".join(self._unreadable[:3]))
        self._segments = in_order(segments, options.start)
        lengths = [segment.duration_s for segment in segments]
        self.duration_s = None if None in lengths else sum(length or 0.0 for length in lengths)
        self._begin()

    def __iter__(self) -> Iterator[Frame]:
        """Sampled frames in the order of their time; a second iteration reads and counts from the start."""
        self._begin()
        end: datetime | None = None
        for segment in self._segments:
            own = segment.start or end or EPOCH
            reader = _SegmentReader(segment, self._options, self.camera, self._counts, self._closed)
            # Clocks of recorders overlap: time never runs back within a camera.
            reader.start = max(own, end) if end else own
            yield from reader.frames()
            end = reader.end

    def _begin(self) -> None:
        self._counts = Counts()
        for sentence in self._unreadable:
            self._counts.error(sentence)

    def _probed(self, path: Path) -> VideoFile | None:
        try:
            with closing(open_container(path)) as container:
                stream = video_stream(container, self._options.threads)
                recorded = parse_creation_time(
                    container.metadata.get("creation_time") or stream.metadata.get("creation_time")
                )
                return VideoFile(
                    path, duration_of(container, stream), recorded or stamp_in_name(path), virat_name(path)
                )
        except SourceError as error:
            self._unreadable.append(f"{path}: {error}")
            return None


class _SegmentReader:
    """Reads one segment: one container, one decoder, one line of time."""

    def __init__(
        self,
        segment: VideoFile,
        options: SourceOptions,
        camera: str,
        counts: Counts,
        closed: threading.Event,
    ) -> None:
        self.start = EPOCH
        self._segment, self._options, self._camera = segment, options, camera
        self._counts, self._closed = counts, closed
        self._view = View(options)
        self._last: int | None = None
        self._end = self._reached = 0
        self._shift = 0
        self._time_base = Fraction(1)
        self._frame_length = 0
        self._by_dts = False

    @property
    def end(self) -> datetime:
        """Time at which the last frame ended, sound or not."""
        return self.start + elapsed(max(self._end, self._reached), self._time_base)

    def frames(self) -> Iterator[Frame]:
        try:
            container = open_container(self._segment.path)
        except SourceError as error:  # it went away since it was probed
            self._counts.error(f"{self._segment.path}: {error}")
            return
        with closing(container):
            stream = video_stream(container, self._options.threads)
            self._time_base = stream.time_base or Fraction(1, 1000)
            rate = stream.average_rate or stream.guessed_rate or Fraction(25)
            # AVI stores no pts; what libav makes up for B-frames is out of order, its dts is right.
            self._by_dts = container.format.name == "avi"
            self._frame_length = max(1, round(1 / (rate * self._time_base)))
            yield from self._sampled(container, stream)

    def _sampled(self, container: InputContainer, stream: VideoStream) -> Iterator[Frame]:
        sampler = Sampler(self._options.sample_hz)
        half_slot = int(Fraction(1, 2) / Fraction(self._options.sample_hz) / self._time_base)
        packets = self._packets(container, stream)
        if self._options.fast:
            frames = FastReader(stream, self._view, self._counts).frames(packets)
        else:
            intact = IntactFrames(self._counts)
            frames = (frame for packet in packets for frame in intact.decode(packet))
        for frame in frames:
            position = self._position(frame, stream)
            if position is None:
                continue
            # Half a frame ahead: the frame nearest to the beginning of a slot is taken, not the next one.
            ahead = min((frame.duration or self._frame_length) // 2, half_slot)
            if not sampler.takes(position + ahead, self._time_base):
                continue
            self._counts.sampled += 1
            yield self._frame(frame, position)
            if self._closed.is_set():
                return
        if not self._closed.is_set():
            self._check_end()

    def _packets(self, container: InputContainer, stream: VideoStream) -> Iterator[Packet[VideoStream]]:
        for packet in packets_of(container, stream, self._counts):
            if self._closed.is_set():
                return
            self._note_reached(packet, stream)
            yield packet

    def _position(self, frame: VideoFrame, stream: VideoStream) -> int | None:
        """Time of a frame from the segment's start in units of the time base; None: it comes too late."""
        stamp = self._stamp(frame)
        if stamp is None:
            # Neither stamp (raw streams, the last frames of an AVI): it follows on the one before.
            position = 0 if self._last is None else self._last + self._frame_length
        else:
            position = stamp - (stream.start_time or 0) + self._shift
        if self._last is None and self._by_dts and 0 < position <= REORDER_FRAMES * self._frame_length:
            self._shift, position = -position, 0
        if self._last is not None and position <= self._last:
            back = elapsed(self._last - position, self._time_base)
            if back <= timedelta(seconds=SHORT_BY_S):
                return None  # a twin of the frame before, or one out of order by damage
            self._counts.error(
                f"{self._segment.path}: time stamps jump back by {back.total_seconds():.1f} s"
                f" at {self._seconds(self._last):.1f} s; the rest follows on without a gap"
            )
            self._shift += self._last + self._frame_length - position
            position = self._last + self._frame_length
        self._last = position
        self._end = max(self._end, position + (frame.duration or self._frame_length))
        return position

    def _note_reached(self, packet: Packet[VideoStream], stream: VideoStream) -> None:
        """Damaged packets count as read: a file whose last pictures are smeared does not end early."""
        stamp = packet.dts if self._by_dts or packet.pts is None else packet.pts
        if stamp is None:
            return
        reached = stamp - (stream.start_time or 0) + (packet.duration or self._frame_length)
        if self._segment.duration_s is not None:  # a damaged stamp may lie days ahead
            reached = min(reached, int(self._segment.duration_s / self._time_base))
        self._reached = max(self._reached, reached)

    def _stamp(self, frame: VideoFrame) -> int | None:
        first, second = (frame.dts, None) if self._by_dts else (frame.pts, frame.dts)
        return second if first is None else first

    def _frame(self, frame: VideoFrame, position: int) -> Frame:
        stamp = self._stamp(frame)
        luma, picture = self._view.of_frame(frame)
        self._counts.clock = Clock.FILE
        return Frame(
            camera=self._camera,
            time=self.start + elapsed(position, self._time_base),
            clock=Clock.FILE,
            pts=position if stamp is None else stamp,
            luma=luma,
            picture=picture,
        )

    def _seconds(self, position: int) -> float:
        return float(position * self._time_base)

    def _check_end(self) -> None:
        end_s, duration_s = self._seconds(max(self._end, self._reached)), self._segment.duration_s
        if self._last is None:
            self._counts.error(
                f"{self._segment.path}: not one frame could be decoded; record or copy it again"
            )
        elif duration_s is not None and end_s < duration_s - SHORT_BY_S:
            self._counts.error(
                f"{self._segment.path}: ends early, at {end_s:.1f} s of {duration_s:.1f} s;"
                " the copy may be cut off"
            )


def open_container(path: Path) -> InputContainer:
    """A container on a file; the caller closes it.

    Raises:
        SourceError: the file is missing, empty or no video; the message does not repeat its name.
    """
    if not path.exists():
        raise SourceError("no such file: check the path")
    if path.is_file() and path.stat().st_size == 0:
        raise SourceError("the file is empty (0 bytes): record or copy it again")
    try:
        # "file:" keeps libav from taking "a:b.mp4" for a protocol.
        return av.open(f"file:{path}", mode="r")
    except PermissionError:
        raise SourceError("may not be read: give this user permission to read it") from None
    except (av.FFmpegError, OSError) as error:
        reason = redacted(getattr(error, "strerror", None) or type(error).__name__)
        raise SourceError(
            f"cannot be read as video ({reason}): it may lack its end, or not be a video at all"
        ) from None


def duration_of(container: InputContainer, stream: VideoStream) -> float | None:
    """Length of the video in seconds as its container tells it, or None."""
    if container.format.name == "avi" and stream.frames > 0 and stream.average_rate:
        # For a file that was cut off libav gives the length of the rest; the header still knows.
        return float(stream.frames / stream.average_rate)
    if stream.duration is not None and stream.time_base is not None and stream.duration > 0:
        return float(stream.duration * stream.time_base)
    if container.duration is not None and container.duration > 0:
        return container.duration / av.time_base
    return None


def in_order(segments: Sequence[VideoFile], start: datetime | None) -> list[VideoFile]:
    """Segments in the order of their time, each with its start where something tells it.

    VIRAT names give sequence and offset: a sequence follows on the one before it by name. Otherwise times of
    recording order them and keep the gaps between them; without these, their names do, and one starts where
    the one before ended. `start` is the time of the first segment (VIRAT: of offset 0 of the first sequence).
    """
    by_name = sorted(segments, key=lambda segment: natural_key(segment.path))
    if all(segment.virat for segment in by_name):
        return _virat_order(by_name, start)
    if not all(segment.recorded for segment in by_name):
        return [replace(by_name[0], start=start or by_name[0].recorded or EPOCH), *by_name[1:]]
    by_time = sorted(by_name, key=lambda segment: segment.recorded or EPOCH)
    first = by_time[0].recorded or EPOCH
    return [replace(s, start=(start or first) + ((s.recorded or EPOCH) - first)) for s in by_time]


def _virat_order(segments: Sequence[VideoFile], start: datetime | None) -> list[VideoFile]:
    named = [(segment.virat, segment) for segment in segments if segment.virat]
    named.sort(key=lambda pair: (pair[0].sequence, pair[0].start_s, pair[0].segment))
    origin = start or named[0][1].recorded or EPOCH
    ordered: list[VideoFile] = []
    sequence, sequence_end_s, base_s = named[0][0].sequence, 0, 0
    for virat, segment in named:
        if virat.sequence != sequence:
            sequence, base_s = virat.sequence, sequence_end_s
        ordered.append(replace(segment, start=origin + timedelta(seconds=base_s + virat.start_s)))
        sequence_end_s = max(sequence_end_s, base_s + virat.end_s)
    return ordered
