"""Messages and exit code when footage has been narrated."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from daemon.replay.replay import ReplayReport

_SOME_FAILED, _INTERRUPTED = 3, 130


def finish(report: ReplayReport, out: Path | None, *, json: bool = False) -> None:
    """Say how it went.

    Raises:
        typer.Exit: it was interrupted, or some input failed.
    """
    if json and not report.narrations:
        typer.echo(json_format.dumps({"narrations": 0, "complete": not report.interrupted}))
    for problem in report.problems:
        typer.echo(f"narrated: {problem}", err=True)
    if out and report.narrations:
        typer.echo(f"{report.narrations} narrations; open {out / 'report.html'}", err=True)
    elif not report.problems:
        typer.echo(f"{report.narrations or 'no'} narrations", err=True)
    for note in report.notes:
        typer.echo(note, err=True)
    if report.interrupted:
        raise typer.Exit(_INTERRUPTED)
    if report.problems:
        raise typer.Exit(_SOME_FAILED)
