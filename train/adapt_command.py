"""The command `narrated-train adapt`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from train.recipe import TEST_FOOTAGE
from train.terminal import training_progress

if TYPE_CHECKING:
    from train.adapting import Adapted, AdaptOptions, Score


def adapt(
    *,
    clips: Annotated[
        Path, typer.Option(help="Folder of your clips; a subfolder is one camera, and one is enough.")
    ],
    teacher: Annotated[
        Path, typer.Option(help="YOLOX detector in ONNX format that labels the footage offline.")
    ],
    out: Annotated[Path, typer.Option(help="Checkpoint to write (.safetensors).")],
    checkpoint: Annotated[
        Path | None, typer.Option(help="Grounded checkpoint to begin with; by default the packaged one.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs to compose and learn from.")] = 600,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them.")] = 3,
    avoid: Annotated[
        Path | None,
        typer.Option(help="JSON Lines naming clips and seconds (a benchmark's): frames near are not used."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Pattern of file names never to use; repeat it. By default OpenCV's test clip."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and footage give the same checkpoint.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes for composing.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on standard output instead of lines.")
    ] = False,
) -> None:
    """Adapt a captioner to your own cameras, in minutes; keep the one of before where that is no better."""
    from train.adapting import AdaptOptions  # noqa: PLC0415 - footage is needed by few commands only
    from train.adapting import adapt as adapt_to_clips  # noqa: PLC0415

    options = AdaptOptions(
        clips=clips,
        teacher=teacher,
        out=out,
        checkpoint=checkpoint,
        pairs=pairs,
        epochs=epochs,
        avoid=avoid,
        exclude=tuple(exclude) if exclude else TEST_FOOTAGE,
        seed=seed,
        workers=workers,
    )
    with training_progress(_say) as telling:
        adapted = adapt_to_clips(options, command=_command(options), telling=telling)
    if adapted.better:
        _say(f"{out}: adapted ({adapted.share:.0%} of the change); try it with --captioner-file {out}")
    else:
        _say(f"{out}: no better on the held-out footage, so it is the checkpoint of before, unchanged")
    if as_json:
        typer.echo(json.dumps(adapted.plain(), indent=1))
    else:
        for line in _lines(adapted):
            typer.echo(line)


def _command(options: AdaptOptions) -> str:
    """The command line for the record, without anybody's paths."""
    named = (("--checkpoint", options.checkpoint), ("--avoid", options.avoid))
    return (
        f"narrated-train adapt --clips {options.clips.name} --teacher {options.teacher.name} "
        f"--out {options.out.name} --pairs {options.pairs} --epochs {options.epochs} --seed {options.seed}"
        + "".join(f" {flag} {path.name}" for flag, path in named if path is not None)
        + "".join(f" --exclude '{p}'" for p in options.exclude if options.exclude != TEST_FOOTAGE)
    )


def _lines(adapted: Adapted) -> list[str]:
    def told(score: Score) -> str:
        return (
            f"{score.right} sentences right, {score.wrong} wrong; "
            f"{score.found} of {score.changes} changes told rightly (F1 {score.f1:.3f})"
        )

    return [
        "On the last quarter of the footage, from which nothing was learnt:",
        f"  before: {told(adapted.before)}",
        f"  adapted: {told(adapted.after)}",
    ]


def _say(line: str) -> None:
    typer.echo(f"narrated-train: {line}", err=True)
