"""Options that several commands have, what all of them say and print, and progress."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from train.papers.training import Listeners

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


@contextmanager
def progress_counts() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal for each thing counted; call the value with the thing, its count, and its end."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, whole: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=whole)
            bars.update(tasks[what], completed=done, total=whole)

        yield tell


@contextmanager
def training_progress() -> Iterator[Listeners]:
    """A bar for each thing that is counted, and lines for the user."""
    from train.papers.training import Listeners  # noqa: PLC0415 - loads torch

    with progress_counts() as count:
        yield Listeners(count, say)
