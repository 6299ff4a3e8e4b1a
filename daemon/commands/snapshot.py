"""The verb `snapshot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daemon.commands.options import ConfigurationFile, address_and_settings, write_picture
from daemon.config.configuration import load_configuration
from daemon.config.plan import camera_plan
from daemon.config.secrets import Secrets
from daemon.config.settings import Camera
from daemon.tools.snapshot import draw_areas, take_snapshot
from pipeline.redaction import redact


def snapshot(
    camera: Annotated[str, typer.Argument(help="A camera of the configuration.")],
    config: ConfigurationFile,
    out: Annotated[
        Path | None, typer.Option(help="File to write: PNG, JPEG or WebP; by default CAMERA.png.")
    ] = None,
    overlay: Annotated[
        bool,
        typer.Option("--overlay", help="Draw a ruler, and zones, masks and privacy areas with their names."),
    ] = False,
) -> None:
    """Save one picture of a camera; privacy areas are black in it."""
    address, settings = address_and_settings(camera, load_configuration(config))
    if not isinstance(settings, Camera):
        raise typer.BadParameter(f"{config} has no camera {redact(camera)!r}")
    plan = camera_plan(camera, Secrets().reveal(address), settings)
    image = take_snapshot(plan, plan.source.open_timeout_s + plan.source.stall_timeout_s)
    if overlay:
        image = draw_areas(image, settings)
    path = out or Path(f"{camera}.png")
    write_picture(image, path)
    typer.echo(f"wrote {path}, {image.shape[1]} x {image.shape[0]} pixels", err=True)
