"""The command `narrated-train generate`."""

from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import SOME_FAILED, progress_counts, say


def generate(
    *,
    out: Annotated[Path, typer.Option(help="Folder to make; it must not exist.")],
    pairs: Annotated[int, typer.Option(min=1, help="Pairs; drawn ones are shared 80:10:10.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and options give the same bytes.")] = 1,
    distractors: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of pairs in which only light, view or position changes."),
    ] = 0.3,
    crowded: Annotated[
        bool,
        typer.Option(
            "--crowded",
            help="Similar objects, one of which changes: only the end of the caption distinguishes it.",
        ),
    ] = False,
    frames: Annotated[
        Path | None,
        typer.Option(help="Folder of labelled frames (`label`): pairs of real footage with captions."),
    ] = None,
    footage: Annotated[
        list[Path] | None,
        typer.Option(
            help="Video file or folder of stills; may be repeated: random pairs between two L2 thresholds, "
            "as Spot-the-diff drew them, for people to annotate."
        ),
    ] = None,
) -> None:
    """Make frame pairs: synthetic ones with exact captions, or pairs of real footage."""
    if frames and footage:
        raise typer.BadParameter("give one of --frames and --footage", param_hint="--frames")
    if footage:
        _bare_pairs(footage, out, pairs, seed)
        return
    if frames:
        from train.papers.footage_pairs import write_footage_pairs  # noqa: PLC0415

        with progress_counts() as tell:
            written = write_footage_pairs(frames, out, pairs, seed, tell)
        say(f"{out}: {', '.join(f'{split} {n}' for split, n in written.items())}")
        return
    from train.papers.generated.folder import GenerateOptions  # noqa: PLC0415
    from train.papers.generated.folder import generate as generate_pairs  # noqa: PLC0415

    try:
        options = GenerateOptions(pairs, seed, distractors=distractors, crowded=crowded)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--pairs") from None
    with progress_counts() as tell:
        report = generate_pairs(options, out, tell)
    say(
        f"{out}: "
        + "; ".join(", ".join(f"{name} {n}" for name, n in part.items()) for part in report.values())
    )


def _bare_pairs(footage: list[Path], out: Path, pairs: int, seed: int) -> None:
    """Pairs without captions; exit code 3 where a video gives fewer or cannot be read."""
    from train.papers.footage_pairs import extract  # noqa: PLC0415

    written, problems = extract(footage, out, pairs, seed)
    for problem in problems:
        say(problem)
    say(f"{written} pairs in {out}")
    if problems:
        raise typer.Exit(SOME_FAILED)
