"""The command `narrated-train score`: any two caption files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from train.commands.options import Json, print_json, say
from train.commands.tables import truth_lines

if TYPE_CHECKING:
    from train.metrics.file_scores import FileScores


def score(
    references: Annotated[
        Path,
        typer.Argument(
            help='Reference captions: {"annotations": [{"image_id", "caption"}]}, that list alone, or '
            '[{"img_id", "sentences"}]; captions of one id are merged.'
        ),
    ],
    predictions: Annotated[Path, typer.Argument(help="Predicted captions, one per id, in the same forms.")],
    *,
    train: Annotated[
        Path | None,
        typer.Option(help="Training captions: the best constant and random captions are drawn from them."),
    ] = None,
    types: Annotated[
        Path | None,
        typer.Option(
            help='Types of change, {"move": ["000000.png", ...]}: scores of each; "<id>_n" is a distractor.'
        ),
    ] = None,
    with_meteor: Annotated[
        bool, typer.Option("--meteor/--no-meteor", help="Also compute METEOR (needs Java and a few seconds).")
    ] = True,
    spice_jars: Annotated[
        Path | None, typer.Option(help="Folder of the CoreNLP 3.6.0 jars: SPICE as well.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score any two caption files as the field does, the trivial rows beside them."""
    from train.metrics.file_scores import score_files  # noqa: PLC0415

    found = score_files(
        references, predictions, training=train, types=types, with_meteor=with_meteor, spice_jars=spice_jars
    )
    for note in found.notes:
        say(f"{note}")
    if as_json:
        print_json(found.plain())
    else:
        Console().print(_table(found), *_lines(found), sep="\n", soft_wrap=True)


def _table(found: FileScores) -> Table:
    from train.metrics.file_scores import Row  # noqa: PLC0415

    headings = ("BLEU-1", "-2", "-3", "-4", "METEOR", "ROUGE-L", "CIDEr-D", "pairs")
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("captions", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    groups = [Row(f"  {name}", "", scores) for name, scores in found.groups]
    for number, row in enumerate((found.rows[0], *groups, *found.rows[1:])):
        s = row.scores
        shown = [*(f"{x:.3f}" for x in s.bleu), "-" if row.meteor is None else f"{row.meteor:.3f}"]
        table.add_row(
            row.name,
            *shown,
            f"{s.rouge_l:.3f}",
            f"{s.cider:.3f}",
            str(s.pairs),
            style=None if number else "bold",
        )
    return table


def _lines(found: FileScores) -> list[str]:
    lines = truth_lines(found.truth, found.length_ratio)
    if found.spice is not None:
        lines.append(f"SPICE {found.spice:.3f}")
    return lines + [f'{row.name}: "{row.sentence}"' for row in found.rows if row.sentence]
