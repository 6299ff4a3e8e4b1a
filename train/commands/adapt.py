"""The command `narrated-train adapt`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from train.commands.options import Avoid, Exclude, Json, Teacher, print_json, say
from train.commands.terminal import progress_counts

if TYPE_CHECKING:
    from train.grounded.adaptation import Adapted, AdaptOptions
    from train.grounded.lessons import Taught, Weighing


def adapt(
    *,
    clips: Annotated[
        Path | None,
        typer.Option(help="Folder of your footage; a subfolder is one camera, and one is enough."),
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option(help="What people said on the page (feedback.sqlite3), in place of footage."),
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Folder of the journals; by default that of the feedback.")
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(help="Folder of the pictures; by default evidence in or beside the journals'."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Checkpoint to write (.safetensors), if it is better.")],
    teacher: Teacher = None,
    labels: Annotated[
        Path | None, typer.Option(help="Folder of label files CAMERA.jsonl.gz, in place of teachers.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Grounded checkpoint to begin with; by default the packaged one.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Batches to learn from, 8 pictures each.")] = 300,
    rate: Annotated[float, typer.Option(min=0, help="Peak learning rate.")] = 5e-5,
    avoid: Avoid = None,
    exclude: Exclude = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random choices.")] = 1,
    as_json: Json = False,
) -> None:
    """Adapt a captioner to your own cameras; write it only where it is better on footage held out."""
    from train.footage.recipe import TEST_FOOTAGE  # noqa: PLC0415
    from train.footage.teachers import teacher_file  # noqa: PLC0415
    from train.grounded.adaptation import AdaptOptions  # noqa: PLC0415

    if feedback is not None:
        if clips is not None or teacher or labels is not None:
            raise typer.BadParameter("give it without footage and teachers", param_hint="--feedback")
        _teach(feedback, journal, evidence, out, checkpoint, as_json=as_json)
        return
    if clips is None:
        raise typer.BadParameter("give footage, or --feedback", param_hint="--clips")
    if not teacher and labels is None:
        raise typer.BadParameter("give a detector, or label files with --labels", param_hint="--teacher")
    options = AdaptOptions(
        clips=clips,
        teachers=tuple(teacher_file(text) for text in teacher or ()),
        out=out,
        checkpoint=checkpoint,
        labels=labels,
        steps=steps,
        rate=rate,
        avoid=avoid,
        exclude=tuple(exclude) if exclude else TEST_FOOTAGE,
        seed=seed,
    )
    _follow(options, as_json=as_json)


def _follow(options: AdaptOptions, *, as_json: bool) -> None:
    """Learn from footage as the teachers see it, and say what that gained."""
    from train.grounded.adaptation import adapt as adapted_to  # noqa: PLC0415

    with progress_counts() as tell:
        adapted = adapted_to(options, command=_command(options), progress=tell, note=say)
    if as_json:
        print_json(adapted.plain())
    else:
        for line in _lines(adapted):
            typer.echo(line)
    if adapted.sha256:
        say(f"{options.out}: adapted; try it with --captioner-file {options.out}")
    else:
        say(f"nothing is written to {options.out}: on the held-out footage it would be no better")


def _teach(
    feedback: Path,
    journal: Path | None,
    evidence: Path | None,
    out: Path,
    checkpoint: Path | None,
    *,
    as_json: bool,
) -> None:
    """Learn from corrections, and say what that gained."""
    from pipeline.feedback import FeedbackError  # noqa: PLC0415
    from pipeline.journal import JournalError  # noqa: PLC0415
    from train.grounded.lessons import teach  # noqa: PLC0415
    from train.grounded.remarks import Folders  # noqa: PLC0415
    from train.learning.run_state import TrainError  # noqa: PLC0415

    base = f" --checkpoint {checkpoint.name}" if checkpoint else ""
    command = f"narrated-train adapt --feedback {feedback.name} --out {out.name}{base}"
    try:
        taught = teach(Folders(feedback, journal, evidence), out, checkpoint, command)
    except (FeedbackError, JournalError) as error:
        raise TrainError(str(error)) from None
    if as_json:
        print_json(taught.plain())
    else:
        for line in _taught_lines(taught):
            typer.echo(line)
    if taught.sha256:
        say(f"{out}: adapted; name it in the configuration under captioner: checkpoint")
    else:
        say(f"nothing is written to {out}")


def _taught_lines(taught: Taught) -> list[str]:
    lines = [f"left out: {count} corrections: {reason}" for reason, count in taught.left_out.items()]
    for name, lesson in taught.cameras.items():
        lines.append(f"{name}: {lesson.corrections} corrections, {lesson.right} of them say it was right")
        if lesson.before and lesson.after and lesson.elsewhere_before and lesson.elsewhere_after:
            lines.append(f"  held out, a quarter at a time: {_change(lesson.before, lesson.after)}")
            lines.append(
                "  on the shipped validation pairs, had their cameras these weights: "
                f"{_change(lesson.elsewhere_before, lesson.elsewhere_after)}"
            )
        lines.append(
            f"  not learnt: {lesson.refused}" if lesson.refused else "  learnt, for this camera alone"
        )
    return lines or ["nobody has said anything that can be learnt from"]


def _change(before: Weighing, after: Weighing) -> str:
    return (
        f"{before.false:.1%} of what is told was wrong, {after.false:.1%} is; {after.kept:.1%} of what was "
        f"right is still told; log loss {before.loss:.3f} to {after.loss:.3f}"
    )


def _command(options: AdaptOptions) -> str:
    """The command line for the record, without anybody's paths."""
    from train.footage.recipe import TEST_FOOTAGE  # noqa: PLC0415

    named = (
        ("--checkpoint", options.checkpoint),
        ("--labels", options.labels),
        ("--avoid", options.avoid),
    )
    return (
        f"narrated-train adapt --clips {options.clips.name} --out {options.out.name}"
        + "".join(f" --teacher {teacher.path.name}" for teacher in options.teachers)
        + f" --steps {options.steps} --rate {options.rate:g} --seed {options.seed}"
        + "".join(f" {flag} {path.name}" for flag, path in named if path is not None)
        + "".join(f" --exclude '{p}'" for p in options.exclude if options.exclude != TEST_FOOTAGE)
    )


def _lines(adapted: Adapted) -> list[str]:
    lines = ["On the last quarter of the footage, from which nothing was learnt:"]
    for name, score in (("before", adapted.before), ("adapted", adapted.after)):
        lines.append(
            f"  {name}: objects found as the teachers do, AP50 {score.ap50:.3f}; "
            f"{score.right:.1%} of {score.ends} ends of changes judged right"
        )
    gained = adapted.after.ap50 - adapted.before.ap50
    return [
        *lines,
        f"  gained: AP50 {gained:+.3f}, judged right {adapted.after.right - adapted.before.right:+.1%}",
    ]
