"""How far a replay is: one bar on stderr, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from daemon.config.durations import format_offset
from daemon.threads.camera_thread import CameraThread


class ReplayProgress:
    """A context manager around a replay."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(max_width=20, no_wrap=True)),
            BarColumn(bar_width=16),
            TextColumn("{task.percentage:>3.0f} %"),
            _Speed(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[narrations]} narrations"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            # Narrations that are piped somewhere must not end up on the terminal.
            redirect_stdout=False,
        )
        self._task = self._progress.add_task("reading", total=None, narrations=0)

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

    def update_files(self, finished: int, files: int, read_s: float, narrations: int) -> None:
        """Say how many files others have finished, and how many seconds of footage these held."""
        self._progress.update(
            self._task,
            completed=read_s,
            total=read_s * files / finished,
            description=f"{finished}/{files} files",
            narrations=narrations,
        )

    def update(self, threads: Sequence[CameraThread], narrations: int) -> None:
        """Take a look at the threads."""
        done_s = sum(thread.read_s for thread in threads)
        known = [t.duration_s for t in threads if t.duration_s is not None]
        # What has not been opened yet is taken to be as long as the others.
        total_s = sum(known) * len(threads) / len(known) if known else None
        # Files are read ahead of the narrator: it may still be busy when all is read.
        running = [t.plan.name for t in threads if t.loop.alive]
        finished = sum(t.loop.started and not t.loop.alive for t in threads)
        if len(threads) == 1:
            description = running[0] if running else "narrating"
        else:
            description = f"{finished}/{len(threads)} files"
        self._progress.update(
            self._task,
            completed=done_s,
            total=max(total_s, done_s) if total_s else None,
            description=description,
            narrations=narrations,
        )


class _Speed(ProgressColumn):
    """Footage read, and how many times faster than it was recorded."""

    def render(self, task: Task) -> Text:
        elapsed_s = task.elapsed or 0.0
        speed = task.completed / elapsed_s if elapsed_s else 0.0
        return Text(f"{format_offset(task.completed)} {speed:.0f}x")
