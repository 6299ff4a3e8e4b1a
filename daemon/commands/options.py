"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigurationFile = Annotated[Path, typer.Option("-c", "--config", help="Configuration file (YAML).")]
OptionalFile = Annotated[Path | None, typer.Option("-c", "--config", help="Configuration file (YAML).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
