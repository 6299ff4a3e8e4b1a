"""The command `narrated-train train`: from samples, or, for the grounded captioner, from labelled frames."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from train.commands.options import Device, command_line, say, training_progress

_FRAMES = "frames.jsonl"


def train(
    *,
    data: Annotated[
        Path,
        typer.Option(
            help="Pairs in the layout of Spot-the-diff, CLEVR-Change or Birds-to-Words; labelled frames "
            "(frames.jsonl), from which the grounded captioner learns; or, with --reid, clips, from which "
            "the appearance embedding of the checkpoint --start learns."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="Checkpoint to write (.safetensors); <out>.state or <out>.run is made beside it."),
    ],
    config: Annotated[
        Path, typer.Option(help="Training configuration, for example configs/train/ddla.yaml.")
    ],
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of weights, order and dropout.")] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume the run whose state is beside --out; with frames, always."),
    ] = False,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="With frames: camera to leave out of training; may be repeated.")
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            help="With frames: PicoDet-S (.onnx) or a grounded checkpoint whose detector training starts "
            "from; by default random weights."
        ),
    ] = None,
    val_camera: Annotated[
        list[str] | None,
        typer.Option(
            help="With frames: camera held out for validation; may be repeated. By default about every fifth."
        ),
    ] = None,
    reid: Annotated[
        Path | None,
        typer.Option(
            help="person-reidentification-retail-0248 (.onnx), from which the appearance embedding starts; "
            "with frames also the feature embedding's teacher."
        ),
    ] = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="Labelled pairs (.jsonl) of clips in --data, to which the decisions about stills of the "
            "checkpoint --start are fitted; may be repeated."
        ),
    ] = None,
    device: Device = "cpu",
) -> None:
    """Train a captioner."""
    from train.papers.config import load_config  # noqa: PLC0415

    settings = load_config(config, seed=seed)
    command = command_line()
    held_out = tuple(val_camera or ())
    if settings.captioner == "grounded" and (data / _FRAMES).is_file():
        from train.grounded.chain import ChainRun, train_chain  # noqa: PLC0415

        run = ChainRun(
            data,
            out,
            settings.learning,
            settings.training.seed,
            asdict(settings.changes),
            start=start,
            val_cameras=held_out,
            leave_out=frozenset(leave_out or ()),
            reid=reid,
            command=command,
            device=device,
        )
        train_chain(run, say)
        return
    if settings.captioner == "grounded" and reid is not None:
        from train.grounded.appearance import EmbeddingOptions, add_embedding  # noqa: PLC0415

        steps, seed = settings.learning.embedding_steps, settings.training.seed
        options = EmbeddingOptions(steps=steps, seed=seed)
        add_embedding(data, out, reid, options, start=start, val_cameras=held_out, command=command, note=say)
        return
    if settings.captioner == "grounded" and labels and start is not None:
        from train.grounded.decisions import add_decisions  # noqa: PLC0415

        say(f"{out.name}: {add_decisions(start, labels, data, out, command)}")
        return
    framed = {"--labels": labels, "--start": start, "--val-camera": val_camera}
    for name, value in (framed | {"--reid": reid, "--leave-out": leave_out}).items():
        if value:  # an option that would silently do nothing is an error
            raise typer.BadParameter(
                f"is for labelled frames: {data} has no {_FRAMES}, or the captioner is not grounded",
                param_hint=name,
            )
    from train.commands.score import print_evaluation  # noqa: PLC0415
    from train.papers.training import train_on_folder  # noqa: PLC0415

    with training_progress() as listeners:
        trained, scores, trivial = train_on_folder(
            data, out, settings, resume=resume, device=device, command=command, listeners=listeners
        )
    ended = "stopped early after" if trained.stopped_early else "trained for"
    say(
        f"{out}: {ended} {len(trained.curves)} epochs, {trained.seconds:.1f} s each; "
        f"kept {trained.best_epoch}"
    )
    print_evaluation(out.stem, scores.figures, trivial)
