"""The command `narrated-train adapt`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from train.commands.options import Avoid, Json, Teacher, command_line, print_json, progress_counts, say

if TYPE_CHECKING:
    from train.grounded.adaptation import Adapted


def adapt(
    *,
    clips: Annotated[
        Path | None,
        typer.Option(help="Folder of your footage; a subfolder is one camera, and one is enough."),
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option(help="feedback.sqlite3 of the page, in place of footage; teachers label the rest."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Checkpoint to write (.safetensors), if it is better.")],
    teacher: Teacher = None,
    labels: Annotated[
        Path | None, typer.Option(help="Folder of label files CAMERA.jsonl.gz, in place of teachers.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Grounded checkpoint to begin with; by default the packaged one.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Training steps of 8 pictures each.")] = 300,
    rate: Annotated[float, typer.Option(min=0, help="Peak learning rate.")] = 5e-5,
    avoid: Avoid = None,
    as_json: Json = False,
) -> None:
    """Fine-tune a captioner on your own cameras; write it only if it is better on held-out footage."""
    from train.footage.teachers import teacher_file  # noqa: PLC0415
    from train.grounded.adaptation import AdaptOptions  # noqa: PLC0415
    from train.grounded.adaptation import adapt as adapt_captioner  # noqa: PLC0415

    if (clips is None) == (feedback is None):
        raise typer.BadParameter("give one of --clips and --feedback", param_hint="--clips")
    if not teacher and labels is None:
        raise typer.BadParameter("give a detector, or label files with --labels", param_hint="--teacher")
    teachers = tuple(teacher_file(text) for text in teacher or ())
    if feedback is not None:
        from train.footage.feedback import LABELS, PICTURES, export_labels  # noqa: PLC0415

        folder = out.with_suffix(".feedback")
        for reason, count in export_labels(feedback, teachers, folder).items():
            say(f"{count} opinions are left out: {reason}")
        clips, labels, teachers = folder / PICTURES, folder / LABELS, ()
    assert clips is not None  # noqa: S101 - or feedback
    options = AdaptOptions(clips, teachers, out, checkpoint, labels, steps=steps, rate=rate, avoid=avoid)
    with progress_counts() as tell:
        adapted = adapt_captioner(options, command=command_line(), progress=tell, note=say)
    if as_json:
        print_json(asdict(adapted))
    else:
        _print_gain(adapted)
    if adapted.sha256:
        say(f"{out}: adapted; try it with --captioner {out}")
    else:
        say(f"nothing is written to {out}: on the held-out footage it would be no better")


def _print_gain(adapted: Adapted) -> None:
    before, after = adapted.before, adapted.after
    typer.echo("On the last quarter of the footage, from which nothing was learnt:")
    for name, score in (("before", before), ("adapted", after)):
        typer.echo(
            f"  {name}: objects found as the teachers do, AP50 {score.ap50:.3f}; "
            f"{score.right:.1%} of {score.observations} observations classified right"
        )
    gained = after.ap50 - before.ap50
    typer.echo(f"  gained: AP50 {gained:+.3f}, classified right {after.right - before.right:+.1%}")
