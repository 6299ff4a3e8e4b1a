"""The verb `calibrate`."""

from __future__ import annotations

import json as json_format
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.commands.options import Json, OptionalFile, address_and_settings
from daemon.config.configuration import load_configuration
from daemon.config.secrets import Secrets
from daemon.config.settings import Camera
from pipeline.redaction import redacted

if TYPE_CHECKING:
    from daemon.config.plan import CameraPlan
    from pipeline.thresholds import Calibration


def calibrate(
    source: Annotated[
        str, typer.Argument(help="A camera of the configuration, or a file, glob or rtsp:// URL.")
    ],
    config: OptionalFile = None,
    json: Json = False,
) -> None:
    """Find a camera's thresholds in its own footage, and keep them for `run` if it is a configured camera."""
    configuration = load_configuration(config) if config else None
    from daemon.config.plan import camera_plan  # noqa: PLC0415
    from daemon.threads.calibration import CalibrationStore, calibrate_source  # noqa: PLC0415
    from pipeline.sources import open_source  # noqa: PLC0415

    address, settings = address_and_settings(source, configuration)
    known = isinstance(settings, Camera)
    plan = camera_plan(source if known else "calibrate", Secrets().reveal(address), settings)
    with open_source(plan.url, plan.source, plan.name) as frames:
        calibration = calibrate_source(frames)
    stored = []
    if configuration and known:
        stored.append(CalibrationStore(configuration.state / "calibration").save(plan, calibration))
    values = calibration.to_dict()
    if json:
        typer.echo(json_format.dumps(values))
    else:
        _show(source, plan, calibration)
    for path in stored:
        typer.echo(f"stored in {path}", err=True)


def _show(source: str, plan: CameraPlan, calibration: Calibration) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    title = f"{redacted(source)}: {calibration.frames} frames in {calibration.span_s:.0f} s"
    if not calibration.measured:
        title += ": too few, these are the defaults"
    table = Table("L2 distance, grey levels", "5 %", "50 %", "95 %", "largest", "threshold", title=title)
    found = calibration.thresholds
    for name, quantiles, threshold, by_hand in (
        ("largest block: lower", calibration.peak, found.lower, plan.lower),
        ("whole frame: upper", calibration.whole, found.upper, plan.upper),
    ):
        row = [f"{value:.1f}" for value in (quantiles.p5, quantiles.p50, quantiles.p95, quantiles.largest)]
        chosen = f"{threshold:.1f}" + ("" if by_hand is None else f" (by hand: {by_hand:.1f})")
        table.add_row(name, *row, chosen)
    table.add_row("noise", "", f"{calibration.noise:.1f}", "", "", "")
    Console().print(table)
