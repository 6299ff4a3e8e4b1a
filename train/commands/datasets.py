"""The commands on sets of pairs: `narrated-train generate`, `check` and `prepare`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

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
    cameras: Annotated[int, typer.Option(min=3, help="Fixed views, those of a split in no other.")] = 60,
    balanced: Annotated[
        bool,
        typer.Option(
            "--balanced",
            help="One change a pair and all types equally often, as in CLEVR-Change; else as told.",
        ),
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes; they do not change the pairs.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on standard output instead of a line.")
    ] = False,
) -> None:
    """Draw a benchmark of surveillance-like pairs with exact captions and clusters; it needs no footage."""
    from train.papers.generated import GenerateOptions, StageOptions  # noqa: PLC0415 - needed by this command only
    from train.papers.generated import generate as generate_pairs  # noqa: PLC0415

    options = GenerateOptions(
        pairs, seed, size, annotators, distractors, cameras, StageOptions(balanced=balanced)
    )
    with progress_counts() as tell:
        report = generate_pairs(options, out, workers, tell)
    if as_json:
        typer.echo(json.dumps({**asdict(report), "out": str(out)}, indent=1))
        return
    splits = ", ".join(f"{split} {n}" for split, n in report.pairs.items())
    kinds = ", ".join(f"{kind} {n}" for kind, n in report.kinds.items())
    types = ", ".join(f"{kind} {n}" for kind, n in report.types.items())
    typer.echo(f"narrated-train: {out}: {splits}; {kinds}; changes {types}", err=True)


def check(
    folder: Annotated[
        Path,
        typer.Argument(help="Spot-the-diff, CLEVR-Change, Birds-to-Words, CUB, NABirds, or pairs of ours."),
    ],
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only look whether images are there; do not open them.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on standard output instead of a table.")
    ] = False,
) -> None:
    """Say whether a set is whole: its files, its images, as many as were released; exit code 3 if not."""
    from train.papers.datasets import check as check_set  # noqa: PLC0415 - needed by this command only

    with progress_counts() as tell:
        layout, findings = check_set(folder, decode=not quick, progress=tell)
    if as_json:
        typer.echo(json.dumps({"set": layout, "parts": [asdict(f) for f in findings]}, indent=1))
    else:
        table = Table("part", "items", "released", "images", "missing", "broken", box=box.SIMPLE_HEAD)
        for f in findings:
            released = "any" if f.expected is None else f"{f.expected:,}"
            cells = (f"{f.items:,}", released, f"{f.images:,}", f"{f.missing:,}", f"{f.broken:,}")
            table.add_row(f.part, *cells)
        Console().print(f"{folder}: {layout}", table, sep="\n", soft_wrap=True)
    for finding in findings:
        if not finding.whole:
            typer.echo(f"narrated-train: {finding.part}: {finding.problem}", err=True)
    if not all(finding.whole for finding in findings):
        raise typer.Exit(_NOT_WHOLE)


_NOT_WHOLE = 3


def prepare(
    folder: Annotated[
        Path, typer.Argument(help="CLEVR-Change, Birds-to-Words, CUB, NABirds or Spot-the-diff, as released.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder to make; it must not exist.")],
) -> None:
    """Write a released set's annotations as the other commands read them; its images stay where they are."""
    from train.papers.datasets import prepare as prepare_set  # noqa: PLC0415 - needed by this command only

    written = ", ".join(f"{name} {n}" for name, n in prepare_set(folder, out).items())
    typer.echo(f"narrated-train: {out}: {written}", err=True)
