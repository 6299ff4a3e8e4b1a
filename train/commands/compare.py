"""The command `narrated-train compare`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.markdown import Markdown

from train.commands.options import Device, Json, Ray, say
from train.commands.terminal import training_progress

if TYPE_CHECKING:
    from train.papers.claims import Found
    from train.papers.comparison import CompareOptions, Shelf
    from train.papers.results import Result
    from train.papers.suites import FolderName, Suite
    from train.papers.tables import Report


class SuiteName(StrEnum):
    """A paper."""

    SPOT_THE_DIFF = "spot-the-diff"
    CLEVR_CHANGE = "clevr-change"
    IDC_PCL = "idc-pcl"
    SPOT_IT = "spot-it"
    SPOT_THE_DIFF_AUXILIARY = "spot-the-diff-auxiliary"
    BIRDS_TO_WORDS = "birds-to-words"


class Size(StrEnum):
    """How large captioners are."""

    SMALL = "small"
    FULL = "full"


def compare(
    *,
    suite: Annotated[SuiteName, typer.Option(help="The paper whose tables are filled.")],
    data: Annotated[
        Path,
        typer.Option(
            help="Folder of samples with train.json and val.json; measured on test.json if it has one."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of runs, tables and plots; run again, it goes on from what it finds there."
        ),
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Runs (seeds) of every row.")] = 3,
    size: Annotated[
        Size, typer.Option(help="small: minutes on a CPU, the same architectures; full: as in the papers.")
    ] = Size.SMALL,
    row: Annotated[list[str] | None, typer.Option(help="Only this row; may be repeated.")] = None,
    single_images: Annotated[
        Path | None, typer.Option(help="birds-to-words: folder of captioned single images (CUB).")
    ] = None,
    classes: Annotated[
        Path | None, typer.Option(help="birds-to-words: folder of images with classes (NABirds).")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="At most this many, of training and pre-training.")
    ] = None,
    pairs: Annotated[int | None, typer.Option(min=2, help="Learn from this many training pairs.")] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder for computed features. By default .features in the data folder."),
    ] = None,
    device: Device = "cpu",
    bf16: Annotated[
        bool | None, typer.Option("--bf16/--no-bf16", help="Train in bfloat16; by default on a GPU.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs side by side, by default as many as cores (with memory) or GPUs allow; they do not "
            "change the results.",
        ),
    ] = None,
    ray: Ray = None,
    with_meteor: Annotated[
        bool, typer.Option("--meteor/--no-meteor", help="Also compute METEOR (needs Java and half a minute).")
    ] = True,
    spice_jars: Annotated[
        Path | None, typer.Option(help="Folder of the CoreNLP 3.6.0 jars: SPICE as well.")
    ] = None,
    with_plots: Annotated[
        bool, typer.Option("--plots/--no-plots", help="Also draw plots (needs matplotlib).")
    ] = True,
    as_json: Json = False,
) -> None:
    """Train every system of a paper's tables alike, and write those tables: resumable, seed by seed."""
    from train.papers.comparison import CompareOptions  # noqa: PLC0415 - needed by this command only
    from train.papers.side_by_side import fitting_workers  # noqa: PLC0415

    options = CompareOptions(
        data=data,
        out=out,
        seeds=tuple(range(seeds)),
        size=size.value,
        rows=tuple(row or ()),
        folders=_given(single_images=single_images, classes=classes),
        epochs=epochs,
        pairs=pairs,
        cache=cache,
        device=device,
        bf16=bf16,
        workers=workers or fitting_workers(device),
        ray=ray,
    )
    stem = out / suite.value
    for note in _compared(suite.value, options, stem, (with_meteor, spice_jars), plots=with_plots):
        say(note)
    if as_json:
        typer.echo(stem.with_suffix(".json").read_text(encoding="utf-8"), nl=False)
    else:
        Console().print(Markdown(stem.with_suffix(".md").read_text(encoding="utf-8")), soft_wrap=True)
    say(f"{stem}.md, {stem}.json")


def _compared(
    suite: str, options: CompareOptions, stem: Path, authority: tuple[bool, Path | None], *, plots: bool
) -> tuple[str, ...]:
    """Train all rows, and write the tables anew after every seed; the last report's notes."""
    from train.papers.comparison import rows_left_out  # noqa: PLC0415
    from train.papers.side_by_side import compare_rows  # noqa: PLC0415
    from train.papers.suites import SUITES  # noqa: PLC0415

    paper = SUITES[suite]()
    notes: tuple[str, ...] = ()
    for line in rows_left_out(paper, options):
        say(line)
    with training_progress(say, epochs=False) as telling:
        for shelf, results in compare_rows(paper, options, telling=telling):
            last = len({r.seed for r in results}) == len(options.seeds)
            report = _report(paper, options, shelf, results, authority=authority if last else None)
            _written(report, stem, plots=plots and last)
            notes = report.notes
    return notes


def _given(**folders: Path | None) -> dict[FolderName, Path]:
    return {cast("FolderName", name): folder for name, folder in folders.items() if folder is not None}


def _command(suite: str, options: CompareOptions) -> str:
    """The command line for the record, without anybody's paths."""
    given = (
        *((f"--{name.replace('_', '-')}", folder.name) for name, folder in options.folders.items()),
        ("--epochs", options.epochs),
        ("--pairs", options.pairs),
        ("--device", options.device),
    )
    return (
        f"narrated-train compare --suite {suite} --data {options.data.name} --out {options.out.name} "
        f"--seeds {len(options.seeds)} --size {options.size}"
        + "".join(f" --row {each}" for each in options.rows)
        + "".join(f" {flag} {value}" for flag, value in given if value not in (None, "cpu"))
        + ("" if options.bf16 is None else " --bf16" if options.bf16 else " --no-bf16")
    )


def _report(
    suite: Suite,
    options: CompareOptions,
    shelf: Shelf,
    results: list[Result],
    *,
    authority: tuple[bool, Path | None] | None,
) -> Report:
    """Everything that is found so far; METEOR, and SPICE where its jars are given, only at the end."""
    from train.papers.claims import examined  # noqa: PLC0415
    from train.papers.comparison import about_data  # noqa: PLC0415
    from train.papers.results import trivial_results, with_authority  # noqa: PLC0415
    from train.papers.tables import Report  # noqa: PLC0415

    splits = shelf.any
    trivial = trivial_results(splits.measured, splits.training.sentences)
    every, missing = [*results, *trivial], "not all seeds are done"
    if authority is not None:
        wanted, jars = authority
        every, missing = with_authority(every, splits.measured, jars, with_meteor=wanted)
    ours, rest = tuple(every[: len(results)]), tuple(every[len(results) :])
    found = tuple(f for c in suite.claims if (f := examined(suite, c, ours, splits.measured)) is not None)
    seeds = sorted({r.seed for r in ours})
    about = (
        f"`{_command(suite.name, options)}`",
        f"The data: {about_data(options.data)}.",
        (
            f"Size {options.size}; {len(splits.training.samples)} training pairs with "
            f"{len(splits.training.annotations)} annotations, {len(splits.measured.samples)} pairs of "
            f"{shelf.measured} measured; seeds {', '.join(map(str, seeds))} of {len(options.seeds)}."
        ),
    )
    notes = (f"METEOR is left out: {missing}",) if missing else ()
    return Report(suite, splits.measured, ours, rest, found, about, notes)


def _written(report: Report, stem: Path, *, plots: bool) -> None:
    """Write the Markdown, the JSON and the plots."""
    from pipeline.disk import replace_file  # noqa: PLC0415
    from train.learning.loop import TrainError  # noqa: PLC0415
    from train.papers.plots import MissingPlotsError, write_plots  # noqa: PLC0415
    from train.papers.tables import markdown  # noqa: PLC0415

    text = markdown(report)
    content = {
        "suite": report.suite.name,
        "about": list(report.about),
        "rows": [asdict(result) for result in report.results],
        "trivial": [asdict(result) for result in report.trivial],
        "claims": [_claim(found) for found in report.found],
        "theirs": {t.title: {k: list(v) for k, v in t.theirs.items()} for t in report.suite.tables},
        "notes": list(report.notes),
    }
    try:
        if plots:
            try:
                stem.mkdir(parents=True, exist_ok=True)
                pictures = write_plots(report, stem)
                text += "\n" + "\n".join(f"![{p.stem}]({stem.name}/{p.name})" for p in pictures) + "\n"
            except MissingPlotsError as error:
                text += f"\n- Plots are left out: {error}\n"
        for suffix, written in ((".md", text), (".json", json.dumps(content, indent=1) + "\n")):
            replace_file(stem.with_suffix(suffix), written.encode(), durable=False)
    except OSError as error:
        raise TrainError(f"{stem} cannot be written ({error.strerror}); choose another --out") from error


def _claim(found: Found) -> dict[str, object]:
    """With what follows from it; an interval is null where it has no end."""
    ends = found.difference.interval()
    interval = list(ends) if math.isfinite(ends[0]) else None
    return {**asdict(found), "interval": interval, "power": found.power, "verdict": found.verdict}
