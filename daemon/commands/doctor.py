"""The verb `doctor`."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict

import typer

from daemon.commands.options import CaptionerChoice, Json, OptionalFile, choose_captioner
from daemon.config.configuration import load_configuration


def doctor(config: OptionalFile = None, captioner: CaptionerChoice = None, json: Json = False) -> None:
    """Check the installation: packages, kernels, captioner, and with -c what the configuration names."""
    configuration = load_configuration(config) if config else None
    from daemon.tools.doctor import examine  # noqa: PLC0415

    checks = examine(config, configuration, *choose_captioner(captioner, None, configuration))
    failed = any(check.ok is False for check in checks)
    if json:
        typer.echo(json_format.dumps({"ok": not failed, "checks": list(map(asdict, checks))}))
    else:
        signs = {True: "ok", False: "FAILED", None: "-"}
        for check in checks:
            typer.echo(f"{signs[check.ok]:<7}{check.name}: {check.detail}")
    if failed:
        raise typer.Exit(1)
