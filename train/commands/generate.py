"""The command `narrated-train generate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import Json, print_json, say
from train.commands.terminal import progress_counts


def generate(
    *,
    out: Annotated[Path, typer.Option(help="Folder to make; it must not exist.")],
    pairs: Annotated[int, typer.Option(min=10, help="Pairs of all splits, shared 80:10:10.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and options give the same bytes.")] = 1,
    size: Annotated[int, typer.Option(min=64, help="Side of the frames in pixels.")] = 224,
    annotators: Annotated[int, typer.Option(min=1, help="Captions of every pair.")] = 3,
    distractors: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of pairs in which only light, view or position changes."),
    ] = 0.3,
    cameras: Annotated[int, typer.Option(min=3, help="Fixed views; no view occurs in two splits.")] = 60,
    balanced: Annotated[
        bool,
        typer.Option(
            "--balanced",
            help="One change a pair and all types equally often, as in CLEVR-Change; else as told.",
        ),
    ] = False,
    crowded: Annotated[
        bool,
        typer.Option(
            "--crowded",
            help="Things alike of which one changes, in pairs with the same before frame: only the end of "
            "the caption tells them apart.",
        ),
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes; they do not change the pairs.")] = 1,
    as_json: Json = False,
) -> None:
    """Draw a benchmark of surveillance-like pairs with exact captions and clusters; it needs no footage."""
    from train.papers.generated import GenerateOptions, StageOptions  # noqa: PLC0415
    from train.papers.generated import generate as generate_pairs  # noqa: PLC0415

    staged = StageOptions(balanced=balanced, crowded=crowded)
    options = GenerateOptions(pairs, seed, size, annotators, distractors, cameras, staged)
    with progress_counts() as tell:
        report = generate_pairs(options, out, workers, tell)
    if as_json:
        print_json({**asdict(report), "out": str(out)})
        return
    splits = ", ".join(f"{split} {n}" for split, n in report.pairs.items())
    kinds = ", ".join(f"{kind} {n}" for kind, n in report.kinds.items())
    types = ", ".join(f"{kind} {n}" for kind, n in report.types.items())
    say(f"{out}: {splits}; {kinds}; changes {types}")
