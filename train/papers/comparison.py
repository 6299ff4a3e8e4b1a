"""Every row of a paper's tables, trained through the one loop and measured alike: `narrated-train compare`.

Runs of one row and one seed lie in a folder of their own, named by everything that decides them, so that a
finished one is not trained again and an interrupted one goes on from its last epoch. All rows take their
features from one cache. Several runs side by side: `train.papers.side_by_side`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from models import DEFAULT_CHECKPOINT, read_label
from models.captioner import Captioner
from models.encoders.encoder import Encoder
from models.language.vocabulary import Vocabulary
from train.learning.batches import Split, load_split
from train.learning.config import TrainConfig, build_captioner, build_encoder, checked_config
from train.learning.cost import Meter
from train.learning.evaluation import evaluate, silence_of
from train.learning.loop import TrainError, state_path
from train.learning.objectives.expansion import LISTS
from train.learning.run_options import RunOptions, Telling
from train.learning.runs import record_of, train_on_splits
from train.papers.narrator import NARRATOR, narrator_result
from train.papers.results import Result, read_result, write_result
from train.papers.suites import FolderName, SizeName, Suite, System, merged
from train.samples import SPLITS

FORMAT = 3


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What is compared.

    Attributes:
        data: folder of samples with train.json and val.json; measured on test.json, where there is one.
        out: folder of runs and tables.
        seeds: of the runs of each row.
        size: of the captioners, see `train.papers.suites`.
        rows: keys of the rows wanted; none for all.
        folders: of further images, for the rows that need them.
        epochs: at most this many, of training and of pre-training; None as the size has it.
        pairs: learn from this many training pairs only; None as the size has it.
        cache: folder of the features; None takes ``.features`` in `data`.
        device: torch device.
        bf16: train in bfloat16 where that is safe; None wherever the device is a GPU.
        workers: runs side by side, see `train.papers.side_by_side`; they do not change the results.
        ray: address of a Ray cluster (see `pipeline.machines`) for the runs, in place of processes.
    """

    data: Path
    out: Path
    seeds: tuple[int, ...] = (0, 1, 2)
    size: SizeName = "small"
    rows: tuple[str, ...] = ()
    folders: Mapping[FolderName, Path] = field(default_factory=dict)
    epochs: int | None = None
    pairs: int | None = None
    cache: Path | None = None
    device: str = "cpu"
    bf16: bool | None = None
    workers: int = 1
    ray: str | None = None

    @property
    def half(self) -> bool:
        """Whether training runs in bfloat16."""
        return self.device.startswith("cuda") if self.bf16 is None else self.bf16


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """The splits of one kind of captioner."""

    training: Split
    validation: Split
    measured: Split


class Shelf:
    """Encoders and splits, loaded once for all rows that need them."""

    def __init__(self, options: CompareOptions, pairs: int | None, telling: Telling) -> None:
        """Load nothing yet; rows learn from the first `pairs` training pairs, None all."""
        self._options, self._pairs, self._telling = options, pairs, telling
        self._encoders: dict[str, Encoder] = {}
        self._splits: dict[str, Splits] = {}
        self.measured = "test" if (options.data / "test.json").is_file() else "val"

    def encoder(self, config: TrainConfig) -> Encoder:
        """The encoder that a configuration names, where rows are trained."""
        if config.encoder not in self._encoders:
            self._encoders[config.encoder] = build_encoder(config).to(self._options.device)
        return self._encoders[config.encoder]

    def splits(self, config: TrainConfig, captioner: type[Captioner]) -> Splits:
        """The splits as a captioner sees them."""
        seen = (
            config.encoder,
            captioner.whole,
            captioner.needs_images,
            captioner.needs_masks,
            asdict(config.changes),
        )
        key = json.dumps(seen)
        if key not in self._splits:
            names = dict.fromkeys(("train", "val", self.measured))
            loaded = {
                name: load_split(
                    self._options.data,
                    name,
                    self.encoder(config),
                    config.changes,
                    cache=self._options.cache or self._options.data / ".features",
                    progress=partial(self._telling.features, name),
                    whole=captioner.whole,
                    images=captioner.needs_images,
                    masks=captioner.needs_masks,
                )
                for name in names
            }
            training = first_pairs(loaded["train"], self._pairs)
            self._splits[key] = Splits(training, loaded["val"], loaded[self.measured])
        return self._splits[key]

    @property
    def any(self) -> Splits:
        """Some splits that are loaded: samples and sentences are the same in all."""
        return next(iter(self._splits.values()))


def shelf_of(suite: Suite, options: CompareOptions, telling: Telling) -> Shelf:
    """The shelf of a suite, still empty."""
    return Shelf(options, options.pairs or (suite.pairs if options.size == "small" else None), telling)


def first_pairs(split: Split, pairs: int | None) -> Split:
    """The first pairs of a split; None all of them."""
    if pairs is None or pairs >= len(split.samples):
        return split
    return replace(
        split,
        samples=split.samples[:pairs],
        annotations=tuple(each for each in split.annotations if each[0] < pairs),
        sha256=hashlib.sha256(f"{split.sha256} {pairs}".encode()).hexdigest(),
    )


def about_data(folder: Path) -> str:
    """What a folder of samples is, in words: of the generated benchmark its version and how it was made."""
    try:
        record = json.loads((folder / "generated.json").read_text(encoding="utf-8"))
        options, version = record["options"], record["format"]
        every = {k: v for k, v in options.items() if k != "stage"} | options.get("stage", {})
        made = ", ".join(f"{name} {value}" for name, value in every.items() if value is not False)
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return folder.name
    seen = hashlib.sha256(b"".join((folder / f"{s}.json").read_bytes() for s in SPLITS)).hexdigest()
    return f"generated benchmark, version {version} ({made}; captions {seen[:10]})"


def row_config(row: System, options: CompareOptions, seed: int) -> TrainConfig:
    """The checked configuration of one run.

    Raises:
        ConfigError: the options do not suit.
    """
    content = merged(row.content(options.size), {"training": {"seed": seed}})
    content = merged(content, {"arguments": dict.fromkeys(row.seeded, seed)})
    if row.needs:
        folders = {need: str(options.folders[need]) for need in row.needs}
        content = merged(content, {"pretraining": {"objective": {"arguments": folders}}})
    if options.epochs is not None:
        content = merged(content, {"training": {"epochs": options.epochs}})
        if "pretraining" in content:
            content = merged(content, {"pretraining": {"training": {"epochs": options.epochs}}})
    return checked_config(content, f"row {row.key}")


def chosen_rows(suite: Suite, options: CompareOptions) -> tuple[System, ...]:
    """The rows of a suite that are wanted and whose folders are given.

    Raises:
        TrainError: there is no such row, or a wanted one lacks its folder.
    """
    known = {row.key: row for row in suite.rows}
    for key in options.rows:
        if key not in known:
            raise TrainError(f"suite {suite.name} has no row {key!r}; there is {', '.join(known)}")
        if lacking := _lacking(known[key], options):
            raise TrainError(f"row {key} of suite {suite.name} needs {lacking}")
    wanted = [known[key] for key in options.rows] or suite.rows
    return tuple(row for row in wanted if not _lacking(row, options))


def rows_left_out(suite: Suite, options: CompareOptions) -> list[str]:
    """A line for each wanted row that lacks a folder."""
    return [
        f"{row.label} is left out: it needs {lacking}"
        for row in suite.rows
        if not options.rows and (lacking := _lacking(row, options))
    ]


def _lacking(row: System, options: CompareOptions) -> str:
    missing = [need for need in row.needs if need not in options.folders]
    return " and ".join(f"--{need.replace('_', '-')} FOLDER" for need in missing)


def run_row(
    suite: Suite, row: System, seed: int, options: CompareOptions, *, shelf: Shelf, telling: Telling
) -> Result:
    """One run: read, gone on with, or begun.

    Raises:
        SampleError, FeatureError, ConfigError, TrainError: see their modules.
    """
    config = row_config(row, options, seed)
    encoder = shelf.encoder(config)
    captioner, splits = _captioner(config, encoder, shelf, seed)
    mark = _mark(row, config, splits, encoder, options)
    told = row.key == NARRATOR  # the same whatever suite and seed
    name = NARRATOR if told else f"{suite.name}-{row.key}-{seed}"
    folder = options.out / "runs" / f"{name}-{mark[:10]}"
    checkpoint = folder / "model.safetensors"
    done = read_result(folder, mark)
    if done is not None:
        return replace(done, seed=seed)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainError(f"{folder} cannot be made ({error.strerror}); choose another --out") from error
    if told:
        progress = partial(telling.count, NARRATOR)
        result = narrator_result(splits.measured, splits.training.sentences, progress=progress)
    else:
        record = {"data": options.data.name, "suite": suite.name, "row": row.key}
        try:
            result = _learned(captioner, splits, config, checkpoint, options, telling=telling, record=record)
        except TrainError as error:
            raise TrainError(f"{row.label}, seed {seed}: {error} (its files are in {folder})") from error
        best = f"CIDEr {result.evaluation['single']['cider']:.3f}, epoch {result.best_epoch}"
        seconds = f"{result.seconds_per_epoch:.1f} s an epoch"
        telling.note(f"{row.label}, seed {seed}: {best} of {len(result.curves)}, {seconds}")
    result = replace(result, mark=mark, row=row.key, label=row.label, seed=seed)
    write_result(folder, result)
    for left in (checkpoint, _pretrained(checkpoint)):
        state_path(left).unlink(missing_ok=True)
    return result


def _learned(
    captioner: Captioner,
    splits: Splits,
    config: TrainConfig,
    checkpoint: Path,
    options: CompareOptions,
    *,
    telling: Telling,
    record: dict[str, Any],
) -> Result:
    """Train a captioner, or go on, and measure it; what it is of is left open."""
    meter = Meter(options.device)
    trained = train_on_splits(
        captioner.to(options.device),
        splits.training,
        splits.validation,
        config,
        checkpoint,
        record={**record_of(config), **record},
        run=RunOptions(
            resume=True,
            bf16=options.half,
            telling=replace(telling, batch=meter.watching(telling.batch)),
        ),
    )
    scores = evaluate(captioner, splits.measured, silence=silence_of(splits.training.sentences))
    found = scores.likelihood
    return Result(
        mark="",
        row="",
        label="",
        seed=0,
        evaluation=scores.plain(),
        single=scores.said,
        multi=scores.told,
        nats=tuple(round(float(x), 4) for x in found.nats) if found else (),
        tokens=tuple(int(n) for n in found.tokens) if found else (),
        curves=tuple(point.plain() for point in trained.curves),
        pretraining=_pretraining_curves(checkpoint),
        best_epoch=trained.best_epoch,
        parameters=_trained_numbers(captioner),
        peak_mib=meter.peak_mib(),
        samples_per_s=meter.samples_per_s(config.training.batch),
        seconds_per_epoch=round(trained.seconds, 3),
    )


def _captioner(config: TrainConfig, encoder: Encoder, shelf: Shelf, seed: int) -> tuple[Captioner, Splits]:
    """A new captioner and its splits; the training sentences give its vocabulary."""
    from models import CAPTIONERS  # noqa: PLC0415 - the table of classes

    splits = shelf.splits(config, CAPTIONERS[config.captioner]())
    torch.manual_seed(seed)
    sentences = [sentence for annotation in splits.training.sentences for sentence in annotation]
    return build_captioner(config, Vocabulary.build(sentences, config.min_count), encoder), splits


def _mark(row: System, config: TrainConfig, splits: Splits, encoder: Encoder, options: CompareOptions) -> str:
    """Hash over what decides a result."""
    seen = [each.sha256 for each in (splits.training, splits.validation, splits.measured)]
    for listed in (options.folders[need] / LISTS[need] for need in row.needs):
        content = listed.read_bytes() if listed.is_file() else b""  # training says what is missing
        seen.append(hashlib.sha256(content).hexdigest())
    said = config.model_dump(mode="json", exclude={"learning"})  # that is the grounded captioner's
    decides = [FORMAT, said, seen, encoder.sha256, options.half]
    if row.key == NARRATOR:
        decides = [FORMAT, seen, read_label(DEFAULT_CHECKPOINT).sha256]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _pretrained(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.stem}-pretrained{checkpoint.suffix}")


def _pretraining_curves(checkpoint: Path) -> tuple[dict[str, Any], ...]:
    path = _pretrained(checkpoint)
    return tuple(read_label(path).record["curves"]) if path.is_file() else ()


def _trained_numbers(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
