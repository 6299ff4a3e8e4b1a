"""Every system of a paper's tables, trained and measured alike: `narrated-train compare`.

A run of one system and one seed lies in a folder of its own, named by everything that decides it, so that a
finished one is not trained again and an interrupted one goes on from its last epoch. A run takes one thread
of a CPU however many run side by side, so that its result does not depend on the machine.
"""

import hashlib
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed

from models.checkpoint import read_label
from models.encoders import Encoder
from models.papers.captioner import Sees
from pipeline.changes import ChangeOptions
from pipeline.disk import replace_file
from train.checkpoints import TrainError, writing
from train.papers.batches import Split, load_split
from train.papers.config import TrainConfig, build_encoder, captioner_kind, validate_config
from train.papers.datasets import has_split
from train.papers.evaluation import evaluate, silence_of
from train.papers.results import (
    GAIN,
    ExaminedClaim,
    Result,
    difference,
    examine,
    read_result,
    result_ciders,
    trivial_results,
    with_meteor,
    write_result,
)
from train.papers.scores import BEST_CONSTANT
from train.papers.suites import FolderName, PaperTable, SizeName, Suite, System, load_suite, merge
from train.papers.training import (
    QUIET,
    Listeners,
    new_captioner,
    pretrained_path,
    record_of,
    state_path,
    train_on_splits,
)
from train.samples import SPLITS

WIDTH = 80
_LABEL = 24
_SHORT = {"METEOR": "METE", "ROUGE-L": "R-L", "perplexity": "perpl", "LenRatio": "LenR"}
_SHORT |= {f"BLEU-{n}": f"B-{n}" for n in range(1, 5)}
_RIGHT = {
    "type": "truth.type",
    "polar": "truth.polarity",
    "object": "truth.object",
    "place": "truth.place",
    "all": "truth.all",
    "no-P": "truth.no_change_precision",
    "no-R": "truth.no_change_recall",
    "said": "distinct",
}
_HOW = """\
A difference is tested over seeds and pairs: the variance of the seeds' means by their number plus that of
the pairs' by theirs, with Satterthwaite's degrees of freedom; the interval is one of 95 %. *Gain* is what the
paper prints, as a share of the worse figure (*ours*: it prints none); *power* is how probably so much would
be shown at the measured spread. Shown: the interval lies above 0. Reversed: below. Not shown: it reaches 0
although the power is .8. There is no verdict where a system does not beat the best constant of the training
captions, or where another number of seeds ran than the suite has."""


@dataclass(frozen=True, slots=True)
class Report:
    name: str  # name, suite: of the paper
    suite: Suite
    measured: Split  # the split that was measured on
    results: tuple[Result, ...]  # of all systems and seeds
    trivial: tuple[Result, ...]  # of systems that look at no picture
    examined: tuple[ExaminedClaim, ...]  # the paper's claims
    about: tuple[str, ...]  # lines about how it was made

    def of(self, row: str) -> list[Result]:
        return sorted((r for r in self.results if r.row == row), key=lambda r: r.seed)


def page(report: Report) -> str:
    suite = report.suite
    cameras = len({sample.camera for sample in report.measured.samples})
    parts = [
        f"# {report.name}",
        f"{suite.paper}.",
        _bullets(report.about),
        (
            f"Rows *theirs* are the figures that the paper prints, of its own data ({suite.data}), encoder "
            "and sizes: they are here to be seen, and do not compare with ours. ± is the standard deviation "
            "over seeds, CIDEr's interval one of 95 % over seeds and pairs (of one seed over pairs alone). "
            f"Pairs are taken as independent; those measured are of {cameras} cameras. *said* is how many "
            "different sentences are said."
        ),
        *suite.notes,
    ]
    for table in suite.tables:
        if any(report.of(key) for key in table.rows):
            parts += [f"## {table.title}", paper_table(table, report)]
    rows = [(system.label, report.of(key)) for key, system in suite.systems.items()]
    rows += [(r.row, [r]) for r in report.trivial]
    parts += [
        "## Is it right?",
        (
            "Of pairs with a change whose first sentence says one: shares whose type, polarity, object and "
            "place agree with some reference; of all pairs: precision and recall of silence."
        ),
        _block([(label, _cells(own, _RIGHT, 1)) for label, own in rows if own], list(_RIGHT)),
    ]
    if report.examined:
        chance = len(report.examined) * (1 - 0.95) / 2
        parts += [
            "## What the paper claims",
            f"{_HOW} Were none of {len(report.examined)} claims true, about {chance:.1f} would be shown.",
            "```\n" + "\n".join(claim_lines(report.examined)) + "\n```",
        ]
    constants = _bullets([f'{r.row}: "{r.single[0]}"' for r in report.trivial if r.value("distinct") == 1])
    wrapped = [part if part[0] in "#`*" else _wrap(part) for part in (*parts, constants) if part]
    return "\n\n".join(wrapped) + "\n"


def paper_table(table: PaperTable, report: Report) -> str:
    places = {column: table.value(column) for column in table.columns}
    lines: list[tuple[str, list[str]]] = []
    for key, printed in table.rows.items():
        own = report.of(key)
        if not own:
            continue
        lines.append((report.suite.systems[key].label, _cells(own, places, table.times)))
        if printed:
            figures = zip(printed, places, strict=True)
            theirs = [_cell([None if x is None else x / table.times], c, table.times) for x, c in figures]
            lines.append(("  theirs", theirs))
        ciders = result_ciders(own, report.measured, table.value("CIDEr")) if "CIDEr" in places else None
        if ciders is not None:
            digits = 1 if table.times > 1 else 3
            low, high = (f"{table.times * x:.{digits}f}" for x in difference(ciders).interval())
            lines.append((f"  CIDEr 95 % [{low}, {high}]", [""] * len(places)))
    if table.setting:
        lines += [(r.row, _cells([r], places, table.times)) for r in report.trivial]
    return _block(lines, [_SHORT.get(column, column) for column in places])


def claim_lines(examined: Sequence[ExaminedClaim]) -> list[str]:
    lines = []
    for each in examined:
        low, high = each.difference.interval()
        gain = f"gain {GAIN:.0%} ours" if each.printed is None else f"gain {each.printed:.1%}"
        figures = (
            f"{each.better:.3f} against {each.worse:.3f}, {each.difference.mean:+.3f} "
            f"[{low:+.3f}, {high:+.3f}], {gain}, power {each.power:.2f}: {each.verdict}"
        )
        lines.append(f"{each.claim.text} ({each.claim.value})")
        lines += textwrap.wrap(figures, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return lines


def _block(lines: Sequence[tuple[str, list[str]]], columns: list[str]) -> str:
    rows = [("", columns), *lines]
    widths = [max(len(cells[k]) for _, cells in rows) for k in range(len(columns))]
    shown = []
    for label, cells in rows:
        cut = label if label.startswith("  ") else textwrap.shorten(label, _LABEL, placeholder="…")
        figures = " ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        shown.append(f"{cut:{_LABEL}} {figures}".rstrip())
    return "```\n" + "\n".join(shown) + "\n```"


def _cells(own: Sequence[Result], places: Mapping[str, str], times: float) -> list[str]:
    return [_cell([r.value(place) for r in own], column, times) for column, place in places.items()]


def _cell(values: Sequence[float | None], column: str, times: float) -> str:
    """The mean of some figures, of CIDEr with the standard deviation."""
    known = [v for v in values if v is not None and np.isfinite(v)]
    if not known:
        return "-"
    if column in ("said", "aligned sentences"):
        return f"{np.mean(known):.0f}"
    scale, places = (1.0, 2) if column == "perplexity" else (times, 1 if times > 1 else 3)
    mean = f"{scale * float(np.mean(known)):.{places}f}"
    mean = mean[1:] if mean.startswith("0.") else mean
    if column != "CIDEr" or len(known) < 2:  # noqa: PLR2004 - no deviation of one
        return mean
    return f"{mean}±{scale * float(np.std(known, ddof=1)):.{max(places - 1, 1)}f}"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(_wrap(f"* {line}", "  ") for line in lines)


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


_FORMAT = 4


@dataclass(frozen=True, slots=True)
class CompareOptions:
    suite: str  # key of `train.papers.suites.SUITES`
    data: Path  # pairs with a training and a validation split, measured on the test split if any
    out: Path  # folder of runs and tables
    seeds: int | None = None  # of each system; None the suite's own, others have no verdict
    size: SizeName = "small"  # of the captioners, see `train.papers.suites`
    rows: tuple[str, ...] = ()  # keys of the systems wanted; none for all
    # of further images, for the systems that need them
    folders: Mapping[FolderName, Path] = field(default_factory=dict)
    epochs: int | None = None  # of training and of pre-training, each at most; None as the size has it
    pairs: int | None = None  # learn from the first so many training pairs only; None all
    device: str = "cpu"  # torch device
    workers: int = 1  # runs side by side


class Splits(NamedTuple):
    training: Split
    validation: Split
    measured: Split


def compare(options: CompareOptions, listeners: Listeners = QUIET) -> Report:
    """Train and measure what is not done yet, and write ``<suite>.md`` and ``<suite>.json``."""
    suite = load_suite(options.suite)
    rows = _wanted_rows(options, listeners)
    tasks = [(row, seed) for seed in range(options.seeds or suite.seeds) for row in rows]
    listeners.note(f"{len(tasks)} runs: {len(rows)} systems, {_seeds(len(tasks) // len(rows))}")
    for row in rows:  # features are computed once, by this process, and read by the runs
        splits = _splits(row_config(suite.systems[row], options, 0), options)
    listeners.count("runs", 0, len(tasks))
    results: list[Result] = []
    run = delayed(run_row)
    parallel = Parallel(n_jobs=options.workers, return_as="generator")
    for result in parallel(run(options, row, seed) for row, seed in tasks):
        results.append(result)
        listeners.count("runs", len(results), len(tasks))
        single = result.evaluation["single"]
        listeners.note(
            f"{result.row}, seed {result.seed}: CIDEr {single['cider']:.3f}, {result.evaluation['distinct']} "
            f"sentences said of {single['pairs']}, epoch {result.best_epoch}"
        )
    measured = splits.measured
    trivial = trivial_results(measured.samples, splits.training.sentences)
    every = with_meteor([*results, *trivial], measured)
    ours, rest = tuple(every[: len(results)]), tuple(every[len(results) :])
    constant = next((r for r in rest if r.row == BEST_CONSTANT), None)
    examined = [examine(suite, claim, ours, constant, measured) for claim in suite.claims]
    found = tuple(each for each in examined if each is not None)
    about = _about(options, splits, len(tasks) // len(rows))
    report = Report(options.suite, suite, measured, ours, rest, found, about)
    _write(report, options.out)
    return report


def run_row(options: CompareOptions, row: str, seed: int) -> Result:
    system = load_suite(options.suite).systems[row]
    config = row_config(system, options, seed)
    splits = _splits(config, options)
    encoder = _encoder(config.encoder, options.device)
    mark = _mark(config, splits, encoder, options, system)
    folder = options.out / "runs" / f"{options.suite}-{row}-{seed}-{mark[:10]}"
    if (done := read_result(folder, mark)) is not None:
        return done
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "model.safetensors"
    captioner = new_captioner(config, list(splits.training.samples), encoder).to(options.device)
    record = {**record_of(config), "data": options.data.name, "suite": options.suite, "row": row}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trained = train_on_splits(captioner, *splits[:2], config, checkpoint, record=record, resume=True)
        scores = evaluate(captioner, splits.measured, silence=silence_of(splits.training.sentences))
    except TrainError as error:
        raise TrainError(f"{row}, seed {seed}: {error} (its files are in {folder})") from error
    finally:
        torch.set_num_threads(threads)
    before = pretrained_path(checkpoint)
    pretraining = tuple(read_label(before).record["curves"]) if before.is_file() else ()
    curves = tuple(point.plain() for point in trained.curves)
    result = Result(mark, row, seed, *scores, curves, pretraining, trained.best_epoch)
    write_result(folder, result)
    for left in (checkpoint, before):
        state_path(left).unlink(missing_ok=True)
    return result


def row_config(system: System, options: CompareOptions, seed: int) -> TrainConfig:
    content = merge(system.content(options.size), {"training": {"seed": seed}})
    content = merge(content, {"arguments": dict.fromkeys(system.seeded, seed)})
    before: dict[str, Any] = {}
    if system.needs:
        before["objective"] = {"arguments": {need: str(options.folders[need]) for need in system.needs}}
    if options.epochs is not None:
        content = merge(content, {"training": {"epochs": options.epochs * system.passes}})
        before["training"] = {"epochs": options.epochs}
    if "pretraining" in content:
        content = merge(content, {"pretraining": before})
    return validate_config(content, system.label)


def _wanted_rows(options: CompareOptions, listeners: Listeners) -> list[str]:
    systems = load_suite(options.suite).systems
    wanted = []
    for key in options.rows or systems:
        if key not in systems:
            raise TrainError(f"suite {options.suite} has no row {key!r}; there is {', '.join(systems)}")
        lacking = [f"--folder {n}=FOLDER" for n in systems[key].needs if n not in options.folders]
        if lacking and options.rows:
            raise TrainError(f"row {key} of suite {options.suite} needs {' and '.join(lacking)}")
        if lacking:
            listeners.note(f"{systems[key].label} is left out: it needs {' and '.join(lacking)}")
        else:
            wanted.append(key)
    return wanted


@lru_cache
def _encoder(name: str, device: str) -> Encoder:
    return build_encoder(TrainConfig(version=1, encoder=name)).to(device)


def _splits(config: TrainConfig, options: CompareOptions) -> Splits:
    sees = captioner_kind(config).sees()
    return _load(options.data, config.encoder, options.device, config.changes, options.pairs, sees)


@lru_cache(maxsize=4)
def _load(  # noqa: PLR0917 - a cache takes no keywords in another order
    data: Path, encoder: str, device: str, changes: ChangeOptions, pairs: int | None, sees: Sees
) -> Splits:
    def load(split: str, most: int | None = None) -> Split:
        return load_split(data, split, _encoder(encoder, device), changes, pairs=most, sees=sees)

    validation = load("val")
    measured = load("test") if has_split(data, "test") else validation
    return Splits(load("train", pairs), validation, measured)


def _mark(
    config: TrainConfig, splits: Splits, encoder: Encoder, options: CompareOptions, system: System
) -> str:
    seen = [each.sha256 for each in splits]
    for need in system.needs:
        listed = options.folders[need] / "images.txt"
        content = listed.read_bytes() if listed.is_file() else b""  # training says what is missing
        seen.append(hashlib.sha256(content).hexdigest())
    configured = config.model_dump(mode="json", exclude={"learning"})  # that is the grounded captioner's
    decides = [_FORMAT, configured, seen, encoder.sha256]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _about(options: CompareOptions, splits: Splits, seeds: int) -> tuple[str, ...]:
    """The command, without anybody's paths, the data, and the numbers of pairs and seeds."""
    given: list[tuple[str, object]] = [("suite", options.suite), ("data", options.data.name)]
    given += [("out", options.out.name), ("size", options.size)]
    given += [("folder", f"{name}={folder.name}") for name, folder in options.folders.items()]
    given += [("epochs", options.epochs), ("pairs", options.pairs), *(("row", row) for row in options.rows)]
    command = " ".join(f"--{flag} {value}" for flag, value in given if value)
    training, measured = splits.training, len(splits.measured.samples)
    counts = (
        f"{len(training.samples)} training pairs with {len(training.annotations)} annotations, {measured}"
    )
    return (
        f"`narrated-train compare {command}`",
        f"The data: {_about_data(options.data)}.",
        f"{counts} pairs measured; {_seeds(seeds)}.",
    )


def _seeds(number: int) -> str:
    return "1 seed" if number == 1 else f"{number} seeds"


def _about_data(folder: Path) -> str:
    """A folder of pairs in words: of the generated benchmark its version and how it was made."""
    try:
        record = json.loads((folder / "generated.json").read_text(encoding="utf-8"))
        options, version = record["options"], record["format"]
        made = ", ".join(f"{name} {value}" for name, value in options.items() if value is not False)
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return folder.name
    seen = hashlib.sha256(b"".join((folder / f"{s}.json").read_bytes() for s in SPLITS)).hexdigest()
    return f"generated benchmark, version {version} ({made}; captions {seen[:10]})"


def _write(report: Report, out: Path) -> None:
    claims = [
        {"text": f.claim.text, "value": f.claim.value, **asdict(f.difference), "verdict": f.verdict}
        for f in report.examined
    ]
    content: dict[str, Any] = {"suite": report.name, "about": report.about, "claims": claims}
    content["rows"] = [asdict(result) for result in report.results]
    content["trivial"] = [asdict(result) for result in report.trivial]
    with writing(out):
        replace_file(out / f"{report.name}.md", page(report).encode(), durable=False)
        replace_file(out / f"{report.name}.json", (json.dumps(content) + "\n").encode(), durable=False)
