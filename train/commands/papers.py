"""The commands of single papers: `narrated-train retrieve`, `negatives` and `attend`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from train.samples import SPLITS, SampleError, load_samples, write_image

_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output instead of lines.")]


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
    split: Annotated[str, typer.Option(help="Split of --data.")] = "val",
    cache: Annotated[Path | None, typer.Option(help="Folder for computed features of --data.")] = None,
    device: Annotated[str, typer.Option(help="Torch device: cpu, cuda, cuda:1, ...")] = "cpu",
    as_json: _AsJson = False,
) -> None:
    """Rank candidate after frames by what a sentence says of a before frame, or measure recall@k."""
    from models.papers.tirg import load_tirg  # noqa: PLC0415 - weights are needed by this command only
    from pipeline.changes import ChangeOptions  # noqa: PLC0415
    from train.learning.batches import load_split  # noqa: PLC0415
    from train.learning.retrieval import checked_encoder, rank_images, split_recall  # noqa: PLC0415

    asked = bool(before and sentence and sentence.strip() and candidates)
    if asked == (data is not None):
        raise typer.BadParameter("give --before, --sentence and candidate images, or --data")
    trained = load_tirg(network, device)
    if data is None:
        assert before is not None  # noqa: S101 - asked
        ranked = rank_images(trained, before, str(sentence), candidates or [])
        rows = [{"image": str(path), "score": round(score, 4)} for path, score in ranked]
        lines = [f"{place}. {row['image']}  {row['score']:.4f}" for place, row in enumerate(rows, start=1)]
        typer.echo(json.dumps(rows, indent=1) if as_json else "\n".join(lines))
        return
    if split not in SPLITS:
        raise typer.BadParameter(f"one of {', '.join(SPLITS)}", param_hint="--split")
    encoder = checked_encoder(trained)
    changes = ChangeOptions.of(trained.record.get("changes", {}))
    loaded = load_split(data, split, encoder, changes, cache=cache or data / ".features", whole=True)
    found = split_recall(trained, loaded)
    if as_json:
        typer.echo(json.dumps({**asdict(found), "chance_at_1": found.chance(1)}, indent=1))
        return
    at = ", ".join(
        f"recall@{k} {value:.3f} (chance {found.chance(k):.3f})"
        for k, value in ((1, found.at_1), (5, found.at_5), (10, found.at_10))
    )
    typer.echo(
        f"{found.pairs} pairs among {found.candidates} frames: {at}; median rank {found.median_rank:g}; the "
        f"before frame itself was preferred in {found.before:.3f}"
    )


def negatives(
    *,
    data: Annotated[
        Path, typer.Option(help="Folder with train.json, val.json or test.json; no images needed.")
    ],
    split: Annotated[str, typer.Option(help="Split whose captions are rewritten.")] = "train",
    each: Annotated[
        int, typer.Option(min=1, help="False captions of every way: confuse, replace, retrieve.")
    ] = 2,
    number: Annotated[int | None, typer.Option(min=1, help="Only so many captions.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same captions.")] = 0,
) -> None:
    """Rewrite true captions into false ones that look like them (IDC-PCL), as JSON lines."""
    from train.learning.objectives.rewriter import Rewriter  # noqa: PLC0415 - needed by this command only

    if split not in SPLITS:
        raise typer.BadParameter(f"one of {', '.join(SPLITS)}", param_hint="--split")
    samples = load_samples(data, split, require_images=False)
    told = [tuple(s for said in sample.annotations for s in said) for sample in samples]
    try:
        rewriter, rng = Rewriter(told), np.random.default_rng(seed)
    except ValueError as error:
        raise SampleError(f"{data / split}.json: {error}") from error
    every = [
        (sample.id, caption, said) for sample, said in zip(samples, told, strict=True) for caption in said
    ]
    for name, caption, said in every[:number]:
        made = rewriter.negatives(caption, rng, each, said)
        row = {"img_id": name, "caption": caption, "negatives": [asdict(n) for n in made]}
        typer.echo(json.dumps(row))


def attend(
    *,
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint of an idc-pcl captioner.")],
    before: Annotated[Path, typer.Option(help="Image file of the before frame.")],
    after: Annotated[Path, typer.Option(help="Image file of the after frame.")],
    out: Annotated[Path, typer.Option(help="Picture to write (.png).")],
    sentence: Annotated[
        str | None, typer.Option(help="What is said; by default what it says itself.")
    ] = None,
    device: Annotated[str, typer.Option(help="Torch device: cpu, cuda, cuda:1, ...")] = "cpu",
) -> None:
    """Draw where a captioner looks in both frames while it says each word."""
    from models import load_captioner  # noqa: PLC0415 - weights are needed by this command only
    from train.papers.attention_pictures import attention_picture  # noqa: PLC0415

    said, picture = attention_picture(load_captioner(checkpoint, device), before, after, sentence)
    write_image(out, picture)
    typer.echo(f"narrated-train: {out}: {said}", err=True)
