"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigurationFile = Annotated[Path, typer.Option("-c", "--config", help="Configuration file (YAML).")]
OptionalFile = Annotated[Path | None, typer.Option("-c", "--config", help="Configuration file (YAML).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Log more.")]
Server = Annotated[
    str | None, typer.Option(help="The server; by default the configuration's, or else localhost.")
]
Journals = Annotated[
    Path | None,
    typer.Option(
        "-j", "--journal", help="Folder of journals, or a replay's --out; by default the state folder."
    ),
]
Pictures = Annotated[
    Path | None,
    typer.Option(help="Folder of the pictures; by default evidence, in or beside the journals' folder."),
]
TimeZone = Annotated[str | None, typer.Option(help="Time zone of days and hours; by default this machine's.")]
