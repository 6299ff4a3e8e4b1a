"""The verb `probe`."""

from __future__ import annotations

import json as json_format
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer
from av.error import FFmpegError
from av.video.frame import VideoFrame
from typer import Argument, Option

from daemon.commands.options import Json, OptionalFile, address_and_settings, warn, write_picture
from daemon.commands.overlay import draw_areas
from daemon.config.configuration import load_configuration
from daemon.config.plan import camera_plan
from daemon.config.secrets import Secrets
from daemon.config.settings import Camera
from pipeline.sources import SourceError, SourceOptions, SourceReport, redact
from pipeline.sources.decode import IntactFrames, video_stream
from pipeline.sources.picture import View
from pipeline.sources.rtsp import open_camera
from pipeline.sources.times import CaptureClock


def probe(
    url: Annotated[
        str,
        Argument(
            help="rtsp:// URL, or a camera of the configuration. Other users can see the command "
            "line: write its password as ${env:NAME} or ${file:PATH}, in single quotes."
        ),
    ],
    config: OptionalFile = None,
    seconds: Annotated[float, Option(min=0.5, max=600, help="How long to look.")] = 5.0,
    out: Annotated[
        Path | None,
        Option(help="Write its first picture, with a ruler, zones, masks and privacy areas, to this file."),
    ] = None,
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
    (measured, first), small, failure = _measure(plan.url, plan.source, seconds), None, ""
    if out:
        image = View(plan.source).of_frame(first)[1].rgb()
        write_picture(draw_areas(image, settings) if isinstance(settings, Camera) else image, out)
    if isinstance(settings, Camera) and settings.screening:
        try:
            small, _ = _measure(secrets.reveal(settings.screening), plan.source, seconds)
        except SourceError as error:
            failure = str(error)
    if json:
        screening = {"error": failure} if failure else small
        typer.echo(json_format.dumps({**measured, "screening": screening}))
    else:
        _print(measured)
        if small:
            typer.echo("\nsub-stream, which is screened:")
            _print(small)
    if failure:
        warn(f"sub-stream: {failure}")
        raise typer.Exit(3)


def _print(measured: dict[str, Any]) -> None:
    declared = " (declared {declared_hz:.1f})" if measured["declared_hz"] else ""
    no_clock = "none is sent (RTCP); times of receipt are used"
    rows = {
        "address": "{address}",
        "opened": "in {opened_s:.2f} s, first picture after {first_frame_s:.2f} s",
        "picture": "{width} x {height}, {codec}",
        "rate": f"{{hz:.1f}} frames/s{declared}, {{kbit_s:.0f}} kbit/s",
        "keyframes": "every {keyframe_s:.1f} s" if measured["keyframe_s"] else "fewer than two came",
        "damaged": "{corrupt} of {packets} packets in {watched_s:.1f} s",
        "clock": no_clock if measured["skew_s"] is None else "{skew_s:+.2f} s from ours",
    }
    for name, text in rows.items():
        typer.echo(f"{name:<10} {text.format(**measured)}")


def _measure(url: str, options: SourceOptions, seconds: float) -> tuple[dict[str, Any], VideoFrame]:
    """Open a camera and look at what it sends for so many seconds after its first picture.

    Returns:
        Measurements by name; ``opened_s`` and ``first_frame_s`` count from the call. What the camera does not
        say is None: ``declared_hz``, ``keyframe_s`` (on average), ``skew_s`` (its clock less ours). And the
        first intact frame.

    Raises:
        SourceError: it cannot be opened, or sends no picture; the message says what to do.
    """
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
        opened_s, stream = monotonic() - began, video_stream(container, options.threads)
        context, rate = stream.codec_context, stream.guessed_rate
        until = monotonic() + options.stall_timeout_s
        for packet in container.demux(stream):
            now = monotonic()
            clock.note(packet, datetime.now(UTC))
            for frame in intact.decode(packet):
                if first is None:
                    first, first_at, until = frame, now, now + seconds
                else:
                    frames += 1
            if first:
                packets, size = packets + 1, size + packet.size
            if packet.is_keyframe and packet.pts is not None:
                keyframes.append(float(packet.pts * packet.time_base))
            if now >= until:
                break
    if first is None:
        raise SourceError(f"{redact(url)}: it opened, but no intact picture came: check the camera's stream")
    watched_s, gaps = max(now - first_at, 1e-3), len(keyframes) - 1
    measured = {
        "address": redact(url),
        "opened_s": opened_s,
        "first_frame_s": first_at - began,
        "codec": " ".join(filter(None, (context.name, context.profile))),
        "width": context.width,
        "height": context.height,
        "declared_hz": float(rate) if rate else None,
        "watched_s": watched_s,
        "packets": packets,
        "corrupt": report.corrupt,
        "hz": frames / watched_s,
        "kbit_s": size * 8 / 1000 / watched_s,
        "keyframe_s": (keyframes[-1] - keyframes[0]) / gaps if gaps > 0 else None,
        "skew_s": clock.skew_s,
    }
    return measured, first
