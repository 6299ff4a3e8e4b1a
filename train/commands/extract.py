"""The command `narrated-train extract`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import SOME_FAILED, say


class Choice(StrEnum):
    """How `extract` chooses pairs."""

    CANDIDATE = "candidate"
    RANDOM = "random"


def extract(
    *,
    paths: Annotated[list[Path], typer.Argument(help="Video files or folders of stills, one camera each.")],
    out: Annotated[Path, typer.Option(help="Folder to make; it must not exist.")],
    pairs: Annotated[int, typer.Option(min=1, help="At most this many pairs of each video.")] = 50,
    mode: Annotated[
        Choice, typer.Option(help="random: as the paper drew them; candidate: as a live camera finds them.")
    ] = Choice.RANDOM,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random pairs.")] = 0,
    lower: Annotated[
        float | None, typer.Option(help="Lower L2 threshold, grey levels; by default calibrated per video.")
    ] = None,
    upper: Annotated[
        float | None, typer.Option(help="Upper L2 threshold, grey levels; needs --lower as well.")
    ] = None,
) -> None:
    """Write frame pairs of footage to a folder, for annotation or for `narrated describe --pairs`."""
    from pipeline.thresholds import PairThresholds  # noqa: PLC0415
    from train.footage.extraction import ExtractOptions  # noqa: PLC0415
    from train.footage.extraction import extract as extract_pairs  # noqa: PLC0415

    if (lower is None) != (upper is None):
        raise typer.BadParameter("give both --lower and --upper, or neither", param_hint="--lower")
    try:
        band = None if lower is None or upper is None else PairThresholds(lower, upper)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--lower, --upper") from error
    done = extract_pairs(paths, out, pairs, ExtractOptions(mode=mode.value, seed=seed, thresholds=band))
    for problem in done.problems:
        say(problem)
    say(f"{done.pairs} pairs in {out}")
    if done.problems:
        raise typer.Exit(SOME_FAILED)
