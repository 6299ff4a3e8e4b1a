"""The recording around a narration, cut out of footage by its time; encoded anew only to blacken it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
from av.container.input import InputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from daemon.export.masks import Mask
from daemon.questions.local_time import LocalTime
from daemon.replay.inputs import find_footage
from pipeline.record import Record
from pipeline.sources import Clock, Image, SourceError
from pipeline.sources.decode import packets_of, video_stream
from pipeline.sources.picture import rgb_of, turn, turns_of
from pipeline.sources.times import stamp_in_name
from pipeline.sources.url import is_video
from pipeline.sources.video import VideoFile, open_container, probe

MARGIN_S = 3.0  # of a recording before the before frame and after the after frame
_GROUP_S = 20.0  # from one keyframe to the next, at most
LONGEST_S = 60.0  # before the after frame: slow change may have taken an hour

_MP4 = frozenset({"h264", "hevc", "av1", "vp9", "mpeg4"})  # codecs that MP4 takes; others go into Matroska


class Footage:
    """Video files by camera, in places as `--clips` has them; times in names are of `local`."""

    def __init__(self, places: Sequence[str], local: LocalTime) -> None:
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
        if not span:
            return None
        # A seek in MPEG-TS ends at any frame, of which the keyframe came earlier.
        earlier = begin - round((_GROUP_S if container.format.name == "mpegts" else 0) / base)
        if earlier > start:
            container.seek(earlier, stream=stream)
        if mask.changes(record.camera):
            out = scratch / "clip.mp4"
            shown = _shown(container, record, stamp, span, mask)
            return out if _encode(shown, stream, out) else None
        out = scratch / f"clip{'.mp4' if stream.codec_context.name in _MP4 else '.mkv'}"
        return out if _copy(_packets(container, stream, span), stream, out) else None


def _copy(packets: Sequence[Packet[VideoStream]], stream: VideoStream, out: Path) -> bool:
    if not packets or packets[0].dts is None:
        return False
    first = packets[0].dts
    with av.open(str(out), "w", options={"fflags": "+bitexact"}) as file:
        copy = file.add_stream_from_template(stream)
        copy.metadata.clear()  # names, places and addresses of the recorder
        for packet in packets:
            if packet.dts is not None:
                # AVI has no pts: its dts is right where frames are not reordered
                packet.pts = (packet.dts if packet.pts is None else packet.pts) - first
                packet.dts -= first
                packet.stream = copy
                file.mux(packet)
    return True


def _packets(container: InputContainer, stream: VideoStream, span: range) -> list[Packet[VideoStream]]:
    """The packets of a span of time stamps, from the keyframe before it."""
    packets: list[Packet[VideoStream]] = []
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


def _shown(
    container: InputContainer, record: Record, stamp: int, span: range, mask: Mask
) -> Iterator[tuple[int, Image]]:
    """Time stamps and blackened pictures of the frames of a span; `stamp` is that of the after frame."""
    by_dts = container.format.name == "avi"
    packets = packets_of(container, video_stream(container))
    for frame in (frame for packet in packets for frame in packet.decode()):
        at = frame.dts if by_dts else frame.pts
        if at is not None and at > span[-1]:
            return
        if at is not None and at in span:
            moment = record.after.moment + timedelta(seconds=float((at - stamp) * (frame.time_base or 0)))
            box = mask.box_at(record.camera, moment)
            yield at - span[0], mask.blacken(turn(rgb_of(frame), turns_of(frame)), record.camera, box)


def _encode(frames: Iterator[tuple[int, Image]], like: VideoStream, out: Path) -> bool:
    """Encode pictures by the time base of a stream; the same pictures give the same bytes."""
    encoded = False
    with av.open(str(out), "w", options={"fflags": "+bitexact"}) as file:
        stream = file.add_stream(
            "libx264", rate=like.average_rate or 25, options={"crf": "20", "threads": "1"}
        )
        base = like.time_base or Fraction(1, 1000)
        stream.pix_fmt, stream.codec_context.time_base = "yuv420p", base
        for at, image in frames:
            height, width = (side // 2 * 2 for side in image.shape[:2])
            if not encoded:
                stream.width, stream.height = width, height
            even = np.ascontiguousarray(image[:height, :width])
            frame = av.VideoFrame.from_ndarray(even, format="rgb24")
            frame.pts, frame.time_base, encoded = at, base, True
            file.mux(stream.encode(frame))
        if encoded:
            file.mux(stream.encode(None))
    return encoded
