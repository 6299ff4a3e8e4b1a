from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from av.error import FFmpegError
from av.video.frame import VideoFrame
from typer import Argument, Option

from daemon.commands.options import SOME_FAILED, OptionalFile, warn, write_picture
from daemon.config.configuration import load_configuration
from daemon.config.plan import camera_plan
from daemon.config.secrets import reveal
from daemon.config.settings import CameraDefaults
from pipeline.sources import SourceError, SourceOptions, SourceReport, redact
from pipeline.sources.decode import IntactFrames, video_stream
from pipeline.sources.frame import View
from pipeline.sources.rtsp import open_camera
from pipeline.sources.times import CaptureClock

SECONDS = 5.0  # how long is looked at what a camera sends


def probe(
    url: Annotated[str, Argument(help="A camera in the configuration, or 'rtsp://${env:LOGIN}@HOST/PATH'.")],
    config: OptionalFile = None,
    out: Annotated[Path | None, Option(help="File for the first picture, privacy areas black.")] = None,
) -> None:
    """Open a camera and its sub-stream, if any, and show what they send."""
    configuration = load_configuration(config) if config else None
    camera = configuration.cameras.get(url) if configuration else None
    settings = camera or (configuration.defaults if configuration else CameraDefaults())
    plan = camera_plan("probe", reveal(camera.url if camera else url), settings)
    if not plan.url.startswith(("rtsp://", "rtsps://")):
        known = f"; cameras: {', '.join(configuration.cameras)}" if configuration else ""
        raise typer.BadParameter(f"give an rtsp:// URL, or with -c the name of a camera that has one{known}")
    first = _measure(plan.url, plan.source)
    if out:
        write_picture(View(plan.source).of_frame(first)[1].rgb(), out)
    if camera and camera.screening:
        typer.echo("\nsub-stream (screened):")
        try:
            _measure(reveal(camera.screening), plan.source)
        except SourceError as error:
            warn(f"sub-stream: {error}")
            raise typer.Exit(SOME_FAILED) from None


def _measure(url: str, options: SourceOptions) -> VideoFrame:
    """Open a camera, print what it sends within `SECONDS` after its first picture, and return that."""
    began = monotonic()
    try:
        container = open_camera(url, options)
    except SourceError as error:
        raise SourceError(f"{redact(url)}: {error}") from None
    report, clock, keyframes = SourceReport(), CaptureClock(), list[float]()
    intact = IntactFrames(report, joined_midway=True)
    first: VideoFrame | None = None
    first_at = 0.0
    packets = frames = size = 0
    with closing(container), suppress(FFmpegError, OSError):  # it broke: what came until then is shown
        opened_s, stream = monotonic() - began, video_stream(container)
        context, rate = stream.codec_context, stream.guessed_rate
        until = monotonic() + options.stall_timeout_s
        for packet in container.demux(stream):
            now = monotonic()
            clock.note(packet, datetime.now(UTC))
            for frame in intact.decode(packet):
                if first is None:
                    first, first_at, until = frame, now, now + SECONDS
                else:
                    frames += 1
            if first:
                packets, size = packets + 1, size + packet.size
            if packet.is_keyframe and packet.pts is not None:
                keyframes.append(float(packet.pts * packet.time_base))
            if now >= until:
                break
    if first is None:
        raise SourceError(f"{redact(url)}: it opened, but sent no intact picture: check the camera's stream")
    watched_s, gaps = max(now - first_at, 1e-3), len(keyframes) - 1
    skew_s = clock.skew_s
    rows = {
        "address": redact(url),
        "opened": f"in {opened_s:.2f} s, first picture after {first_at - began:.2f} s",
        "picture": f"{context.width} x {context.height}, {context.name} {context.profile or ''}",
        "rate": f"{frames / watched_s:.1f} frames/s"
        + (f" (declared {float(rate):.1f})" if rate else "")
        + f", {size * 8 / 1000 / watched_s:.0f} kbit/s",
        "keyframes": f"every {(keyframes[-1] - keyframes[0]) / gaps:.1f} s"
        if gaps > 0
        else "fewer than two came",
        "damaged": f"{report.corrupt} of {packets} packets in {watched_s:.1f} s",
        "clock": "none is sent (RTCP); times of receipt are used"
        if skew_s is None
        else f"{skew_s:+.2f} s from ours",
    }
    for name, text in rows.items():
        typer.echo(f"{name:<10} {text}")
    return first
