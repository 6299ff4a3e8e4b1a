"""The command `narrated-train gallery`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import Device, Json, SplitName, print_json, say
from train.commands.terminal import progress_counts


def gallery(
    *,
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint of the captioner.")],
    out: Annotated[Path, typer.Option(help="Page to write (.html), self-contained.")],
    data: Annotated[
        Path | None, typer.Option(help="Folder of samples whose changes are known: what is said is judged.")
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(help='Or your own pictures: JSON Lines of {"id", "before", "after"}, without truth.'),
    ] = None,
    split: Annotated[SplitName, typer.Option(help="Split of --data.")] = SplitName.VAL,
    camera: Annotated[list[str] | None, typer.Option(help="Only this camera; may be repeated.")] = None,
    number: Annotated[int, typer.Option(min=1, help="Sentences to show.")] = 100,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Lowest confidence to report; 0 shows what every threshold would give."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which ones.")] = 1,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Show random sentences about unseen cameras on a page, with what is right and wrong in them."""
    from models import load_captioner  # noqa: PLC0415
    from models.captioner import DescribeOptions  # noqa: PLC0415
    from train.gallery.page import make_gallery, of_cameras, read_pairs  # noqa: PLC0415
    from train.samples import load_samples  # noqa: PLC0415

    if (data is None) == (pairs is None):
        raise typer.BadParameter("give either --data or --pairs", param_hint="--data, --pairs")
    known = load_samples(data, split.value) if data else read_pairs(pairs) if pairs else []
    captioner = load_captioner(checkpoint, device)
    source = f"{data.name}, {split.value}" if data else pairs.name if pairs else ""
    with progress_counts() as tell:
        shown, figures = make_gallery(
            of_cameras(known, camera or []),
            captioner,
            out,
            source=source,
            truth=data is not None,
            number=number,
            seed=seed,
            options=None if min_confidence is None else DescribeOptions(min_confidence=min_confidence),
            progress=partial(tell, "pairs"),
        )
    say(f"{out}: {shown} sentences")
    if as_json and figures:
        print_json({"checkpoint": captioner.sha256, "split": split.value, **figures.plain()})
