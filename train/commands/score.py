"""The command `narrated-train score`: caption files, checkpoints, and the annotations of a set."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from train.commands.options import SOME_FAILED, Json, print_json, say, training_progress

_COLUMNS = ("B-1", "B-2", "B-3", "B-4", "METE", "R-L", "CIDEr")

Plain = Mapping[str, Any]


def print_evaluation(name: str, found: Plain, trivial: Mapping[str, Plain]) -> None:
    """The figures of `train.papers.evaluation.Evaluation`, between the trivial rows."""
    rows = {f"{name}, single": found["single"], **trivial, f"{name}, multi (T given)": found["multi"]}
    print_scores(rows, found)


def print_scores(rows: Mapping[str, Plain], found: Plain) -> None:
    """Text scores of some rows, of the first one's groups, and whether the first one is right."""
    lines = [f"{'':32} " + " ".join(f"{column:>5}" for column in _COLUMNS)]
    for number, (name, scores) in enumerate(rows.items()):
        lines.append(_score_line(name, scores))
        if not number:
            lines += [_score_line(f"  {group}", own) for group, own in found["groups"].items()]
    (_, first), *others = rows.items()
    lines.append(f"{found['distinct']} different sentences about {first['pairs']} pairs")
    lines += _truth_lines(found["truth"], found["length_ratio"])
    if first.get("spice") is not None:
        lines.append(f"SPICE {first['spice']:.3f}")
    if found.get("perplexity") is not None:
        lines.append(f"perplexity {found['perplexity']:.2f}")
    if alignment := found.get("alignment"):
        lines.append(
            f"alignment precision {alignment['precision']:.3f} of {alignment['sentences']} sentences "
            f"(by chance {alignment['chance']:.3f})"
        )
    if without := found.get("without_clusters"):
        lines.append(f"{without} pairs without a cluster, and so without a caption")
    lines += [f'{name}: "{row["sentence"]}"' for name, row in others if row.get("sentence")]
    typer.echo("\n".join(lines))


def _score_line(name: str, scores: Plain) -> str:
    figures = (*scores["bleu"], scores.get("meteor"), scores["rouge_l"], scores["cider"])
    return f"{name[:32]:32} " + " ".join("    -" if x is None else f"{x:5.3f}" for x in figures)


def _truth_lines(truth: Plain, length_ratio: float) -> list[str]:
    shares = {name: "-" if value is None else f"{value:.3f}" for name, value in truth.items()}
    shown = [f"{name} {shares[name]}" for name in ("type", "polarity", "object", "place")]
    return [
        f"right, of {truth['pairs']} pairs with a change: {', '.join(shown[:2])},",
        f"  {', '.join(shown[2:])}, all three {shares['all']}",
        f"no change: precision {shares['no_change_precision']}, recall {shares['no_change_recall']}",
        f"LenRatio {length_ratio:.3f}",
    ]


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
    from train.papers.caption_files import annotation_statistics  # noqa: PLC0415
    from train.papers.datasets import incomplete_splits  # noqa: PLC0415

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
    from train.papers.training import evaluate_on_folder  # noqa: PLC0415

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
