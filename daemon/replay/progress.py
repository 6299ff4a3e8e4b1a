"""Progress of a replay: one bar on stderr, on a terminal only."""

from __future__ import annotations

import sys
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from pipeline.report.words import many


class ReplayProgress:
    """A context manager around a replay."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TaskProgressColumn(),
            TextColumn("{task.fields[narrations]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            redirect_stdout=False,  # narrations that are piped somewhere must not end up on the terminal
        )
        self._task = self._progress.add_task("reading", total=None, narrations=many(0, "narration"))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def print(self, line: str) -> None:
        """Print a line to stdout: above the bar where both are on a terminal; from any thread."""
        if self._progress.console.is_terminal and sys.stdout.isatty():
            self._progress.console.print(Text(line), soft_wrap=True)
            return
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def update(self, description: str, read_s: float, total_s: float | None, narrations: int) -> None:
        """Show the seconds of footage read so far and in total, where the latter are known."""
        number = many(narrations, "narration")
        self._progress.update(
            self._task, completed=read_s, total=total_s, description=description, narrations=number
        )
