"""The command `narrated-train retrieve`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from train.commands.options import Device, Json, SplitName, print_json

if TYPE_CHECKING:
    from models.papers.tirg import TIRG


def retrieve(
    *,
    candidates: Annotated[
        list[Path] | None, typer.Argument(help="Image files that may be the after frame; with --before.")
    ] = None,
    network: Annotated[
        Path, typer.Option(help="Retrieval network: the .tirg.safetensors beside a trained checkpoint.")
    ],
    before: Annotated[Path | None, typer.Option(help="Image file of the before frame.")] = None,
    sentence: Annotated[str | None, typer.Option(help="What changed, in plain English.")] = None,
    data: Annotated[Path | None, typer.Option(help="Or a folder of samples: recall@k is measured.")] = None,
    split: Annotated[SplitName, typer.Option(help="Split of --data.")] = SplitName.VAL,
    cache: Annotated[Path | None, typer.Option(help="Folder for computed features of --data.")] = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Rank candidate after frames by what a sentence says of a before frame, or measure recall@k."""
    from models.papers.tirg import load_tirg  # noqa: PLC0415
    from train.learning.retrieval import rank_images  # noqa: PLC0415

    if before and sentence and sentence.strip() and candidates and data is None:
        ranked = rank_images(load_tirg(network, device), before, sentence, candidates)
        rows = [{"image": str(path), "score": round(score, 4)} for path, score in ranked]
        lines = [f"{place}. {row['image']}  {row['score']:.4f}" for place, row in enumerate(rows, start=1)]
        typer.echo(json.dumps(rows, indent=1) if as_json else "\n".join(lines))
    elif data and not (before and sentence and candidates):
        _measure(load_tirg(network, device), data, split.value, cache, as_json=as_json)
    else:
        raise typer.BadParameter("give --before, --sentence and candidate images, or --data")


def _measure(trained: TIRG, data: Path, split: str, cache: Path | None, *, as_json: bool) -> None:
    """Say how often the right frame is among the first ones."""
    from pipeline.changes import ChangeOptions  # noqa: PLC0415
    from train.learning.batches import load_split  # noqa: PLC0415
    from train.learning.retrieval import checked_encoder, split_recall  # noqa: PLC0415

    encoder = checked_encoder(trained)
    changes = ChangeOptions.of(trained.record.get("changes", {}))
    cache = cache or data / ".features"
    loaded = load_split(data, split, encoder, changes, cache=cache, whole=True, masks=False)
    found = split_recall(trained, loaded)
    if as_json:
        print_json({**asdict(found), "chance_at_1": found.chance(1)})
        return
    at = ", ".join(
        f"recall@{k} {value:.3f} (chance {found.chance(k):.3f})"
        for k, value in ((1, found.at_1), (5, found.at_5), (10, found.at_10))
    )
    typer.echo(
        f"{found.pairs} pairs among {found.candidates} frames: {at}; median rank {found.median_rank:g}; the "
        f"before frame itself was preferred in {found.before:.3f}, in {found.before_otherwise:.3f} with "
        "another pair's sentence"
    )
    if found.sibling is not None:
        typer.echo(
            f"of pairs with one before frame, {found.sibling:.3f} find their own after frame rather than the "
            "other's (by chance .5)"
        )
