"""The command `narrated-train train`: from samples, or, for the grounded captioner, from labelled frames."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from train.commands.options import Cache, Device, Json, print_json, say
from train.commands.tables import print_evaluation
from train.commands.terminal import training_progress

if TYPE_CHECKING:
    from train.learning.config import TrainConfig
    from train.learning.loop import Trained

_FRAMES = "frames.jsonl"

_Data = Annotated[
    Path,
    typer.Option(
        help="Folder of samples in the Spot-the-diff layout: <id>.png, <id>_2.png, train.json, val.json; or "
        "of labelled frames (frames.jsonl), from which the grounded captioner learns."
    ),
]
_Out = Annotated[
    Path,
    typer.Option(help="Checkpoint to write (.safetensors); <out>.state or <out>.run lies beside it."),
]
_Config = Annotated[Path, typer.Option(help="Training configuration, for example configs/train/ddla.yaml.")]
_Epochs = Annotated[int | None, typer.Option(min=1, help="At most this many.")]
_Batch = Annotated[int | None, typer.Option(min=1, help="Annotations in a batch.")]
_Rate = Annotated[float | None, typer.Option(help="Adam's learning rate in the first epoch.")]
_Patience = Annotated[
    int | None, typer.Option(min=1, help="Stop after this many epochs without a better validation CIDEr.")
]
_Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on with the run whose state lies beside --out; with frames, always."),
]
_LeaveOut = Annotated[
    list[str] | None,
    typer.Option(
        help="Camera to leave out of training, as a scene and as a source of pasted objects; may be repeated."
    ),
]
_Start = Annotated[
    Path | None,
    typer.Option(
        help="With frames: PicoDet-S (.onnx) or a grounded checkpoint whose detector training starts from; "
        "by default random weights."
    ),
]
_ValCamera = Annotated[
    list[str] | None,
    typer.Option(
        help="With frames: camera held out for validation; may be repeated. By default about every fifth."
    ),
]
_Reid = Annotated[
    Path | None,
    typer.Option(help="With frames: re-identification network of OpenVINO (.xml) that teaches the linker."),
]


@dataclass(frozen=True, slots=True)
class _Samples:
    """What is for training on samples alone."""

    data: Path
    out: Path
    config: Path
    cache: Path | None
    resume: bool
    device: str
    bf16: bool | None
    leave_out: frozenset[str]
    as_json: bool


def train(
    *,
    data: _Data,
    out: _Out,
    config: _Config,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of weights, order and dropout.")] = None,
    epochs: _Epochs = None,
    batch: _Batch = None,
    learning_rate: _Rate = None,
    patience: _Patience = None,
    resume: _Resume = False,
    leave_out: _LeaveOut = None,
    cache: Cache = None,
    start: _Start = None,
    val_camera: _ValCamera = None,
    reid: _Reid = None,
    device: Device = "cpu",
    bf16: Annotated[
        bool | None, typer.Option("--bf16/--no-bf16", help="Train in bfloat16; by default on a GPU.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a captioner; options here override the file."""
    from train.learning.config import load_config  # noqa: PLC0415

    given = {"epochs": epochs, "batch": batch, "learning_rate": learning_rate, "patience": patience}
    settings = load_config(config, seed=seed, **given)
    without = frozenset(leave_out or ())
    asked = _Samples(data, out, config, cache, resume, device, bf16, without, as_json)
    framed = {"--start": start, "--val-camera": val_camera, "--reid": reid}
    if settings.captioner == "grounded" and (data / _FRAMES).is_file():
        _refuse(
            "of samples, not of labelled frames", {f"--{k}".replace("_", "-"): v for k, v in given.items()}
        )
        _from_frames(asked, settings, start, tuple(val_camera or ()), reid)
    else:
        _refuse(f"of labelled frames: {data} has no {_FRAMES}, or the captioner is not grounded", framed)
        _from_samples(asked, settings)


def _refuse(of: str, options: dict[str, Any]) -> None:
    """An option that would silently do nothing is an error."""
    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"is for training {of}", param_hint=name)


def _from_frames(
    asked: _Samples,
    settings: TrainConfig,
    start: Path | None,
    val_cameras: tuple[str, ...],
    reid: Path | None,
) -> None:
    from train.grounded.chain import ChainRun, train_chain  # noqa: PLC0415
    from train.learning.config import build_encoder  # noqa: PLC0415

    seed = settings.training.seed
    named = [("--start", start), ("--reid", reid)]
    command = (
        f"narrated-train train --data {asked.data.name} --out {asked.out.name} --config {asked.config.name} "
        f"--seed {seed}"
        + "".join(f" {flag} {path.name}" for flag, path in named if path)
        + "".join(f" --val-camera {camera}" for camera in val_cameras)
        + "".join(f" --leave-out {camera}" for camera in sorted(asked.leave_out))
    )
    run = ChainRun(
        asked.data,
        asked.out,
        settings.learning,
        seed,
        asdict(settings.changes),
        start=start,
        val_cameras=val_cameras,
        leave_out=asked.leave_out,
        reid=reid,
        command=command,
        device=asked.device,
    )
    record = train_chain(run, build_encoder(settings), say)
    if asked.as_json:
        print_json({key: record[key] for key in ("validation", "calibration")})


def _from_samples(asked: _Samples, settings: TrainConfig) -> None:
    from train.learning.runs import train_on_folder  # noqa: PLC0415

    options = settings.training
    command = (
        f"narrated-train train --data {asked.data.name} --out {asked.out.name} --config {asked.config.name} "
        f"--seed {options.seed} --epochs {options.epochs} --batch {options.batch} "
        f"--learning-rate {options.learning_rate:g} --patience {options.patience}"
        + "".join(f" --leave-out {camera}" for camera in sorted(asked.leave_out))
    )
    with training_progress(say) as telling:
        trained, scores = train_on_folder(
            asked.data,
            asked.out,
            settings,
            cache=asked.cache,
            resume=asked.resume,
            device=asked.device,
            bf16=asked.bf16,
            command=command,
            leave_out=asked.leave_out,
            telling=telling,
        )
    say(f"{asked.out}: {_kept(trained)}; {trained.seconds:.1f} s an epoch")
    if asked.as_json:
        curves = [point.plain() for point in trained.curves]
        print_json({"best_epoch": trained.best_epoch, "curves": curves, "val": scores.plain()})
    else:
        print_evaluation(asked.out.stem, scores)


def _kept(trained: Trained) -> str:
    """How long was trained, and which epoch's weights the checkpoint has."""
    count, kept = len(trained.curves), trained.best_epoch
    ended = "stopped early, after" if trained.stopped_early else "trained for"
    return f"{ended} {count} {'epoch' if count == 1 else 'epochs'}; kept epoch {kept}, the " + (
        "last" if kept == count else "best"
    )
