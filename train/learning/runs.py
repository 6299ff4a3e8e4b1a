"""The training commands as functions: what is read, what is made of it, what is written where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from models import load_captioner
from models.captioner import Captioner
from models.language.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from train.learning.batches import Split, load_split
from train.learning.config import (
    ObjectiveConfig,
    TrainConfig,
    build_captioner,
    build_encoder,
    build_objective,
)
from train.learning.distributed import own_device, process_group
from train.learning.evaluation import Evaluation, evaluate
from train.learning.loop import Trained, TrainError, TrainOptions, state_path, train
from train.learning.run_options import QUIET, USUAL, RunOptions, Telling
from train.learning.run_state import refuse_folder, written
from train.samples import Sample, load_samples


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
    half = device.startswith("cuda") if bf16 is None else bf16
    with process_group(device) as group:
        run = RunOptions(resume, half, group, telling if group.first else QUIET)
        captioner = _new_captioner(config, _checked(data, out, run)).to(device)
        with group.first_before_others():
            seen = partial(_split_of, captioner, data, config.changes, cache, telling=run.telling)
            training, validation = seen("train", leave_out=leave_out), seen("val")
        _note_skipped(training, run.telling)
        record = {
            "command": command,
            **record_of(config),
            "data": data.name,
            "left_out": sorted(leave_out),
        }
        trained = train_on_splits(captioner, training, validation, config, out, record=record, run=run)
        return trained, group.from_first(lambda: _measured(captioner, training, validation, out))


def _new_captioner(config: TrainConfig, samples: list[Sample]) -> Captioner:
    """With random weights, which the seed decides; it can say the words of the samples."""
    encoder = build_encoder(config)
    torch.manual_seed(config.training.seed)
    return build_captioner(config, Vocabulary.build(_all_sentences(samples), config.min_count), encoder)


def _split_of(
    captioner: Captioner,
    data: Path,
    changes: ChangeOptions,
    cache: Path | None,
    split: str,
    *,
    telling: Telling,
    leave_out: frozenset[str] = frozenset(),
) -> Split:
    """What a captioner sees of a split."""
    return load_split(
        data,
        split,
        captioner.encoder,
        changes,
        cache=cache or data / ".features",
        progress=partial(telling.features, split),
        whole=captioner.whole,
        images=captioner.needs_images,
        masks=captioner.needs_masks,
        leave_out=leave_out,
    )


def train_on_splits(
    captioner: Captioner,
    training: Split,
    validation: Split,
    config: TrainConfig,
    out: Path,
    *,
    record: Mapping[str, Any],
    run: RunOptions = USUAL,
) -> Trained:
    """Train a new captioner as its configuration says: pre-training first, where there is one.

    Args:
        captioner: newly built, on its device; afterwards it holds the best epoch's weights.
        training: what is learnt.
        validation: chooses the epoch.
        config: what is lowered, and how.
        out: where the checkpoint is kept; that of a pre-training is ``<stem>-pretrained`` beside it.
        record: plain values that go into the checkpoint's training record.
        run: see there.

    Raises:
        ConfigError, TrainError: see their modules.
    """
    if config.pretraining:
        record = {**record, "pretraining": _pretraining_record(config)}

    def learn(section: ObjectiveConfig | None, options: TrainOptions, to: Path) -> Trained:
        objective = build_objective(section, captioner, training)
        return train(
            captioner, training, validation, options, to, objective=objective, record=record, run=run
        )

    if config.pretraining and not (run.resume and state_path(out).exists()):
        first = out.with_name(f"{out.stem}-pretrained{out.suffix}")
        done = learn(config.pretraining.objective, config.pretrain_options(), first)
        run.telling.note(f"{first}: pre-trained, {len(done.curves)} epochs, {done.seconds:.1f} s an epoch")
    return learn(config.objective, config.training, out)


def _pretraining_record(config: TrainConfig) -> dict[str, Any]:
    """What decides the pre-training, as plain values; of a folder only its name."""
    assert config.pretraining is not None  # noqa: S101 - the caller looks
    objective = config.pretraining.objective
    arguments = {k: Path(v).name if isinstance(v, str) else v for k, v in objective.arguments.items()}
    return {"objective": {"name": objective.name, **arguments}, "training": asdict(config.pretrain_options())}


def _checked(data: Path, out: Path, run: RunOptions) -> list[Sample]:
    """The training samples; what is missing must be told now, not after the first epoch."""
    refuse_folder(out)
    if state_path(out).exists() and not run.resume:
        run.telling.note(
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
    written(captioner, out)
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
    loaded = _split_of(captioner, data, trained_changes(captioner), cache, split, telling=telling)
    there = (data / "train.json").is_file()
    training = load_samples(data, "train", require_images=False) if there else []
    if not there:
        telling.note(f"{data} has no train.json: the trivial rows that are drawn from it are left out")
    return captioner, evaluate(captioner, loaded, [tuple(_all_sentences([s])) for s in training])


def record_of(config: TrainConfig) -> dict[str, Any]:
    """What of a configuration whoever loads the checkpoint needs to know."""
    return {"changes": asdict(config.changes), "min_count": config.min_count}


def trained_changes(captioner: Captioner) -> ChangeOptions:
    """The change options in a captioner's training record; the defaults where it has none."""
    return ChangeOptions.of(captioner.record.get("changes", {}))


def _all_sentences(samples: list[Sample]) -> list[str]:
    return [s for sample in samples for annotation in sample.annotations for s in annotation]


def _note_skipped(split: Split, telling: Telling) -> None:
    if split.skipped:
        total = split.skipped + len(split.annotations)
        telling.note(
            f"{split.skipped} of {total} training annotations are skipped: nothing differs in their pairs"
        )
