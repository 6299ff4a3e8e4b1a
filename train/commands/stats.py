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
        Path, typer.Argument(help="Folder with train.json, val.json or test.json; no images needed.")
    ],
    as_json: Json = False,
) -> None:
    """Count annotations, sentences and words, beside the paper's Table 1."""
    from train.metrics.annotations import folder_statistics  # noqa: PLC0415

    rows = folder_statistics(folder)
    if as_json:
        print_json({name: asdict(row) for name, row in rows.items()})
    else:
        Console().print(statistics_table(rows), soft_wrap=True)
