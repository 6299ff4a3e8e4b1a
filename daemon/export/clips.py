"""The recording around a narration, cut out of footage by its time without encoding it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

import av

from daemon.questions.local_time import LocalTime
from daemon.replay.inputs import find_footage, is_video
from pipeline.record import Record
from pipeline.sources import Clock, SourceError
from pipeline.sources.decode import video_stream
from pipeline.sources.times import stamp_in_name
from pipeline.sources.video import VideoFile, open_container, probe

MARGIN_S = 3.0  # of a recording before the before frame and after the after frame
LONGEST_S = 60.0  # before the after frame: slow change may have taken an hour

_MP4 = frozenset({"h264", "hevc", "av1", "vp9", "mpeg4"})
"""Codecs that an MP4 file takes; others go into Matroska."""


class Footage:
    """Video files by camera.

    Args:
        places: files, folders or patterns, with ``CAMERA=`` in front where their names do not say it.
        local: the time zone of times in names of files.

    Raises:
        SourceError: a place holds no video.
    """

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
            raise SourceError(
                f"there is no video in {', '.join(places)}: give the files, or the folder of a recorder"
            )

    def cut(self, record: Record, scratch: Path) -> tuple[Path, str] | str:
        """Cut out the recording around a narration, into the folder `scratch`.

        Returns:
            The file and the name of the one that it is from; or why there is none.
        """
        reason = f"no recording of {record.camera} covers that time"
        for path, stamp_s in self._places(record):
            try:
                if clip := _cut(path, record, stamp_s, scratch):
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


def _cut(path: Path, record: Record, at_s: float | None, scratch: Path) -> Path | None:
    """Copy the packets from the keyframe before the narration on; None where there are none."""
    with closing(open_container(path)) as container:
        stream = video_stream(container, 1)
        base = stream.time_base or Fraction(1, 1000)
        start = stream.start_time or 0
        stamp = record.after.pts if at_s is None else start + round(at_s / base)
        since_s = (record.after.moment - record.before.moment).total_seconds()
        begin = max(start, stamp - round((min(since_s, LONGEST_S) + MARGIN_S) / base))
        end = stamp + round(MARGIN_S / base)
        out = scratch / f"clip{'.mp4' if stream.codec_context.name in _MP4 else '.mkv'}"
        container.seek(begin, stream=stream)
        first: int | None = None
        with av.open(str(out), "w", options={"fflags": "+bitexact"}) as file:
            copy = file.add_stream_from_template(stream)
            copy.metadata.clear()  # names, places and addresses of the recorder
            for packet in container.demux(stream):
                if packet.dts is None or (first is None and not packet.is_keyframe):
                    continue
                if packet.dts > end:
                    break
                if packet.pts is None:  # AVI: right where frames are not reordered
                    packet.pts = packet.dts
                first = packet.dts if first is None else first
                packet.pts, packet.dts = packet.pts - first, packet.dts - first
                packet.stream = copy
                file.mux(packet)
    return None if first is None else out
