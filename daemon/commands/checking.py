"""Verbs that look before or after: check-config, calibrate, doctor."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.commands.narrating import CaptionerChoice, CaptionerFile, ConfigurationFile, Json
from daemon.config import ConfigurationError, load_configuration
from daemon.forward.settings import secret_texts, without_secrets
from daemon.secrets import SecretError, Secrets
from daemon.settings import CameraDefaults, Configuration

if TYPE_CHECKING:
    from daemon.plan import CameraPlan
    from pipeline.thresholds import Calibration

OptionalFile = Annotated[Path | None, typer.Option("-c", "--config", help="Configuration file (YAML).")]


def add_to(app: typer.Typer) -> None:
    """Make the verbs known."""
    app.command("check-config")(check_config)
    app.command("calibrate")(calibrate)
    app.command("doctor")(doctor)


def check_config(
    config: ConfigurationFile,
    print_effective: Annotated[
        bool, typer.Option("--print-effective", help="Print it with all defaults; secrets stay placeholders.")
    ] = False,
    json: Json = False,
) -> None:
    """Check a configuration file, and that its secrets can be had."""
    configuration = load_configuration(config)
    secrets = Secrets()
    problems = []
    named = [(f"cameras.{name}.url", camera.url) for name, camera in configuration.cameras.items()]
    named += [(f"cameras.{name}.screening", c.screening or "") for name, c in configuration.cameras.items()]
    named += secret_texts(configuration.forward)
    named += [("redis.url", configuration.redis.url or ""), ("signing.key", configuration.signing.key or "")]
    for key, text in named:
        try:
            secrets.reveal(text)
        except SecretError as error:
            problems.append(f"{config}: {key}: {error}")
    if not problems and configuration.signing.key:
        from pipeline.signing import SigningError, SigningKey  # noqa: PLC0415

        try:
            SigningKey(secrets.reveal(configuration.signing.key))
        except SigningError as error:
            problems.append(f"{config}: signing.key: {error}")
    if problems:
        raise ConfigurationError(problems)
    if json:
        typer.echo(json_format.dumps(effective(configuration)))
    elif print_effective:
        import yaml  # noqa: PLC0415

        typer.echo(yaml.safe_dump(effective(configuration), sort_keys=False, allow_unicode=True), nl=False)
    else:
        typer.echo(f"{config}: fine, {len(configuration.cameras)} cameras")
        for name, camera in configuration.cameras.items():
            if camera.zones:
                typer.echo(f"{name}: zones " + ", ".join(f'"{zone.name}"' for zone in camera.zones))


def effective(configuration: Configuration) -> dict[str, Any]:
    """Every key with its value; credentials that stand in a URL are redacted, placeholders stay."""
    from pipeline.sources import redacted  # noqa: PLC0415 - loads the decoders

    values = configuration.model_dump(mode="json")
    for camera in values["cameras"].values():
        camera["url"] = _shown(camera["url"], redacted)
        if camera["screening"]:
            camera["screening"] = _shown(camera["screening"], redacted)
    if values["redis"]["url"]:
        values["redis"]["url"] = _shown(values["redis"]["url"], redacted)
    values["forward"] = without_secrets(values["forward"])
    return values


def _shown(url: str, redacted: Any) -> str:
    """Placeholders are no secrets: where a URL's credentials are nothing else, it is shown as it stands."""
    credentials = url.partition("://")[2].rpartition("@")[0]
    return (
        url
        if credentials.startswith("${") and credentials.count("}") == 1 and credentials.endswith("}")
        else (str(redacted(url)))
    )


def calibrate(
    source: Annotated[
        str, typer.Argument(help="A camera of the configuration, or a file, glob or rtsp:// URL.")
    ],
    config: OptionalFile = None,
    out: Annotated[Path | None, typer.Option(help="Write the calibration (JSON) here.")] = None,
    json: Json = False,
) -> None:
    """Find a camera's thresholds in its own footage, and keep them for `run` if it is a configured camera."""
    configuration = load_configuration(config) if config else None
    from daemon.calibration import CalibrationStore, calibrate_source  # noqa: PLC0415
    from daemon.plan import camera_plan  # noqa: PLC0415
    from pipeline.sources import open_source  # noqa: PLC0415

    secrets = Secrets()
    known = configuration.cameras.get(source) if configuration else None
    if known:
        plan = camera_plan(source, secrets.reveal(known.url), known)
    else:
        defaults = configuration.defaults if configuration else CameraDefaults()
        plan = camera_plan("calibrate", secrets.reveal(source), defaults)
    with open_source(plan.url, plan.source, plan.name) as frames:
        calibration = calibrate_source(frames)
    stored = []
    if configuration and known:
        stored.append(CalibrationStore(configuration.state / "calibration").save(plan, calibration))
    values = calibration.to_dict()
    if out:
        out.write_text(json_format.dumps(values, indent=1) + "\n", encoding="utf-8")
        stored.append(out)
    if json:
        typer.echo(json_format.dumps(values))
    else:
        _show(source, plan, calibration)
    for path in stored:
        typer.echo(f"stored in {path}", err=True)


def _show(source: str, plan: CameraPlan, calibration: Calibration) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from pipeline.sources import redacted  # noqa: PLC0415

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


def doctor(
    config: OptionalFile = None,
    captioner: CaptionerChoice = None,
    captioner_file: CaptionerFile = None,
    json: Json = False,
) -> None:
    """Check that everything is here and works."""
    configuration = load_configuration(config) if config else None
    from daemon.doctor import examine  # noqa: PLC0415

    checks = examine(configuration, captioner, captioner_file)
    if json:
        values = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in checks]
        typer.echo(json_format.dumps({"ok": all(c.ok is not False for c in checks), "checks": values}))
    else:
        signs = {True: "ok", False: "FAILED", None: "-"}
        for check in checks:
            typer.echo(f"{signs[check.ok]:<7}{check.name}: {check.detail}")
    if any(check.ok is False for check in checks):
        raise typer.Exit(1)
