"""Options that several commands have, and what all of them say and print."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

SOME_FAILED = 3

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Device = Annotated[str, typer.Option(help="Torch device: cpu, cuda, cuda:1, ...")]
Teacher = Annotated[
    list[str] | None,
    typer.Option(
        help="Detector that labels footage; may be repeated: YOLOX or PicoDet (.onnx), SSD or ATSS of "
        "OpenVINO (.xml; class names after a colon: FILE:vehicle,person,bike)."
    ),
]
Avoid = Annotated[
    Path | None,
    typer.Option(help="JSON Lines naming clips and seconds (a benchmark's): frames near them are left out."),
]


def say(line: str) -> None:
    """One line on standard error; standard output is kept for results."""
    typer.echo(f"narrated-train: {line}", err=True)


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=1))


def command_line() -> str:
    """The command as it was given, for records: of paths only the names."""
    return " ".join(["narrated-train", *(re.sub(r"[^=]*/(?=[^/])", "", word) for word in sys.argv[1:])])
