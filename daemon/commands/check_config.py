"""The verb `check-config`."""

from __future__ import annotations

import socket
from typing import Annotated, Any

import typer
import yaml

from daemon.commands.options import ConfigurationFile, schema_option
from daemon.config.configuration import configuration_schema, load_configuration
from daemon.config.forward import without_secrets
from daemon.config.secrets import Secrets
from daemon.config.settings import Configuration
from daemon.config.values import format_listen
from pipeline.redaction import redacted


def check_config(
    config: ConfigurationFile,
    print_effective: Annotated[
        bool,
        typer.Option("--print-effective", help="Print it with all its defaults; secrets stay placeholders."),
    ] = False,
    schema: Annotated[bool, schema_option(configuration_schema, "the file")] = False,  # noqa: ARG001 - its callback exits
) -> None:
    """Check a configuration file and what it names: secrets, checkpoint, folders, server, footage."""
    from daemon.config.checks import check_configuration  # noqa: PLC0415

    configuration = load_configuration(config)
    for warning in check_configuration(configuration, Secrets(), config):
        typer.echo(f"narrated: {warning}", err=True)
    if listen := configuration.http.listen:
        try:
            socket.create_server(listen).close()
        except OSError as error:  # no mistake: the daemon whose file it is may be running
            reason = f"{format_listen(listen)} cannot be listened on now ({error.strerror})"
            typer.echo(
                f"narrated: {config}: http.listen: {reason}: choose another, unless narrated runs", err=True
            )
    if print_effective:
        typer.echo(yaml.safe_dump(_effective(configuration), sort_keys=False, allow_unicode=True), nl=False)
    else:
        count = len(configuration.cameras)
        typer.echo(f"{config}: fine, {count} {'camera' if count == 1 else 'cameras'}")
        for name, camera in configuration.cameras.items():
            if camera.zones:
                typer.echo(f"{name}: zones " + ", ".join(f'"{zone.name}"' for zone in camera.zones))


def _effective(configuration: Configuration) -> dict[str, Any]:
    """Every key with its value; credentials that stand in a URL are redacted, placeholders stay."""
    values = configuration.model_dump(mode="json")
    for camera in values["cameras"].values():
        camera["url"] = _redact(camera["url"])
        if camera["screening"]:
            camera["screening"] = _redact(camera["screening"])
    if values["redis"]["url"]:
        values["redis"]["url"] = _redact(values["redis"]["url"])
    values["forward"] = without_secrets(values["forward"])
    return values


def _redact(url: str) -> str:
    """Placeholders are no secrets: where a URL's credentials are nothing else, it is shown as it stands."""
    credentials = url.partition("://")[2].rpartition("@")[0]
    placeholder = credentials.startswith("${") and credentials.count("}") == 1 and credentials.endswith("}")
    return url if placeholder else redacted(url)
