"""The verb `probe`."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict
from typing import Annotated

import typer

from daemon.commands.options import Json, OptionalFile, address_and_settings
from daemon.config.configuration import load_configuration
from daemon.config.plan import camera_plan
from daemon.config.secrets import Secrets
from daemon.config.settings import Camera
from daemon.tools.probe import Probe, probe_camera
from pipeline.sources import SourceError


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
    found, small, failure = probe_camera(plan.url, plan.source, seconds), None, None
    if isinstance(settings, Camera) and settings.screening:
        try:
            small = probe_camera(secrets.reveal(settings.screening), plan.source, seconds)
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
