"""What a camera gives: opened once, looked at for some seconds."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from av.container.input import InputContainer
from av.error import FFmpegError
from av.video.stream import VideoStream

from pipeline.sources import SourceError, SourceOptions, SourceReport, redacted
from pipeline.sources.clock import CaptureClock
from pipeline.sources.decode import IntactFrames, video_stream
from pipeline.sources.rtsp import open_camera, why_not_opened


@dataclass(frozen=True, slots=True)
class Probed:
    """What was found.

    Attributes:
        address: without credentials.
        opened_s, first_frame_s: seconds from the start until the connection stood, and until the first
            sound picture.
        codec: with its profile.
        width, height: pixels.
        declared_hz: frames a second that the camera says it sends; None where it says nothing.
        watched_s: seconds it was looked at.
        packets, corrupt: packets that came, and frames that were damaged.
        hz, kbit_s: measured frames and kilobits a second.
        keyframe_s: seconds between keyframes on average; None where fewer than two came.
        skew_s: the camera's clock less ours; None where it sends none (RTCP sender reports).
    """

    address: str
    opened_s: float
    first_frame_s: float
    codec: str
    width: int
    height: int
    declared_hz: float | None
    watched_s: float
    packets: int
    corrupt: int
    hz: float
    kbit_s: float
    keyframe_s: float | None
    skew_s: float | None


def probe(url: str, options: SourceOptions, seconds: float) -> Probed:
    """Open a camera and look at what it sends for so many seconds after its first picture.

    Raises:
        SourceError: it cannot be opened, or sends no picture; the message says what to do.
    """
    began = monotonic()
    try:
        container = open_camera(url, options)
    except (FFmpegError, OSError, ValueError) as error:
        reason = why_not_opened(error, monotonic() - began, options)
        raise SourceError(f"{redacted(url)}: {reason}") from None
    with closing(container):
        opened_s = monotonic() - began
        stream = video_stream(container, options.threads)
        watch = _StreamMeter(stream)
        with suppress(FFmpegError, OSError):  # the connection broke: what came until then tells
            watch.run(container, options.stall_timeout_s, seconds)
        if watch.first_at is None:
            raise SourceError(
                f"{redacted(url)}: it opened, but no intact picture came: check the camera's stream"
            )
        return watch.found(redacted(url), opened_s, watch.first_at - began)


class _StreamMeter:
    """Counts what comes."""

    def __init__(self, stream: VideoStream) -> None:
        self.first_at: float | None = None
        self._stream = stream
        self._counts = SourceReport()
        self._clock = CaptureClock()
        self._packets = self._frames = self._bytes = 0
        self._keyframes: list[float] = []
        self._ended = monotonic()

    def run(self, container: InputContainer, patience_s: float, seconds: float) -> None:
        """Read until it was watched for so long, or until no picture came for so long."""
        intact, until = IntactFrames(self._counts, joined_midway=True), monotonic() + patience_s
        for packet in container.demux(self._stream):
            now = monotonic()
            self._clock.note(packet, datetime.now(UTC))
            for _ in intact.decode(packet):
                if self.first_at is None:
                    self.first_at, until = now, now + seconds
                    continue
                self._frames += 1
            if self.first_at is not None:
                self._packets, self._bytes = self._packets + 1, self._bytes + packet.size
            if packet.is_keyframe and packet.pts is not None:
                self._keyframes.append(float(packet.pts * packet.time_base))
            self._ended = now
            if now >= until:
                return

    def found(self, address: str, opened_s: float, first_frame_s: float) -> Probed:
        """What it comes to."""
        context, rate = self._stream.codec_context, self._stream.guessed_rate
        watched_s = max(self._ended - (self.first_at or self._ended), 1e-3)
        gaps = len(self._keyframes) - 1
        return Probed(
            address=address,
            opened_s=opened_s,
            first_frame_s=first_frame_s,
            codec=" ".join(filter(None, (context.name, context.profile))),
            width=context.width,
            height=context.height,
            declared_hz=float(rate) if rate else None,
            watched_s=watched_s,
            packets=self._packets,
            corrupt=self._counts.corrupt,
            hz=self._frames / watched_s,
            kbit_s=self._bytes * 8 / 1000 / watched_s,
            keyframe_s=(self._keyframes[-1] - self._keyframes[0]) / gaps if gaps > 0 else None,
            skew_s=self._clock.skew_s,
        )
