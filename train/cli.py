"""The command `narrated-train`: footage in, samples and checkpoints out."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.checkpoint import CheckpointError
from train.commands.adapt import adapt
from train.commands.compare import compare
from train.commands.compose import SOME_FAILED, compose
from train.commands.datasets import check, generate, prepare
from train.commands.papers import attend, negatives, retrieve
from train.commands.score import score
from train.commands.tables import score_table, statistics_table, truth_lines
from train.commands.terminal import progress_counts, training_progress
from train.commands.train import train
from train.footage.scenes import FootageError
from train.footage.teachers import TeacherError
from train.grounded.start import StartError
from train.learning.config import ConfigError
from train.learning.features import FeatureError
from train.learning.loop import TrainError
from train.learning.runs import evaluate_on_folder
from train.metrics.annotations import AnnotationError, folder_statistics
from train.metrics.authority import MissingScorersError
from train.samples import SampleError, load_samples

BAD_CONFIG = 78

_EXPECTED = (
    AnnotationError,
    CheckpointError,
    FeatureError,
    FootageError,
    MissingScorersError,
    SampleError,
    StartError,
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
    from train.footage.extraction import ExtractOptions  # noqa: PLC0415
    from train.footage.extraction import extract as extract_pairs  # noqa: PLC0415

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


app.command()(compose)
app.command()(train)
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
    from train.gallery.page import make_gallery, of_cameras, read_pairs  # noqa: PLC0415

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
