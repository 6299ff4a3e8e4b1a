"""The verb `doctor`."""

from __future__ import annotations

import json as json_format

import typer

from daemon.commands.options import CaptionerChoice, Json, OptionalFile, choose_captioner
from daemon.config.configuration import load_configuration


def doctor(
    config: OptionalFile = None,
    captioner: CaptionerChoice = None,
    json: Json = False,
) -> None:
    """Check the installation: packages, kernels, captioner, and with -c what the configuration names."""
    configuration = load_configuration(config) if config else None
    from daemon.tools.doctor import examine  # noqa: PLC0415

    checks = examine(config, configuration, *choose_captioner(captioner, None, configuration))
    if json:
        values = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in checks]
        typer.echo(json_format.dumps({"ok": all(c.ok is not False for c in checks), "checks": values}))
    else:
        signs = {True: "ok", False: "FAILED", None: "-"}
        for check in checks:
            typer.echo(f"{signs[check.ok]:<7}{check.name}: {check.detail}")
    if any(check.ok is False for check in checks):
        raise typer.Exit(1)
