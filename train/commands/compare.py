"""The command `narrated-train compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from train.commands.options import Device, say, training_progress

if TYPE_CHECKING:
    from train.papers.suites import FolderName


SuiteName = Literal[
    "spot-the-diff", "clevr-change", "idc-pcl", "spot-it", "spot-the-diff-auxiliary", "birds-to-words"
]


def compare(
    *,
    suite: Annotated[SuiteName, typer.Option(help="The paper whose tables are filled.")],
    data: Annotated[
        Path,
        typer.Option(help="Pairs with a training and a validation split; measured on test if there is one."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of runs and tables; an earlier run in it is resumed.")],
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Runs of every row; with another number than the suite's own there are no verdicts."
        ),
    ] = None,
    size: Annotated[
        Literal["small", "full"],
        typer.Option(help="small: minutes on a CPU, the same architectures; full: as in the papers."),
    ] = "small",
    row: Annotated[list[str] | None, typer.Option(help="Only this row; may be repeated.")] = None,
    folder: Annotated[
        list[str] | None,
        typer.Option(help="birds-to-words: single_images=CUB or classes=NABIRDS; may be repeated."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="At most this many, of training and of pre-training.")
    ] = None,
    pairs: Annotated[int | None, typer.Option(min=2, help="Learn from this many training pairs.")] = None,
    device: Device = "cpu",
    workers: Annotated[int, typer.Option(min=1, help="Runs side by side; they do not change results.")] = 1,
) -> None:
    """Train all systems of a paper's tables, and write the tables; resumable."""
    from train.papers.comparison import CompareOptions, page  # noqa: PLC0415 - loads torch
    from train.papers.comparison import compare as compare_rows  # noqa: PLC0415

    options = CompareOptions(
        suite=suite,
        data=data,
        out=out,
        seeds=seeds,
        size=size,
        rows=tuple(row or ()),
        folders=_folders(folder or []),
        epochs=epochs,
        pairs=pairs,
        device=device,
        workers=workers,
    )
    with training_progress() as listeners:
        report = compare_rows(options, listeners)
    typer.echo(page(report), nl=False)
    say(f"{out / suite}.md, {out / suite}.json")


def _folders(given: list[str]) -> dict[FolderName, Path]:
    folders = {}
    for text in given:
        name, _, path = text.partition("=")
        if name not in ("single_images", "classes") or not path:
            raise typer.BadParameter(
                f"{text!r} is not single_images=PATH or classes=PATH", param_hint="--folder"
            )
        folders[cast("FolderName", name)] = Path(path)
    return folders
