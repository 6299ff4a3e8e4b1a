"""Recordings around narrations, cut out of footage by their times, and what is blackened in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import av
import numpy as np
from av.container.input import InputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from daemon.questions.question import LocalTime
from models.boxes import Box
from pipeline.record import Record, RecordSentence
from pipeline.report.picture import SIDES, decode, encode
from pipeline.sources import Clock, Image, Polygon, SourceError, is_video
from pipeline.sources.decode import packets_of, video_stream
from pipeline.sources.frame import PRIVACY_MARGIN, polygon_mask, rgb_of, turn, turns_of
from pipeline.sources.times import stamp_in_name
from pipeline.sources.video import VideoFile, open_container, probe

MARGIN_S = 3.0  # of a recording before the before frame and after the after frame
_GROUP_S = 20.0  # from one keyframe to the next, at most
LONGEST_S = 60.0  # before the after frame: slow change may have taken an hour
_EXACT = {"fflags": "+bitexact"}  # the same frames give the same bytes
_MP4 = frozenset({"h264", "hevc", "av1", "vp9", "mpeg4"})  # codecs that MP4 takes; others go into Matroska

_Packets: TypeAlias = "list[Packet[VideoStream]]"

_BOX_MARGIN = 0.2  # of the box's width and height, on each side
_QUALITY = 90  # of JPEG


@dataclass(frozen=True, slots=True)
class Mask:
    """Blackens all but the box of one track, and privacy areas."""

    track: str = ""  # empty: no track, all is shown
    areas: Mapping[str, Sequence[Polygon]] = field(default_factory=dict)  # privacy areas by camera
    records: Sequence[Record] = ()  # those that name the track, of one camera

    def changes(self, camera: str) -> bool:
        return bool(self.track or self.areas.get(camera))

    def blacken(self, image: Image, camera: str, box: Box | None) -> Image:
        """An RGB image ``(height, width, 3)`` with only the box and its margin left; without a track, all."""
        shown = image
        if self.track:
            shown = np.zeros_like(image)
            if box:
                (rows, columns), (x, y, width, height) = image.shape[:2], box
                left, right = ((x + side * width) * columns for side in (-_BOX_MARGIN, 1 + _BOX_MARGIN))
                top, bottom = ((y + side * height) * rows for side in (-_BOX_MARGIN, 1 + _BOX_MARGIN))
                part = np.s_[max(0, round(top)) : round(bottom), max(0, round(left)) : round(right)]
                shown[part] = image[part]
        private = polygon_mask(tuple(self.areas.get(camera, ())), image.shape[:2], PRIVACY_MARGIN)
        return np.where(private[..., None], np.uint8(0), shown)

    def picture(self, record: Record, side: str, content: bytes) -> bytes | None:
        """A picture of a record as JPEG; None of both sides in one, and of what is no picture."""
        image = decode(content)
        if image is None or side not in SIDES:
            return None
        box = next((getattr(s, side) for s in record.sentences if s.track == self.track), None)
        return encode(self.blacken(image, record.camera, box), _QUALITY)

    def box_at(self, moment: datetime) -> Box | None:
        """Where the track was; None where no record says so."""
        reported = ((record, sentence) for record in self.records for sentence in record.sentences)
        boxes = (_box_at(record, s, moment) for record, s in reported if s.track == self.track)
        return next(filter(None, boxes), None)


def _box_at(record: Record, sentence: RecordSentence, moment: datetime) -> Box | None:
    """Where a sentence has its track at a moment; its path has a point for each frame that was looked at."""
    first, last = sentence.before or sentence.after, sentence.after or sentence.before
    if first is None or last is None:
        return None
    feet = sentence.paths[0] if sentence.paths else [(b[0] + b[2] / 2, b[1] + b[3]) for b in (first, last)]
    begin, end, now = (each.timestamp() for each in (record.before.moment, record.after.moment, moment))
    seen_s = (len(feet) - 1) / record.rate_hz if record.rate_hz else 0.0
    if sentence.before is None:
        begin = max(begin, end - seen_s)
    elif sentence.after is None:
        end = min(end, begin + seen_s)
    if not begin <= now <= end:
        return None
    sizes = np.linspace(first[2:], last[2:], len(feet))
    boxes, times = np.hstack((feet - sizes * (0.5, 1.0), sizes)), np.linspace(begin, end, len(feet))
    x, y, width, height = (float(np.interp(now, times, column)) for column in boxes.T)
    return x, y, width, height


class Footage:
    """Video files by camera, in places as `--clips` has them; times in names are of `local`."""

    def __init__(self, places: Sequence[str], local: LocalTime) -> None:
        from daemon.replay.files import find_footage  # noqa: PLC0415 - of few exports

        self._local = local
        self._recordings: dict[str, list[VideoFile]] = {}
        for place in places:
            camera, mark, rest = place.partition("=")
            given = camera if mark and "/" not in camera else None
            for footage in find_footage([rest if given else place], given):
                for path in filter(is_video, footage.paths):
                    with suppress(SourceError):
                        file = probe(path)
                        for name in {footage.camera, path.parent.name}:
                            self._recordings.setdefault(name, []).append(file)
        if not self._recordings:
            raise SourceError(f"there is no video in {', '.join(places)}: give files, or a recorder's folder")

    def cut(self, record: Record, scratch: Path, mask: Mask) -> tuple[Path, str] | str:
        """Cut the recording around a narration: its file, and its source's name; or why there is none."""
        reason = f"no recording of {record.camera} covers that time"
        for path, stamp_s in self._places(record):
            try:
                if clip := _cut(path, record, stamp_s, scratch, mask):
                    return clip, path.name
            except (SourceError, av.FFmpegError, OSError, ValueError) as error:
                reason = f"{path.name} cannot be copied: {getattr(error, 'strerror', None) or error}"
        return reason

    def _places(self, record: Record) -> Iterator[tuple[Path, float | None]]:
        """Files and seconds in them of the after frame; None: at the record's own time stamp."""
        recordings = self._recordings.get(record.camera, [])
        for each in recordings:
            stamp = stamp_in_name(each.path)
            starts = [stamp, stamp and self._local.aware(stamp.replace(tzinfo=None)), each.recorded]
            for start in dict.fromkeys(filter(None, starts)):
                at_s = (record.after.moment - start).total_seconds()
                if 0 <= at_s <= (each.duration_s or 0.0):
                    yield each.path, at_s
        if record.clock == Clock.FILE.value and len(recordings) == 1:
            yield recordings[0].path, None


def _cut(path: Path, record: Record, at_s: float | None, scratch: Path, mask: Mask) -> Path | None:
    with closing(open_container(path)) as container:
        stream = video_stream(container)
        base = stream.time_base or Fraction(1, 1000)
        start = stream.start_time or 0
        stamp = record.after.pts if at_s is None else start + round(at_s / base)
        since_s = (record.after.moment - record.before.moment).total_seconds()
        begin = max(start, stamp - round((min(since_s, LONGEST_S) + MARGIN_S) / base))
        span = range(begin, stamp + round(MARGIN_S / base) + 1)
        # A seek in MPEG-TS ends at any frame, of which the keyframe came earlier.
        earlier = begin - round((_GROUP_S if container.format.name == "mpegts" else 0) / base)
        if earlier > start:
            container.seek(earlier, stream=stream)
        packets = _packets(container, stream, span) if span else []
        if not packets or packets[0].dts is None:
            return None
        if not mask.changes(record.camera):
            return _copy(packets, stream, scratch)

        def blacken(image: Image, at: int) -> Image:
            moment = record.after.moment + timedelta(seconds=float((at - stamp) * base))
            return mask.blacken(image, record.camera, mask.box_at(moment))

        return _encode(packets, stream, span, blacken, scratch)


def _packets(container: InputContainer, stream: VideoStream, span: range) -> _Packets:
    """The packets of a span of time stamps, from the keyframe before it."""
    packets: _Packets = []
    for packet in packets_of(container, stream):
        shown = packet.dts if packet.pts is None else packet.pts
        if shown is None:  # the end
            continue
        if (shown if packet.dts is None else packet.dts) > span[-1]:
            break
        if packet.is_keyframe and shown <= span[0]:
            packets.clear()
        if packets or packet.is_keyframe:
            packets.append(packet)
    for packet, following in reversed([*pairwise(packets)]):
        if packet.dts is None and following.dts is not None:  # Matroska gives none of the first ones
            packet.dts = following.dts - max(1, packet.duration or 1)
    return packets


def _copy(packets: _Packets, stream: VideoStream, scratch: Path) -> Path:
    first, out = (
        packets[0].dts or 0,
        scratch / f"clip{'.mp4' if stream.codec_context.name in _MP4 else '.mkv'}",
    )
    with av.open(str(out), "w", options=_EXACT) as file:
        copy = file.add_stream_from_template(stream)
        copy.metadata.clear()  # names, places and addresses of the recorder
        for packet in packets:
            if packet.dts is not None:
                # AVI has no pts: its dts is right where frames are not reordered
                packet.pts = (packet.dts if packet.pts is None else packet.pts) - first
                packet.dts -= first
                packet.stream = copy
                file.mux(packet)
    return out


def _encode(
    packets: _Packets, source: VideoStream, span: range, blacken: Callable[[Image, int], Image], scratch: Path
) -> Path | None:
    """Encode the frames of a span, blackened by their time stamps."""
    out, base, encoded = scratch / "clip.mp4", source.time_base or Fraction(1, 1000), False
    with av.open(str(out), "w", options=_EXACT) as file:
        rate = source.average_rate or 25
        stream = file.add_stream("libx264", rate=rate, options={"crf": "20", "threads": "1"})
        stream.pix_fmt, stream.codec_context.time_base = "yuv420p", base
        for frame in (frame for packet in (*packets, None) for frame in source.decode(packet)):
            at = frame.dts if source.container.format.name == "avi" else frame.pts
            if at is not None and at in span:
                image = blacken(turn(rgb_of(frame), turns_of(frame)), at)
                if not encoded:
                    stream.height, stream.width = (side // 2 * 2 for side in image.shape[:2])
                black = av.VideoFrame.from_ndarray(image, format="rgb24")
                black.pts, black.time_base, encoded = at - span[0], base, True
                file.mux(stream.encode(black))
        if encoded:
            file.mux(stream.encode(None))
    return out if encoded else None
