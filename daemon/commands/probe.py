"""The verb `probe`."""

from __future__ import annotations

import json as json_format
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Annotated

import typer
from av.container.input import InputContainer
from av.error import FFmpegError
from av.video.stream import VideoStream

from daemon.commands.options import Json, OptionalFile, address_and_settings
from daemon.config.configuration import load_configuration
from daemon.config.plan import camera_plan
from daemon.config.secrets import Secrets
from daemon.config.settings import Camera
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


def probe(
    url: Annotated[
        str,
        typer.Argument(
            help="rtsp:// URL, or a camera of the configuration. Other users can see the command "
            "line: write its password as ${env:NAME} or ${file:PATH}, in single quotes."
        ),
    ],
    config: OptionalFile = None,
    seconds: Annotated[float, typer.Option(min=0.5, max=600, help="How long to look.")] = 5.0,
    json: Json = False,
) -> None:
    """Open a camera, and its sub-stream if it has one, and show what it sends."""
    address, settings = address_and_settings(url, load_configuration(config) if config else None)
    secrets = Secrets()
    plan = camera_plan("probe", secrets.reveal(address), settings)
    if not plan.url.startswith(("rtsp://", "rtsps://")):
        raise typer.BadParameter(
            "give an rtsp:// or rtsps:// URL, or with -c the name of a camera that has one"
        )
    found, small, failure = _measure(plan.url, plan.source, seconds), None, None
    if isinstance(settings, Camera) and settings.screening:
        try:
            small = _measure(secrets.reveal(settings.screening), plan.source, seconds)
        except SourceError as error:
            failure = str(error)
    if json:
        screening = asdict(small) if small else {"error": failure} if failure else None
        typer.echo(json_format.dumps({**asdict(found), "screening": screening}))
    else:
        _print(found)
        if small:
            typer.echo("\nsub-stream, which is screened:")
            _print(small)
    if failure:
        typer.echo(f"narrated: sub-stream: {failure}", err=True)
        raise typer.Exit(3)


def _print(found: Probe) -> None:
    declared = f" (declared {found.declared_hz:.1f})" if found.declared_hz else ""
    rows = {
        "address": found.address,
        "opened": f"in {found.opened_s:.2f} s, first picture after {found.first_frame_s:.2f} s",
        "picture": f"{found.width} x {found.height}, {found.codec}",
        "rate": f"{found.hz:.1f} frames/s{declared}, {found.kbit_s:.0f} kbit/s",
        "keyframes": f"every {found.keyframe_s:.1f} s" if found.keyframe_s else "fewer than two were seen",
        "damaged": f"{found.corrupt} of {found.packets} packets in {found.watched_s:.1f} s",
        "clock": "none is sent (RTCP); times of receipt are used"
        if found.skew_s is None
        else f"{abs(found.skew_s):.2f} s {'ahead of' if found.skew_s > 0 else 'behind'} ours",
    }
    for name, text in rows.items():
        typer.echo(f"{name:<10} {text}")


def _measure(url: str, options: SourceOptions, seconds: float) -> Probe:
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
