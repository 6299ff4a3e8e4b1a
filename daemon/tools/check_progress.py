"""How far a check of journals is: one bar on stderr, on a terminal only; nothing here loads the decoders."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class CheckProgress:
    """A context manager around the check of journals.

    Args:
        console: writes to stderr; the bar shows where it is a terminal.
    """

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("checking"),
            BarColumn(bar_width=24),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            redirect_stdout=False,
        )
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, done: int, size: int) -> None:
        """So many bytes were checked, of so many."""
        self._progress.update(self._task, completed=done, total=size)
