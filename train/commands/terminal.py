"""Progress on standard error, only where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from train.learning.run_options import Telling
    from train.learning.run_state import Point


@contextmanager
def progress_counts() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each thing that is counted; call the value with the thing, its number so far, and its end."""
    with _progress() as bars:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, whole: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=whole, note="")
            bars.update(tasks[what], completed=done, total=whole)

        yield tell


@contextmanager
def training_progress(say: Callable[[str], None], *, epochs: bool = True) -> Iterator[Telling]:
    """Bars for features and epochs, and a line per epoch through `say`, unless `epochs` are not told."""
    from train.learning.run_options import Telling  # noqa: PLC0415

    with _progress() as bars:
        tasks: dict[str, TaskID] = {}

        def bar(what: str, done: int, whole: int, note: str = "") -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=whole, note=note)
            bars.update(tasks[what], completed=done, total=whole, note=note)

        def features(split: str, ready: int, whole: int) -> None:
            bar(f"features of {split}", ready, whole)

        def batch(epoch: int, done: int, whole: int, loss: float) -> None:
            bar(f"epoch {epoch}", done, whole, f"loss {loss:.2f}")

        def told(point: Point) -> None:
            if f"epoch {point.epoch}" in tasks:
                bars.remove_task(tasks.pop(f"epoch {point.epoch}"))
            if not epochs:
                return
            measured = (
                f"CIDEr {point.val_cider:.4f}, perplexity {point.val_perplexity:.2f}"
                if point.val_score is None
                else f"score {point.val_score:.4f}"
            )
            say(f"epoch {point.epoch}: loss {point.train_loss:.3f}, validation {measured}")

        yield Telling(features, batch, told, say, bar)


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
