"""The command `narrated-train negatives`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import SplitName


def negatives(
    *,
    data: Annotated[
        Path, typer.Option(help="Folder with train.json, val.json or test.json; no images needed.")
    ],
    split: Annotated[SplitName, typer.Option(help="Split whose captions are rewritten.")] = SplitName.TRAIN,
    each: Annotated[
        int, typer.Option(min=1, help="False captions of every way: confuse, replace, retrieve.")
    ] = 2,
    number: Annotated[int | None, typer.Option(min=1, help="Stop after this many captions.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same captions.")] = 0,
) -> None:
    """Rewrite true captions into false ones that look like them (IDC-PCL), as JSON lines."""
    import numpy as np  # noqa: PLC0415

    from train.learning.objectives.rewriter import Rewriter  # noqa: PLC0415
    from train.samples import SampleError, load_samples  # noqa: PLC0415

    samples = load_samples(data, split.value, require_images=False)
    told = [tuple(s for said in sample.annotations for s in said) for sample in samples]
    try:
        rewriter, rng = Rewriter(told), np.random.default_rng(seed)
    except ValueError as error:
        raise SampleError(f"{data / split.value}.json: {error}") from error
    every = [
        (sample.id, caption, said) for sample, said in zip(samples, told, strict=True) for caption in said
    ]
    for name, caption, said in every[:number]:
        made = rewriter.negatives(caption, rng, each, said)
        row = {"img_id": name, "caption": caption, "negatives": [asdict(n) for n in made]}
        typer.echo(json.dumps(row))
