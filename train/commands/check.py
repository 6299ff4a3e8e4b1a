"""The command `narrated-train check`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from train.commands.options import SOME_FAILED, Json, print_json, say
from train.commands.terminal import progress_counts


def check(
    folder: Annotated[
        Path,
        typer.Argument(help="Spot-the-diff, CLEVR-Change, Birds-to-Words, CUB, NABirds, or pairs of ours."),
    ],
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only look whether images are there; do not open them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check that a set is complete: its files and images, as many as were released; exit code 3 if not."""
    from train.papers.datasets import check as check_set  # noqa: PLC0415

    with progress_counts() as tell:
        layout, findings = check_set(folder, decode=not quick, progress=tell)
    if as_json:
        print_json({"set": layout, "parts": [asdict(f) for f in findings]})
    else:
        table = Table("part", "items", "released", "images", "missing", "broken", box=box.SIMPLE_HEAD)
        for f in findings:
            released = "any" if f.expected is None else f"{f.expected:,}"
            cells = (f"{f.items:,}", released, f"{f.images:,}", f"{f.missing:,}", f"{f.broken:,}")
            table.add_row(f.part, *cells)
        Console().print(f"{folder}: {layout}", table, sep="\n", soft_wrap=True)
    for finding in findings:
        if not finding.whole:
            say(f"{finding.part}: {finding.problem}")
    if not all(finding.whole for finding in findings):
        raise typer.Exit(SOME_FAILED)
