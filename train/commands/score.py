"""The command `narrated-train score`: caption files, checkpoints, and the annotations of a set."""

from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import SOME_FAILED, Json, print_json, say, training_progress
from train.commands.tables import print_evaluation, print_scores

_TIRG = ".tirg.safetensors"


def score(
    references: Annotated[
        Path,
        typer.Argument(
            help='Reference captions: {"annotations": [{"image_id", "caption"}]}, that list alone, or '
            '[{"img_id", "sentences"}]; captions of one id are merged. Or a folder of pairs.'
        ),
    ],
    predictions: Annotated[
        Path | None,
        typer.Argument(
            help="Predicted captions, one per id, in the same forms. With a folder: a checkpoint, which is "
            "measured on its test split (else val); without it the folder's annotations are counted and "
            "checked."
        ),
    ] = None,
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
    as_json: Json = False,
) -> None:
    """Score captions or a checkpoint beside trivial baselines, or count a dataset's annotations."""
    if predictions is None:
        _count(references, as_json=as_json)
    elif not references.is_dir():
        from train.papers.caption_files import score_files  # noqa: PLC0415

        found = score_files(references, predictions, training=train, types=types)
        for note in found["notes"]:
            say(note)
        print_json(found) if as_json else print_scores(found["rows"], found)
    elif predictions.name.endswith(_TIRG):
        _measure_retrieval(references, predictions)
    else:
        _measure(references, predictions, as_json=as_json)


def _count(folder: Path, *, as_json: bool) -> None:
    """Table 1 of a set, and what of it is missing; exit code 3 if anything is."""
    from train.papers.datasets import incomplete_splits  # noqa: PLC0415
    from train.papers.metrics.annotations import annotation_statistics  # noqa: PLC0415

    table = annotation_statistics(folder)
    if as_json:
        print_json(table.astype(object).where(table.notna(), None).to_dict())
    else:
        typer.echo(table.to_string(float_format=lambda x: f"{x:,.2f}".removesuffix(".00"), na_rep="-"))
    lacking = incomplete_splits(folder)
    for line in lacking:
        say(line)
    if lacking:
        raise typer.Exit(SOME_FAILED)


def _measure(folder: Path, checkpoint: Path, *, as_json: bool) -> None:
    from train.papers.datasets import has_split  # noqa: PLC0415
    from train.papers.runs import evaluate_on_folder  # noqa: PLC0415

    split = "test" if has_split(folder, "test") else "val"
    with training_progress() as listeners:
        captioner, result, trivial = evaluate_on_folder(folder, checkpoint, split, listeners=listeners)
    found = result.figures
    if as_json:
        print_json({"checkpoint": captioner.sha256, "split": split, **found, "trivial": trivial})
    else:
        print_evaluation(f"{checkpoint.stem}, {split}", found, trivial)


def _measure_retrieval(folder: Path, network: Path) -> None:
    """Recall of a retrieval network, the auxiliary task of Hosseinzadeh and Wang."""
    from models.papers.captioner import Sees  # noqa: PLC0415
    from models.papers.tirg import load_tirg  # noqa: PLC0415
    from pipeline.changes import ChangeOptions  # noqa: PLC0415
    from train.papers.batches import load_split  # noqa: PLC0415
    from train.papers.datasets import has_split  # noqa: PLC0415
    from train.papers.objectives.joint import encoder_of, split_recall  # noqa: PLC0415

    trained = load_tirg(network)
    changes = ChangeOptions.of(trained.record.get("changes", {}))
    name = "test" if has_split(folder, "test") else "val"
    split = load_split(folder, name, encoder_of(trained), changes, sees=Sees(whole=True, masks=False))
    print_json(split_recall(trained, split))
