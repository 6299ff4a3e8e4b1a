"""The command `narrated-train stats`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from train.commands.options import Json, print_json
from train.commands.tables import statistics_table


def stats(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of train.json, val.json, test.json, or CLEVR-Change, Birds-to-Words; without images."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Count annotations, sentences and words; of Spot-the-diff beside the paper's Table 1."""
    from train.papers.datasets.statistics import set_statistics  # noqa: PLC0415

    layout, rows = set_statistics(folder)
    if as_json:
        print_json({name: asdict(row) for name, row in rows.items()})
    else:
        Console().print(statistics_table(rows, paper=layout == "spot-the-diff"), soft_wrap=True)
