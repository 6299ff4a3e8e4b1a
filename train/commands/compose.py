"""The command `narrated-train compose`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from train.commands.options import SOME_FAILED, Avoid, Exclude, Ray, Teacher, say
from train.commands.terminal import progress_counts

if TYPE_CHECKING:
    from train.footage.labels import LabelOptions
    from train.footage.recipe import ComposeOptions, Recipe

_Recipe = Annotated[
    Path | None,
    typer.Option(help="YAML that overrides how samples are drawn; keys: see train/footage/recipe.py."),
]
_Labels = Annotated[
    Path | None,
    typer.Option(help="Folder of label files CAMERA.jsonl.gz, in place of the teachers for frames."),
]
_ValCamera = Annotated[
    list[str] | None,
    typer.Option(help="Camera held out for validation; may be repeated. By default every sixth camera."),
]
_FramesOnly = Annotated[
    bool, typer.Option("--frames-only", help="Write labelled frames, no pairs with captions.")
]
_PairsOnly = Annotated[
    bool, typer.Option("--pairs-only", help="Write pairs with captions, no labelled frames.")
]
_Out = Annotated[
    Path, typer.Option(help="Folder to make; labelled frames that an earlier run left in it are kept.")
]


class Variety(StrEnum):
    """How captions are worded."""

    PLAIN = "plain"
    PEOPLE = "people"


def compose(
    *,
    clips: Annotated[Path, typer.Option(help="Folder of clips and stills; a subfolder is one camera.")],
    out: _Out,
    teacher: Teacher = None,
    labels: _Labels = None,
    frames_only: _FramesOnly = False,
    pairs_only: _PairsOnly = False,
    pairs: Annotated[int, typer.Option(min=1, help="Training pairs.")] = 6000,
    val_pairs: Annotated[int, typer.Option(min=1, help="Validation pairs.")] = 600,
    val_camera: _ValCamera = None,
    avoid: Avoid = None,
    avoid_s: Annotated[float, typer.Option(min=0, help="How near --avoid is, in seconds.")] = 2.0,
    exclude: Exclude = None,
    recipe: _Recipe = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and footage give the same samples.")] = 1,
    variety: Annotated[Variety, typer.Option(help="How captions are worded.")] = Variety.PLAIN,
    workers: Annotated[int, typer.Option(min=1, help="Processes; they do not change the samples.")] = 1,
    ray: Ray = None,
) -> None:
    """Turn unlabelled footage into labelled frames, and into pairs with exact captions."""
    from train.footage.recipe import TEST_FOOTAGE, ComposeOptions  # noqa: PLC0415
    from train.footage.teachers import teacher_file  # noqa: PLC0415

    if frames_only and pairs_only:
        raise typer.BadParameter("leaves nothing to write", param_hint="--frames-only, --pairs-only")
    if not teacher and (labels is None or not frames_only):
        raise typer.BadParameter(
            "give a detector; only --frames-only --labels needs none", param_hint="--teacher"
        )
    options = ComposeOptions(
        clips=clips,
        teachers=tuple(teacher_file(text) for text in teacher or ()),
        out=out,
        pairs=pairs,
        val_pairs=val_pairs,
        val_cameras=tuple(val_camera or ()),
        avoid=avoid,
        avoid_s=avoid_s,
        exclude=tuple(exclude) if exclude else TEST_FOOTAGE,
        recipe=_recipe(recipe),
        seed=seed,
        variety=variety.value,
        workers=workers,
        ray=ray,
        frames=not pairs_only,
        labels=labels,
    )
    if _frames(options) if frames_only else _pairs(options):
        raise typer.Exit(SOME_FAILED)


def _frames(options: ComposeOptions) -> tuple[str, ...]:
    """Write labelled frames alone; returns what was left out."""
    from train.compose.composition import label_options  # noqa: PLC0415
    from train.footage.labels import label_frames  # noqa: PLC0415

    asked: LabelOptions = label_options(options)
    with progress_counts() as tell:
        report = label_frames(asked, tell)
    for note in report.notes:
        say(note)
    new = sum(report.frames.values())
    say(f"{new} new labelled frames in {options.out}, {len(report.frames)} cameras")
    return report.notes


def _pairs(options: ComposeOptions) -> tuple[str, ...]:
    """Write pairs and labelled frames; returns nothing, since a clip left out was always only a note."""
    from train.compose.composition import compose as compose_samples  # noqa: PLC0415

    with progress_counts() as tell:
        report = compose_samples(options, tell)
    for note in report.notes:
        say(note)
    kinds = ", ".join(f"{kind} {n}" for kind, n in report.kinds.items())
    say(f"{report.pairs} pairs in {options.out}: {kinds}; validation cameras {', '.join(report.val_cameras)}")
    return ()


def _recipe(path: Path | None) -> Recipe:
    from train.footage import recipe  # noqa: PLC0415
    from train.learning.config import ConfigError  # noqa: PLC0415

    if path is None:
        return recipe.Recipe()
    try:
        return recipe.load_recipe(path)
    except ValueError as error:
        raise ConfigError(str(error)) from error
