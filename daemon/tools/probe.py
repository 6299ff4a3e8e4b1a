"""Measure for some seconds what a camera sends."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from av.container.input import InputContainer
from av.error import FFmpegError
from av.video.stream import VideoStream

from pipeline.sources import SourceError, SourceOptions, SourceReport, redact
from pipeline.sources.clock import CaptureClock
from pipeline.sources.decode import IntactFrames, video_stream
from pipeline.sources.rtsp import open_camera, why_not_opened


@dataclass(frozen=True, slots=True)
class Probe:
    """Measurements of a camera.

    Attributes:
        address: without credentials.
        opened_s, first_frame_s: seconds until the connection stood, and until the first intact picture.
        codec: with its profile.
        width, height: pixels.
        declared_hz: frames a second that the camera says it sends; None where it says nothing.
        watched_s: seconds from the first picture to the last packet.
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


def probe_camera(url: str, options: SourceOptions, seconds: float) -> Probe:
    """Open a camera and look at what it sends for so many seconds after its first picture.

    Raises:
        SourceError: it cannot be opened, or sends no picture; the message says what to do.
    """
    began = monotonic()
    try:
        container = open_camera(url, options)
    except (FFmpegError, OSError, ValueError) as error:
        reason = why_not_opened(error, monotonic() - began, options)
        raise SourceError(f"{redact(url)}: {reason}") from None
    with closing(container):
        opened_s = monotonic() - began
        stream = video_stream(container, options.threads)
        meter = _StreamMeter()
        with suppress(FFmpegError, OSError):  # the connection broke: what came until then is shown
            meter.read(container, stream, options.stall_timeout_s, seconds)
        if meter.first_at is None:
            raise SourceError(
                f"{redact(url)}: it opened, but no intact picture came: check the camera's stream"
            )
        context, rate = stream.codec_context, stream.guessed_rate
        watched_s = max(meter.ended - meter.first_at, 1e-3)
        gaps = len(meter.keyframes) - 1
        return Probe(
            address=redact(url),
            opened_s=opened_s,
            first_frame_s=meter.first_at - began,
            codec=" ".join(filter(None, (context.name, context.profile))),
            width=context.width,
            height=context.height,
            declared_hz=float(rate) if rate else None,
            watched_s=watched_s,
            packets=meter.packets,
            corrupt=meter.counts.corrupt,
            hz=meter.frames / watched_s,
            kbit_s=meter.bytes * 8 / 1000 / watched_s,
            keyframe_s=(meter.keyframes[-1] - meter.keyframes[0]) / gaps if gaps > 0 else None,
            skew_s=meter.clock.skew_s,
        )


@dataclass(slots=True)
class _StreamMeter:
    first_at: float | None = None
    ended: float = 0.0
    packets: int = 0
    frames: int = 0
    bytes: int = 0
    keyframes: list[float] = field(default_factory=list)
    counts: SourceReport = field(default_factory=SourceReport)
    clock: CaptureClock = field(default_factory=CaptureClock)

    def read(self, container: InputContainer, stream: VideoStream, patience_s: float, seconds: float) -> None:
        """Read for so long after the first picture, or until none came for `patience_s`."""
        intact, until = IntactFrames(self.counts, joined_midway=True), monotonic() + patience_s
        for packet in container.demux(stream):
            now = self.ended = monotonic()
            self.clock.note(packet, datetime.now(UTC))
            for _ in intact.decode(packet):
                if self.first_at is None:
                    self.first_at, until = now, now + seconds
                else:
                    self.frames += 1
            if self.first_at is not None:
                self.packets, self.bytes = self.packets + 1, self.bytes + packet.size
            if packet.is_keyframe and packet.pts is not None:
                self.keyframes.append(float(packet.pts * packet.time_base))
            if now >= until:
                return
