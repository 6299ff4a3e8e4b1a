"""Verbs that look through a camera: probe, snapshot."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.commands.narrating import Json
from daemon.config.configuration import load_configuration
from daemon.config.secrets import Secrets
from daemon.config.settings import Camera, CameraDefaults

if TYPE_CHECKING:
    from daemon.tools.probe import Probed

OptionalFile = Annotated[Path | None, typer.Option("-c", "--config", help="Configuration file (YAML).")]


def add_to(app: typer.Typer) -> None:
    """Make the verbs known."""
    app.command("probe")(probe)
    app.command("snapshot")(snapshot)


def probe(
    url: Annotated[
        str,
        typer.Argument(
            help="rtsp:// URL, or a camera of the configuration. Other users see a URL that stands on the "
            "command line: write its password as ${env:NAME} or ${file:PATH}, in single quotes."
        ),
    ],
    config: OptionalFile = None,
    seconds: Annotated[float, typer.Option(min=0.5, max=600, help="How long it is looked at.")] = 5.0,
    json: Json = False,
) -> None:
    """Open a camera once, and its sub-stream where it has one, and tell what they send."""
    address, settings = _camera(url, config)
    from daemon.config.plan import camera_plan  # noqa: PLC0415
    from daemon.tools.probe import probe as probed  # noqa: PLC0415
    from pipeline.sources import SourceError  # noqa: PLC0415

    secrets = Secrets()
    plan = camera_plan("probe", secrets.reveal(address), settings)
    if not plan.url.startswith(("rtsp://", "rtsps://")):
        raise typer.BadParameter(
            "give an rtsp:// or rtsps:// URL, or with -c the name of a camera that has one"
        )
    found, small, failed = probed(plan.url, plan.source, seconds), None, None
    if isinstance(settings, Camera) and settings.screening:
        try:
            small = probed(secrets.reveal(settings.screening), plan.source, seconds)
        except SourceError as error:
            failed = str(error)
    if json:
        screening = asdict(small) if small else {"error": failed} if failed else None
        typer.echo(json_format.dumps({**asdict(found), "screening": screening}))
    else:
        _show(found)
    if small and not json:
        typer.echo("\nsub-stream, which is screened:")
        _show(small)
    if failed:
        typer.echo(f"narrated: sub-stream: {failed}", err=True)
        raise typer.Exit(3)


def snapshot(
    camera: Annotated[str, typer.Argument(help="A camera of the configuration.")],
    config: Annotated[Path, typer.Option("-c", "--config", help="Configuration file (YAML).")],
    out: Annotated[Path | None, typer.Option(help="PNG, JPEG or WebP; CAMERA.png without it.")] = None,
    overlay: Annotated[
        bool,
        typer.Option("--overlay", help="Draw a ruler, and zones, masks and privacy areas with their names."),
    ] = False,
) -> None:
    """Store one picture of a camera; privacy areas are black in it."""
    import cv2  # noqa: PLC0415

    address, settings = _camera(camera, config)
    from daemon.config.plan import camera_plan  # noqa: PLC0415
    from daemon.tools.snapshot import overlaid  # noqa: PLC0415
    from daemon.tools.snapshot import snapshot as taken  # noqa: PLC0415
    from pipeline.sources import redacted  # noqa: PLC0415

    if not isinstance(settings, Camera):
        raise typer.BadParameter(f"{config} has no camera {redacted(camera)!r}")
    plan = camera_plan(camera, Secrets().reveal(address), settings)
    image = taken(plan, plan.source.open_timeout_s + plan.source.stall_timeout_s)
    if overlay:
        image = overlaid(image, settings)
    path = out or Path(f"{camera}.png")
    try:
        _, encoded = cv2.imencode(path.suffix.lower() or ".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    except cv2.error:
        raise typer.BadParameter(f"--out {path}: end it in .png, .jpg or .webp") from None
    path.write_bytes(encoded.tobytes())
    typer.echo(f"wrote {path}, {image.shape[1]} x {image.shape[0]} pixels", err=True)


def _camera(name: str, config: Path | None) -> tuple[str, CameraDefaults]:
    """URL (secrets not put in) and settings of a configured camera, else the name itself and the defaults."""
    if config is None:
        return name, CameraDefaults()
    configuration = load_configuration(config)
    known = configuration.cameras.get(name)
    return (known.url, known) if known else (name, configuration.defaults)


def _show(found: Probed) -> None:
    rows = {
        "address": found.address,
        "opened": f"in {found.opened_s:.2f} s, first picture after {found.first_frame_s:.2f} s",
        "picture": f"{found.width} x {found.height}, {found.codec}",
        "rate": f"{found.hz:.1f} frames/s"
        + (f" (declared {found.declared_hz:.1f})" if found.declared_hz else "")
        + f", {found.kbit_s:.0f} kbit/s",
        "keyframes": f"every {found.keyframe_s:.1f} s" if found.keyframe_s else "fewer than two were seen",
        "damaged": f"{found.corrupt} of {found.packets} packets in {found.watched_s:.1f} s",
        "clock": "none is sent (RTCP); times of receipt are used"
        if found.skew_s is None
        else f"{abs(found.skew_s):.2f} s {'ahead of' if found.skew_s > 0 else 'behind'} ours",
    }
    for name, text in rows.items():
        typer.echo(f"{name:<10} {text}")
