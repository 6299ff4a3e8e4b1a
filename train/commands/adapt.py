"""The command `narrated-train adapt`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from train.commands.options import Avoid, Json, Teacher, command_line, print_json, say
from train.commands.terminal import progress_counts

if TYPE_CHECKING:
    from train.footage.teachers import TeacherFile
    from train.grounded.adaptation import Adapted, AdaptOptions


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

    if (clips is None) == (feedback is None):
        raise typer.BadParameter("give one of --clips and --feedback", param_hint="--clips")
    if not teacher and labels is None:
        raise typer.BadParameter("give a detector, or label files with --labels", param_hint="--teacher")
    teachers = tuple(teacher_file(text) for text in teacher or ())
    if feedback is not None:
        footage, labels = _export_feedback(feedback, out, teachers)
        teachers = ()
    options = AdaptOptions(
        clips=clips or footage,
        teachers=teachers,
        out=out,
        checkpoint=checkpoint,
        labels=labels,
        steps=steps,
        rate=rate,
        avoid=avoid,
    )
    _follow(options, as_json=as_json)


def _export_feedback(feedback: Path, out: Path, teachers: tuple[TeacherFile, ...]) -> tuple[Path, Path]:
    """The folders of pictures and label files made of feedback."""
    from pipeline.feedback import FeedbackError  # noqa: PLC0415
    from pipeline.journal import JournalError  # noqa: PLC0415
    from train.checkpoints import TrainError  # noqa: PLC0415
    from train.footage.feedback import LABELS, PICTURES, export_labels  # noqa: PLC0415

    folder = out.with_suffix(".feedback")
    try:
        left_out = export_labels(feedback, teachers, folder)
    except (FeedbackError, JournalError) as error:
        raise TrainError(str(error)) from None
    for reason, count in left_out.items():
        say(f"{count} opinions are left out: {reason}")
    return folder / PICTURES, folder / LABELS


def _follow(options: AdaptOptions, *, as_json: bool) -> None:
    """Learn from footage as the teachers see it, and say what that gained."""
    from train.grounded.adaptation import adapt as adapted_to  # noqa: PLC0415

    with progress_counts() as tell:
        adapted = adapted_to(options, command=command_line(), progress=tell, note=say)
    if as_json:
        print_json(adapted.plain())
    else:
        for line in _lines(adapted):
            typer.echo(line)
    if adapted.sha256:
        say(f"{options.out}: adapted; try it with --captioner-file {options.out}")
    else:
        say(f"nothing is written to {options.out}: on the held-out footage it would be no better")


def _lines(adapted: Adapted) -> list[str]:
    lines = ["On the last quarter of the footage, from which nothing was learnt:"]
    for name, score in (("before", adapted.before), ("adapted", adapted.after)):
        lines.append(
            f"  {name}: objects found as the teachers do, AP50 {score.ap50:.3f}; "
            f"{score.right:.1%} of {score.observations} observations classified right"
        )
    gained = adapted.after.ap50 - adapted.before.ap50
    return [
        *lines,
        f"  gained: AP50 {gained:+.3f}, classified right {adapted.after.right - adapted.before.right:+.1%}",
    ]
