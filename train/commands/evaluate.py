"""The command `narrated-train evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import Cache, Device, Json, SplitName, print_json, say
from train.commands.tables import print_evaluation
from train.commands.terminal import training_progress


def evaluate(
    *,
    data: Annotated[
        Path,
        typer.Option(
            help="Folder of samples in the Spot-the-diff layout: <id>.png, <id>_2.png, train.json, val.json."
        ),
    ],
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint that `narrated-train train` wrote.")],
    split: Annotated[SplitName, typer.Option(help="Split to measure on.")] = SplitName.VAL,
    cache: Cache = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Measure a checkpoint: text scores beside the trivial rows, and whether what it says is right."""
    from train.learning.runs import evaluate_on_folder  # noqa: PLC0415

    with training_progress(say) as telling:
        captioner, scores = evaluate_on_folder(
            data, checkpoint, split.value, cache=cache, device=device, telling=telling
        )
    if as_json:
        print_json({"checkpoint": captioner.sha256, "split": split.value, **scores.plain()})
    else:
        print_evaluation(checkpoint.stem, scores)
