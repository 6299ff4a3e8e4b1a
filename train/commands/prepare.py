"""The command `narrated-train prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import say


def prepare(
    folder: Annotated[
        Path, typer.Argument(help="CLEVR-Change, Birds-to-Words, CUB, NABirds or Spot-the-diff, as released.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder to make; it must not exist.")],
) -> None:
    """Write a released set's annotations as the other commands read them; its images stay where they are."""
    from train.papers.datasets import prepare as prepare_set  # noqa: PLC0415

    written = ", ".join(f"{name} {n}" for name, n in prepare_set(folder, out).items())
    say(f"{out}: {written}")
