"""The command `narrated-train`: footage in, samples and checkpoints out."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from models.checkpoint import CheckpointError
from train.adapt_command import adapt
from train.annotations import AnnotationError, folder_statistics
from train.compare_command import compare
from train.config import ConfigError, load_config
from train.dataset_commands import check, generate, prepare
from train.features import FeatureError
from train.loop import TrainError
from train.metrics.authority import MissingScorersError
from train.paper_commands import attend, negatives, retrieve
from train.runs import evaluate_on_folder, train_on_folder
from train.samples import SampleError, load_samples
from train.scenes import FootageError
from train.score_command import score
from train.tables import score_table, statistics_table, truth_lines
from train.teacher import TeacherError
from train.terminal import progress_counts, training_progress

if TYPE_CHECKING:
    from train.recipe import Recipe

SOME_FAILED, BAD_CONFIG = 3, 78

_EXPECTED = (
    AnnotationError,
    CheckpointError,
    FeatureError,
    FootageError,
    MissingScorersError,
    SampleError,
    TeacherError,
    TrainError,
)

app = typer.Typer(
    help="Make training samples from footage, train captioners on them, and measure how right they are.",
    epilog="Exit codes: 0 fine, 1 error, 2 usage, 3 finished but some input failed, 78 bad configuration.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output instead of tables.")]
_Cache = Annotated[
    Path | None,
    typer.Option(
        help="Folder for computed features (about 0.4 MB a pair). By default .features in the data folder."
    ),
]
_Device = Annotated[str, typer.Option(help="Torch device: cpu, cuda, cuda:1, ...")]
_Data = Annotated[
    Path,
    typer.Option(
        help="Folder of samples in the Spot-the-diff layout: <id>.png, <id>_2.png, train.json, val.json."
    ),
]


class Choice(StrEnum):
    """How `extract` chooses pairs."""

    CANDIDATE = "candidate"
    RANDOM = "random"


class SplitName(StrEnum):
    """A split."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


@app.command()
def extract(
    *,
    paths: Annotated[list[Path], typer.Argument(help="Video files or folders of stills, one camera each.")],
    out: Annotated[Path, typer.Option(help="Folder to make; it must not exist.")],
    pairs: Annotated[int, typer.Option(min=1, help="At most this many pairs of each video.")] = 50,
    mode: Annotated[
        Choice, typer.Option(help="random: as the paper drew them; candidate: as a live camera finds them.")
    ] = Choice.RANDOM,
    seed: Annotated[int, typer.Option(min=0, help="Of the random pairs.")] = 0,
    lower: Annotated[
        float | None, typer.Option(help="Lower L2 threshold, grey levels; by default calibrated per video.")
    ] = None,
    upper: Annotated[
        float | None, typer.Option(help="Upper L2 threshold, grey levels; needs --lower as well.")
    ] = None,
) -> None:
    """Write frame pairs of footage to a folder, for annotation or for `narrated describe --pairs`."""
    from pipeline.thresholds import PairThresholds  # noqa: PLC0415 - footage is needed by two commands only
    from train.extract import ExtractOptions  # noqa: PLC0415
    from train.extract import extract as extract_pairs  # noqa: PLC0415

    if (lower is None) != (upper is None):
        raise typer.BadParameter("give both --lower and --upper, or neither", param_hint="--lower")
    try:
        band = None if lower is None or upper is None else PairThresholds(lower, upper)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--lower, --upper") from error
    done = extract_pairs(paths, out, pairs, ExtractOptions(mode=mode.value, seed=seed, thresholds=band))
    for problem in done.problems:
        _say(problem)
    _say(f"{done.pairs} pairs in {out}")
    if done.problems:
        raise typer.Exit(SOME_FAILED)


_Avoid = Annotated[
    Path | None,
    typer.Option(help="JSON Lines naming clips and seconds (a benchmark's): frames near are not used."),
]
_Exclude = Annotated[
    list[str] | None,
    typer.Option(help="Pattern of file names never to use; repeat it. By default OpenCV's test clip."),
]
_RecipeFile = Annotated[
    Path | None,
    typer.Option(help="YAML of what is drawn otherwise than by default; keys: see train/recipe.py."),
]


@app.command()
def compose(
    *,
    clips: Annotated[Path, typer.Option(help="Folder of clips; a subfolder is one camera.")],
    teacher: Annotated[
        Path, typer.Option(help="YOLOX detector in ONNX format that labels the footage offline.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to make; it must not exist.")],
    pairs: Annotated[int, typer.Option(min=1, help="Training pairs.")] = 6000,
    val_pairs: Annotated[int, typer.Option(min=1, help="Validation pairs.")] = 600,
    val_camera: Annotated[
        list[str] | None,
        typer.Option(help="Camera held out for validation; repeat it. By default every sixth camera."),
    ] = None,
    avoid: _Avoid = None,
    avoid_s: Annotated[float, typer.Option(min=0, help="How near --avoid is, in seconds.")] = 2.0,
    exclude: _Exclude = None,
    recipe: _RecipeFile = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and footage give the same samples.")] = 1,
    variety: Annotated[str, typer.Option(help="How captions are worded: plain or people.")] = "plain",
    workers: Annotated[int, typer.Option(min=1, help="Processes; they do not change the samples.")] = 1,
) -> None:
    """Compose training and validation pairs with exact captions from unlabelled footage."""
    from train.compose import ComposeOptions  # noqa: PLC0415 - footage is needed by two commands only
    from train.compose import compose as compose_samples  # noqa: PLC0415
    from train.grammar import VARIETIES  # noqa: PLC0415
    from train.recipe import TEST_FOOTAGE  # noqa: PLC0415

    if variety not in VARIETIES:
        raise typer.BadParameter(f"one of {', '.join(VARIETIES)}", param_hint="--variety")
    options = ComposeOptions(
        clips=clips,
        teacher=teacher,
        out=out,
        pairs=pairs,
        val_pairs=val_pairs,
        val_cameras=tuple(val_camera or ()),
        avoid=avoid,
        avoid_s=avoid_s,
        exclude=tuple(exclude) if exclude else TEST_FOOTAGE,
        recipe=_recipe(recipe),
        seed=seed,
        variety=variety,
        workers=workers,
    )
    with progress_counts() as tell:
        report = compose_samples(options, tell)
    for note in report.notes:
        _say(note)
    kinds = ", ".join(f"{kind} {n}" for kind, n in report.kinds.items())
    _say(f"{report.pairs} pairs in {out}: {kinds}; validation cameras {', '.join(report.val_cameras)}")


def _recipe(path: Path | None) -> Recipe:
    from train import recipe  # noqa: PLC0415

    if path is None:
        return recipe.Recipe()
    try:
        return recipe.load_recipe(path)
    except ValueError as error:
        raise ConfigError(str(error)) from error


@app.command()
def train(
    *,
    data: _Data,
    out: Annotated[
        Path, typer.Option(help="Checkpoint to write (.safetensors); <out>.state lies beside it.")
    ],
    config: Annotated[
        Path, typer.Option(help="Training configuration, for example configs/train/ddla.yaml.")
    ],
    seed: Annotated[int | None, typer.Option(min=0, help="Of weights, order and dropout.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="At most this many.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Annotations in a batch.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of Adam, in the first epoch.")] = None,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many epochs without a better validation CIDEr.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run whose state lies beside --out.")
    ] = False,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(help="Camera of which nothing is trained on, neither as scene nor pasted; repeat it."),
    ] = None,
    cache: _Cache = None,
    device: _Device = "cpu",
    as_json: _Json = False,
) -> None:
    """Train a captioner; keep the epoch of the best validation CIDEr. Options here override the file."""
    settings = load_config(
        config, seed=seed, epochs=epochs, batch=batch, learning_rate=learning_rate, patience=patience
    )
    options = settings.train_options()
    command = (
        f"narrated-train train --data {data.name} --out {out.name} --config {config.name} "
        f"--seed {options.seed} --epochs {options.epochs} --batch {options.batch} "
        f"--learning-rate {options.learning_rate:g} --patience {options.patience}"
        + "".join(f" --leave-out {camera}" for camera in leave_out or ())
    )
    with training_progress(_say) as telling:
        trained, scores = train_on_folder(
            data,
            out,
            settings,
            cache=cache,
            resume=resume,
            device=device,
            command=command,
            leave_out=frozenset(leave_out or ()),
            telling=telling,
        )
    why = "no better for a while" if trained.stopped_early else "all epochs done"
    which = f"epoch {trained.best_epoch} of {len(trained.curves)}"
    _say(f"{out}: {which} ({why}), {trained.seconds:.1f} s an epoch")
    if as_json:
        curves = [point.plain() for point in trained.curves]
        _print_json({"best_epoch": trained.best_epoch, "curves": curves, "val": scores.plain()})
    else:
        Console().print(score_table(out.stem, scores), *truth_lines(scores), sep="\n", soft_wrap=True)


app.command()(adapt)
app.command()(retrieve)
app.command()(negatives)
app.command()(attend)
app.command()(generate)
app.command()(prepare)
app.command()(check)
app.command()(score)
app.command()(compare)


@app.command()
def evaluate(
    *,
    data: _Data,
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint that `narrated-train train` wrote.")],
    split: Annotated[SplitName, typer.Option(help="Split to measure on.")] = SplitName.VAL,
    cache: _Cache = None,
    device: _Device = "cpu",
    as_json: _Json = False,
) -> None:
    """Measure a checkpoint: text scores beside the trivial rows, and whether what it says is right."""
    with training_progress(_say) as telling:
        captioner, scores = evaluate_on_folder(
            data, checkpoint, split.value, cache=cache, device=device, telling=telling
        )
    if as_json:
        _print_json({"checkpoint": captioner.sha256, "split": split.value, **scores.plain()})
    else:
        Console().print(score_table(checkpoint.stem, scores), *truth_lines(scores), sep="\n", soft_wrap=True)


@app.command()
def gallery(
    *,
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint of the captioner.")],
    out: Annotated[Path, typer.Option(help="Page to write (.html), self-contained.")],
    data: Annotated[
        Path | None, typer.Option(help="Folder of samples whose changes are known: what is said is judged.")
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(help='Or your own pictures: JSON Lines of {"id", "before", "after"}, without truth.'),
    ] = None,
    split: Annotated[SplitName, typer.Option(help="Split of --data.")] = SplitName.VAL,
    camera: Annotated[list[str] | None, typer.Option(help="Only this camera; repeat it.")] = None,
    number: Annotated[int, typer.Option(min=1, help="Sentences to show.")] = 100,
    min_confidence: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Tell what is so sure; 0 shows what every threshold would give."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which ones.")] = 1,
    device: _Device = "cpu",
    as_json: _Json = False,
) -> None:
    """Show random sentences about unseen cameras on a page, with what is right and wrong in them."""
    from models import load_captioner  # noqa: PLC0415 - footage and pages are needed by few commands
    from models.captioner import DescribeOptions  # noqa: PLC0415
    from train.gallery import make_gallery, of_cameras, read_pairs  # noqa: PLC0415

    if (data is None) == (pairs is None):
        raise typer.BadParameter("give either --data or --pairs", param_hint="--data, --pairs")
    known = load_samples(data, split.value) if data else read_pairs(pairs) if pairs else []
    samples = of_cameras(known, camera or [])
    captioner = load_captioner(checkpoint, device)
    source = f"{data.name}, {split.value}" if data else pairs.name if pairs else ""
    with progress_counts() as tell:
        shown, figures = make_gallery(
            samples,
            captioner,
            out,
            source=source,
            truth=data is not None,
            number=number,
            seed=seed,
            options=None if min_confidence is None else DescribeOptions(min_confidence=min_confidence),
            progress=partial(tell, "pairs"),
        )
    _say(f"{out}: {shown} sentences")
    if as_json and figures:
        _print_json({"checkpoint": captioner.sha256, "split": split.value, **figures.plain()})


@app.command()
def stats(
    folder: Annotated[
        Path, typer.Argument(help="Folder with train.json, val.json or test.json; no images needed.")
    ],
    as_json: _Json = False,
) -> None:
    """Count annotations, sentences and words, beside the paper's Table 1."""
    rows = folder_statistics(folder)
    if as_json:
        _print_json({name: asdict(row) for name, row in rows.items()})
    else:
        Console().print(statistics_table(rows), soft_wrap=True)


def main() -> None:
    """Run the command line and exit with its code; see the epilog of ``--help``."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        app()
    except ConfigError as error:
        _fail(error, BAD_CONFIG)
    except _EXPECTED as error:
        _fail(error, 1)


def _fail(error: Exception, code: int) -> None:
    _say(" ".join(str(error).split()))
    sys.exit(code)


def _say(line: str) -> None:
    """One line on standard error; standard output is kept for results."""
    typer.echo(f"narrated-train: {line}", err=True)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=1))
