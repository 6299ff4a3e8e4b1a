"""Progress on standard error, only where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from train.commands.options import say

if TYPE_CHECKING:
    from train.papers.training import Listeners


@contextmanager
def progress_counts() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each thing that is counted; call the value with the thing, its number so far, and its end."""
    with _progress() as bars:
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


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
