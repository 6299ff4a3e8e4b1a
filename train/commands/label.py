"""The command `narrated-train label`."""

from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import SOME_FAILED, Avoid, Teacher, progress_counts, say


def label(
    *,
    clips: Annotated[Path, typer.Option(help="Folder of clips and stills; a subfolder is one camera.")],
    out: Annotated[Path, typer.Option(help="Output folder; an earlier run in it is resumed.")],
    teacher: Teacher = None,
    labels: Annotated[
        Path | None, typer.Option(help="Folder of label files CAMERA.jsonl.gz, in place of detectors.")
    ] = None,
    avoid: Avoid = None,
) -> None:
    """Label the frames of unlabelled footage by detectors; exit code 3 if some is unreadable."""
    from train.footage.labels import LabelOptions, label_frames  # noqa: PLC0415
    from train.footage.teachers import teacher_file  # noqa: PLC0415

    if not teacher and labels is None:
        raise typer.BadParameter("give a detector, or label files with --labels", param_hint="--teacher")
    teachers = tuple(teacher_file(text) for text in teacher or ())
    with progress_counts() as tell:
        report = label_frames(LabelOptions(clips, out, teachers, labels=labels, avoid=avoid), tell)
    for note in report.notes:
        say(note)
    say(f"{sum(report.frames.values())} new labelled frames in {out}, {len(report.frames)} cameras")
    if report.notes:
        raise typer.Exit(SOME_FAILED)
