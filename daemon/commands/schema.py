"""The verb `schema`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer


class Schema(StrEnum):
    """What there is a schema of."""

    RECORD = "record"
    CONFIGURATION = "configuration"


def schema(
    of: Annotated[
        Schema, typer.Argument(help="Schema of the published record, or of the configuration file.")
    ] = Schema.RECORD,
) -> None:
    """Print a JSON Schema."""
    if of is Schema.CONFIGURATION:
        from daemon.config.configuration import configuration_schema  # noqa: PLC0415

        values = configuration_schema()
    else:
        from pipeline.record import json_schema  # noqa: PLC0415

        values = json_schema()
    typer.echo(json.dumps(values, indent=2))
