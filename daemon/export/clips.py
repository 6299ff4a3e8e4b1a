"""The recording around a narration, cut out of footage without encoding it anew, and whether it is the one.

The record names each frame by the SHA-256 of its pixels. A recording in which that frame is found at about
that time shows what was narrated, and hides nothing that was hidden: where an area of the camera is black for
privacy the sums differ, and such a recording is left out unless it is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.container.input import InputContainer
from av.video.stream import VideoStream

from daemon.questions.local_time import LocalTime
from daemon.replay.inputs import VIDEO_SUFFIXES, find_footage
from pipeline.record import Record
from pipeline.sources import Clock, SourceError
from pipeline.sources.decode import video_stream
from pipeline.sources.picture import rgb_of
from pipeline.sources.times import parsed_time, stamp_in_name
from pipeline.sources.video import duration_of, open_container

MARGIN_S = 3.0
"""Of a recording before the before frame and after the after frame."""

LONGEST_S = 60.0
"""Before the after frame: slow change may have taken an hour."""

_MP4 = frozenset({"h264", "hevc", "av1", "vp9", "mpeg4"})
"""Codecs that an MP4 file takes; others go into Matroska."""
_NEAR_S = 5.0  # so far from where it is looked for a frame may be: clocks of recorders differ
_TRIED = 40  # places at which one narration is looked for
_OTHER = "no frame of it has the sum that the record names: other footage, another stream, or privacy areas"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording that was cut out.

    Attributes:
        path: of it.
        source: name of the file that it is from.
        frames: by side, before and after, the number of the frame (from 0) whose pixels the record names.
    """

    path: Path
    source: str
    frames: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Recording:
    """A video file: what its start may be by the clock, likeliest first, and its length."""

    path: Path
    starts: tuple[datetime, ...]
    length_s: float


class Footage:
    """Where recordings are, of which camera, and from when.

    Args:
        places: files, folders or patterns, with ``CAMERA=`` in front where their names do not tell it.
        local: how clocks show the time that stands in names of files.
        unproven: also give recordings in which no frame is the one that the record names.

    Raises:
        SourceError: a place holds no video.
    """

    def __init__(self, places: Sequence[str], local: LocalTime, *, unproven: bool = False) -> None:
        self._local, self._unproven = local, unproven
        self._named: list[tuple[str, Path]] = []
        for place in places:
            camera, mark, rest = place.partition("=")
            given = camera if mark and "/" not in camera else None
            for found in find_footage([rest if given else place], given):
                videos = [path for path in found.paths if path.suffix.lower() in VIDEO_SUFFIXES]
                self._named += [(found.camera, path) for path in videos]
        if not self._named:
            raise SourceError(
                f"there is no video in {', '.join(places)}: give the files, or the folder of a recorder"
            )
        self._recordings: dict[str, list[_Recording]] = {}
        self._last: dict[str, Path] = {}

    def clip(self, record: Record, scratch: Path) -> Recorded | str:
        """The recording around a narration, or why there is none.

        Args:
            record: of the narration.
            scratch: folder in which it is cut; the caller moves or deletes it.
        """
        reason = "no recording of that time was found"
        for tried, (path, moment_s) in enumerate(self._places(record)):
            if tried == _TRIED:
                break
            try:
                clip = _cut(path, record, moment_s, scratch)
            except (SourceError, av.FFmpegError, OSError, ValueError) as error:
                reason = f"{path.name} cannot be copied: {getattr(error, 'strerror', None) or error}"
                continue
            if clip is None:
                continue
            if "after" in clip.frames or (self._unproven and path in self._own(record.camera)):
                self._last[record.camera] = path
                return clip
            reason = f"{path.name}: {_OTHER}"
        return reason

    def _own(self, camera: str) -> list[Path]:
        """The files whose names or folders say that they are of a camera."""
        return [path for name, path in self._named if name == camera or camera in path.parts]

    def _places(self, record: Record) -> Iterator[tuple[Path, float | None]]:
        """Files and seconds in them at which the after frame may be; None: where its own stamp says."""
        recordings = sorted(self._of(record.camera), key=lambda r: r.path != self._last.get(record.camera))
        if record.clock == Clock.FILE.value:
            yield from ((each.path, None) for each in recordings)
        for each in recordings:
            for start in each.starts:
                at_s = (record.after.moment - start).total_seconds()
                if -_NEAR_S <= at_s <= each.length_s + _NEAR_S:
                    yield each.path, at_s

    def _of(self, camera: str) -> list[_Recording]:
        """A camera's own files; all where there are none."""
        if camera not in self._recordings:
            paths = self._own(camera) or [path for _, path in self._named]
            self._recordings[camera] = [r for path in paths if (r := self._recording(path))]
        return self._recordings[camera]

    def _recording(self, path: Path) -> _Recording | None:
        try:
            with closing(open_container(path)) as container:
                stream = video_stream(container, 1)
                length_s = duration_of(container, stream) or 0.0
                told = container.metadata.get("creation_time") or stream.metadata.get("creation_time")
        except SourceError:
            return None
        written = datetime.fromtimestamp(path.stat().st_mtime).astimezone() - timedelta(seconds=length_s)
        stamp = stamp_in_name(path)  # by which clock it does not say
        stamps = [stamp, self._local.aware(stamp.replace(tzinfo=None))] if stamp else []
        starts = [parsed_time(told), *stamps, written]
        return _Recording(path, tuple(dict.fromkeys(s for s in starts if s)), length_s)


def _cut(path: Path, record: Record, at_s: float | None, scratch: Path) -> Recorded | None:
    """Cut out what is around the after frame and look for the record's frames in it; None: nothing there."""
    with closing(open_container(path)) as container:
        stream = video_stream(container, 1)
        base = stream.time_base or Fraction(1, 1000)
        start = stream.start_time or 0
        stamp = record.after.pts if at_s is None else start + round(at_s / base)
        since_s = (record.after.moment - record.before.moment).total_seconds()
        begin = stamp - round((min(since_s, LONGEST_S) + MARGIN_S) / base)
        end = stamp + round(MARGIN_S / base)
        out = scratch / f"clip{'.mp4' if stream.codec_context.name in _MP4 else '.mkv'}"
        copied = _copied(container, stream, max(begin, start), end, out)
    if not copied:
        return None
    wanted = {"before": record.before.sha256, "after": record.after.sha256}
    return Recorded(out, path.name, frames_in(out, wanted))


def _copied(container: InputContainer, stream: VideoStream, begin: int, end: int, out: Path) -> bool:
    """Copy the packets from the keyframe before one stamp on, up to another; False where there are none."""
    container.seek(begin, stream=stream)
    first: int | None = None
    with av.open(str(out), "w", options={"fflags": "+bitexact"}) as file:
        copy = file.add_stream_from_template(stream)
        copy.metadata.clear()  # names, places and addresses of whoever recorded it
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
    return first is not None


def frames_in(path: Path, wanted: Mapping[str, str]) -> dict[str, int]:
    """Where frames are in a recording.

    Args:
        path: of the recording.
        wanted: SHA-256 (hex) of their RGB pixels, by side.

    Returns:
        By side the number of the frame, from 0; those that are not there are absent.
    """
    found: dict[str, int] = {}
    for number, digest in enumerate(frame_sums(path)):
        found |= {side: number for side, sum_ in wanted.items() if sum_ == digest and side not in found}
        if len(found) == len(wanted):
            break
    return found


def frame_sums(path: Path) -> Iterator[str]:
    """SHA-256 (hex) of the RGB pixels of each frame of a recording."""
    with closing(open_container(path)) as container:
        for frame in container.decode(video_stream(container, 1)):
            yield hashlib.sha256(np.ascontiguousarray(rgb_of(frame)).data).hexdigest()
