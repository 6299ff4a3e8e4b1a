"""The training commands as functions: what is read, what is made of it, what is written where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from models import load_captioner, save
from models.captioner import Captioner
from models.language.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from train.learning.batches import Split, load_split
from train.learning.config import TrainConfig, build_captioner, build_encoder, build_objective
from train.learning.distributed import ALONE, ProcessGroup, own_device, process_group
from train.learning.evaluation import Evaluation, evaluate
from train.learning.loop import OnBatch, Point, Trained, TrainError, state_path, train
from train.samples import Sample, load_samples


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told how far a run is.

    Attributes:
        features: called with what is computed, samples ready and all samples.
        batch: see `train.learning.loop.OnBatch`.
        epoch: called with each point of the curves.
        note: called with a line that the user should read.
        count: called with what is counted, how much of it is done, and how much there is.
    """

    features: Callable[[str, int, int], None] = lambda _split, _ready, _all: None
    batch: OnBatch | None = None
    epoch: Callable[[Point], None] | None = None
    note: Callable[[str], None] = lambda _line: None
    count: Callable[[str, int, int], None] = lambda _what, _done, _all: None


QUIET = Telling()


def train_on_folder(
    data: Path,
    out: Path,
    config: TrainConfig,
    *,
    cache: Path | None = None,
    resume: bool = False,
    device: str = "cpu",
    bf16: bool | None = None,
    command: str = "",
    leave_out: frozenset[str] = frozenset(),
    telling: Telling = QUIET,
) -> tuple[Trained, Evaluation]:
    """Train a captioner on a folder of samples, measure it on the validation split, write its checkpoint.

    Args:
        data: folder in the layout of `train.samples`, with train.json and val.json.
        out: where the checkpoint is written.
        config: what is trained, and how.
        cache: folder of the features; None takes ``.features`` in `data`.
        resume: go on with the run whose state lies beside `out`.
        device: torch device.
        bf16: see `train.learning.loop.train`; None wherever the device is a GPU.
        command: the command line, for the record.
        leave_out: cameras of which nothing is trained on, neither as scene nor pasted.
        telling: who is told how far it is.

    Raises:
        SampleError, FeatureError, ConfigError, TrainError: see their modules.
    """
    device = own_device(device)
    with process_group(device) as group:
        return _trained_on_folder(
            data,
            out,
            config,
            cache=cache or data / ".features",
            resume=resume,
            device=device,
            bf16=device.startswith("cuda") if bf16 is None else bf16,
            command=command,
            leave_out=leave_out,
            telling=telling if group.first else QUIET,
            group=group,
        )


def _trained_on_folder(
    data: Path,
    out: Path,
    config: TrainConfig,
    *,
    cache: Path,
    resume: bool,
    device: str,
    bf16: bool,
    command: str,
    leave_out: frozenset[str],
    telling: Telling,
    group: ProcessGroup,
) -> tuple[Trained, Evaluation]:
    options, changes = config.train_options(), config.change_options()
    training_samples = _checked(data, out, telling, resume=resume)
    encoder = build_encoder(config)
    torch.manual_seed(options.seed)
    vocabulary = Vocabulary.build(_all_sentences(training_samples), config.min_count)
    captioner = build_captioner(config, vocabulary, encoder).to(device)
    with group.first_before_others():
        training, validation = (
            load_split(
                data,
                name,
                encoder,
                changes,
                cache=cache,
                progress=partial(telling.features, name),
                whole=captioner.whole,
                images=captioner.needs_images,
                masks=captioner.needs_masks,
                leave_out=leave_out if name == "train" else frozenset(),
            )
            for name in ("train", "val")
        )
    _note_skipped(training, telling)
    record = {
        "command": command,
        "changes": plain_changes(changes),
        "min_count": config.min_count,
        "data": data.name,
        "left_out": sorted(leave_out),
    }
    trained = train_on_splits(
        captioner,
        training,
        validation,
        config,
        out,
        record=record,
        resume=resume,
        bf16=bf16,
        group=group,
        telling=telling,
    )
    return trained, group.from_first(lambda: _measured(captioner, training, validation, out))


def train_on_splits(
    captioner: Captioner,
    training: Split,
    validation: Split,
    config: TrainConfig,
    out: Path,
    *,
    record: Mapping[str, Any],
    resume: bool = False,
    bf16: bool = False,
    group: ProcessGroup = ALONE,
    telling: Telling = QUIET,
) -> Trained:
    """Train a new captioner as its configuration says: pre-training first, where there is one.

    Args:
        captioner: newly built, on its device; afterwards it holds the best epoch's weights.
        training: what is learnt.
        validation: chooses the epoch.
        config: what is lowered, and how.
        out: where the checkpoint is kept.
        record: plain values that go into the checkpoint's training record.
        resume: go on from the state, where there is one.
        bf16: see `train.learning.loop.train`.
        group: see `train.learning.loop.train`.
        telling: who is told how far it is.

    Raises:
        ConfigError, TrainError: see their modules.
    """
    if config.pretraining:
        record = {**record, "pretraining": _pretraining_record(config)}
    if config.pretraining and not (resume and state_path(out).exists()):
        _pretrain(
            captioner,
            training,
            validation,
            config,
            out,
            record=record,
            resume=resume,
            bf16=bf16,
            group=group,
            telling=telling,
        )
    return train(
        captioner,
        training,
        validation,
        config.train_options(),
        out,
        objective=build_objective(config.objective, captioner, training),
        record=record,
        resume=resume,
        bf16=bf16,
        group=group,
        on_batch=telling.batch,
        on_epoch=telling.epoch,
    )


def _pretrain(
    captioner: Captioner,
    training: Split,
    validation: Split,
    config: TrainConfig,
    out: Path,
    *,
    record: Mapping[str, Any],
    resume: bool,
    bf16: bool,
    group: ProcessGroup,
    telling: Telling,
) -> None:
    """Train with the first objective; what came of it is kept in ``<stem>-pretrained`` beside `out`."""
    assert config.pretraining is not None  # noqa: S101 - the caller looks
    options = config.pretrain_options()
    first = out.with_name(f"{out.stem}-pretrained{out.suffix}")
    trained = train(
        captioner,
        training,
        validation,
        options,
        first,
        objective=build_objective(config.pretraining.objective, captioner, training),
        record=record,
        resume=resume,
        bf16=bf16,
        group=group,
        on_batch=telling.batch,
        on_epoch=telling.epoch,
    )
    telling.note(f"{first}: pre-trained, {len(trained.curves)} epochs, {trained.seconds:.1f} s an epoch")


def _pretraining_record(config: TrainConfig) -> dict[str, Any]:
    """What decides the pre-training, as plain values; of a folder only its name."""
    assert config.pretraining is not None  # noqa: S101 - the caller looks
    objective = config.pretraining.objective
    arguments = {k: Path(v).name if isinstance(v, str) else v for k, v in objective.arguments.items()}
    return {"objective": {"name": objective.name, **arguments}, "training": asdict(config.pretrain_options())}


def _checked(data: Path, out: Path, telling: Telling, *, resume: bool) -> list[Sample]:
    """The training samples; what is missing must be told now, not after the first epoch."""
    if out.is_dir():
        raise TrainError(f"{out} is a folder; --out names the checkpoint file to write")
    if state_path(out).exists() and not resume:
        telling.note(
            f"{state_path(out)} is of an earlier run and will be replaced; --resume would go on with it"
        )
    samples = load_samples(data, "train")
    load_samples(data, "val")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainError(f"{out.parent} cannot be made ({error.strerror}); choose another --out") from error
    return samples


def _measured(captioner: Captioner, training: Split, validation: Split, out: Path) -> Evaluation:
    """Score the captioner and write its checkpoint with the scores in the record."""
    scores = evaluate(captioner, validation, training.sentences)
    captioner.record = {**captioner.record, "scores": {"val": scores.plain()}}
    save(captioner, out)
    return scores


def evaluate_on_folder(
    data: Path,
    checkpoint: Path,
    split: str = "val",
    *,
    cache: Path | None = None,
    device: str = "cpu",
    telling: Telling = QUIET,
) -> tuple[Captioner, Evaluation]:
    """Measure a checkpoint on one split of a folder of samples, with the change options it was trained with.

    Raises:
        SampleError, FeatureError, CheckpointError: see their modules.
    """
    captioner = load_captioner(checkpoint, device)
    changes = trained_changes(captioner)
    progress = partial(telling.features, split)
    loaded = load_split(
        data,
        split,
        captioner.encoder,
        changes,
        cache=cache or data / ".features",
        progress=progress,
        whole=captioner.whole,
        images=captioner.needs_images,
        masks=captioner.needs_masks,
    )
    there = (data / "train.json").is_file()
    training = load_samples(data, "train", require_images=False) if there else []
    if not there:
        telling.note(f"{data} has no train.json: the trivial rows that are drawn from it are left out")
    return captioner, evaluate(captioner, loaded, [tuple(_all_sentences([s])) for s in training])


def trained_changes(captioner: Captioner) -> ChangeOptions:
    """The change options in a captioner's training record; the defaults where it has none."""
    return ChangeOptions.of(captioner.record.get("changes", {}))


def plain_changes(changes: ChangeOptions) -> dict[str, Any]:
    """Change options as plain values, for the training record."""
    values = {name: getattr(changes, name) for name in ChangeOptions.__slots__}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _all_sentences(samples: list[Sample]) -> list[str]:
    return [s for sample in samples for annotation in sample.annotations for s in annotation]


def _note_skipped(split: Split, telling: Telling) -> None:
    if split.skipped:
        total = split.skipped + len(split.annotations)
        telling.note(
            f"{split.skipped} of {total} training annotations are skipped: nothing differs in their pairs"
        )
