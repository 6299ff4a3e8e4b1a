"""The verb `check-config`."""

from __future__ import annotations

import json as json_format
from typing import Annotated, Any

import typer

from daemon.commands.options import ConfigurationFile, Json
from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.config.forward import secret_texts, without_secrets
from daemon.config.secrets import SecretError, Secrets
from daemon.config.settings import Configuration
from pipeline.redaction import redacted


def check_config(
    config: ConfigurationFile,
    print_effective: Annotated[
        bool,
        typer.Option("--print-effective", help="Print it with all its defaults; secrets stay placeholders."),
    ] = False,
    json: Json = False,
) -> None:
    """Check a configuration file, and that its secrets can be read."""
    configuration = load_configuration(config)
    secrets = Secrets()
    problems = []
    named = [(f"cameras.{name}.url", camera.url) for name, camera in configuration.cameras.items()]
    named += [(f"cameras.{name}.screening", c.screening or "") for name, c in configuration.cameras.items()]
    named += [("redis.url", configuration.redis.url or ""), ("signing.key", configuration.signing.key or "")]
    named += secret_texts(configuration.forward)
    for key, text in named:
        try:
            secrets.reveal(text)
        except SecretError as error:
            problems.append(f"{config}: {key}: {error}")
    if not problems and configuration.signing.key:
        from pipeline.journal.signatures import SigningError, SigningKey  # noqa: PLC0415

        try:
            SigningKey(secrets.reveal(configuration.signing.key))
        except SigningError as error:
            problems.append(f"{config}: signing.key: {error}")
    if problems:
        raise ConfigurationError(problems)
    if json:
        typer.echo(json_format.dumps(_effective(configuration)))
    elif print_effective:
        import yaml  # noqa: PLC0415

        typer.echo(yaml.safe_dump(_effective(configuration), sort_keys=False, allow_unicode=True), nl=False)
    else:
        typer.echo(f"{config}: fine, {len(configuration.cameras)} cameras")
        for name, camera in configuration.cameras.items():
            if camera.zones:
                typer.echo(f"{name}: zones " + ", ".join(f'"{zone.name}"' for zone in camera.zones))


def _effective(configuration: Configuration) -> dict[str, Any]:
    """Every key with its value; credentials that stand in a URL are redacted, placeholders stay."""
    values = configuration.model_dump(mode="json")
    for camera in values["cameras"].values():
        camera["url"] = _shown(camera["url"])
        if camera["screening"]:
            camera["screening"] = _shown(camera["screening"])
    if values["redis"]["url"]:
        values["redis"]["url"] = _shown(values["redis"]["url"])
    values["forward"] = without_secrets(values["forward"])
    return values


def _shown(url: str) -> str:
    """Placeholders are no secrets: where a URL's credentials are nothing else, it is shown as it stands."""
    credentials = url.partition("://")[2].rpartition("@")[0]
    placeholder = credentials.startswith("${") and credentials.count("}") == 1 and credentials.endswith("}")
    return url if placeholder else redacted(url)
