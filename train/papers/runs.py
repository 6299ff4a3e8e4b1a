"""Training and measuring on folders of samples: what `narrated-train train` and `score` do."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from models import load_captioner
from models.encoders import Encoder
from models.papers.captioner import WordCaptioner
from models.papers.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from train.checkpoints import TrainError, refuse_folder, trained_changes, write_checkpoint
from train.papers.batches import Split, load_split
from train.papers.config import (
    ObjectiveConfig,
    TrainConfig,
    TrainOptions,
    build_captioner,
    build_encoder,
    build_objective,
    captioner_kind,
)
from train.papers.datasets import has_split, load_pairs
from train.papers.evaluation import Evaluation, evaluate
from train.papers.results import trivial_rows
from train.papers.training import QUIET, Listeners, Trained, pretrained_path, state_path, train
from train.samples import Sample


def train_on_folder(
    data: Path,
    out: Path,
    config: TrainConfig,
    *,
    resume: bool = False,
    device: str = "cpu",
    command: str = "",
    listeners: Listeners = QUIET,
) -> tuple[Trained, Evaluation, dict[str, dict[str, Any]]]:
    """Train a captioner, measure it on the validation split, write its checkpoint.

    `resume` goes on with the run whose state lies beside `out`. Returns how it was trained, its scores and
    the trivial rows'.
    """
    refuse_folder(out)
    captioner_kind(config)  # before an encoder is loaded for one that takes none
    samples = load_pairs(data, "train")
    load_pairs(data, "val")  # what is missing is an error now, not after the first epoch
    captioner = new_captioner(config, samples, build_encoder(config)).to(device)
    training, validation = (
        split_of(captioner, data, split, config.changes, listeners) for split in ("train", "val")
    )
    if training.skipped:
        total = training.skipped + len(training.annotations)
        listeners.note(f"{training.skipped} of {total} training annotations are skipped: no pixel differs")
    record = {"command": command, **record_of(config), "data": data.name}
    trained = train_on_splits(
        captioner, training, validation, config, out, record=record, resume=resume, listeners=listeners
    )
    scores, trivial = evaluate(captioner, validation), trivial_rows(validation.samples, training.sentences)
    captioner.record = {**captioner.record, "scores": {"val": {**scores.figures, "trivial": trivial}}}
    write_checkpoint(captioner, out)
    return trained, scores, trivial


def new_captioner(config: TrainConfig, samples: list[Sample], encoder: Encoder) -> WordCaptioner:
    """A captioner with random weights, which the seed decides, and the words of the samples."""
    torch.manual_seed(config.training.seed)
    words = [s for sample in samples for said in sample.annotations for s in said]
    return build_captioner(config, Vocabulary.build(words, config.min_count), encoder)


def split_of(
    captioner: WordCaptioner, data: Path, split: str, changes: ChangeOptions, listeners: Listeners = QUIET
) -> Split:
    return load_split(
        data, split, captioner.encoder, changes, progress=listeners.count, sees=captioner.sees()
    )


def train_on_splits(
    captioner: WordCaptioner,
    training: Split,
    validation: Split,
    config: TrainConfig,
    out: Path,
    *,
    record: Mapping[str, Any],
    resume: bool = False,
    **how: Any,
) -> Trained:
    """Train as its configuration says, first the pre-training (``<stem>-pretrained``); see `train`."""
    if config.pretraining:
        objective = config.pretraining.objective
        arguments = {k: Path(v).name if isinstance(v, str) else v for k, v in objective.arguments.items()}
        made = {"name": objective.name, **arguments}  # of a folder only its name
        learnt = {"objective": made, "training": asdict(config.pretrain_options())}
        record = {**record, "pretraining": learnt}

    def learn(section: ObjectiveConfig | None, options: TrainOptions, to: Path) -> Trained:
        objective = build_objective(section, captioner, training)
        own = {**how, "objective": objective, "record": record, "resume": resume}
        return train(captioner, training, validation, options, to, **own)

    if config.pretraining and not (resume and state_path(out).exists()):
        learn(config.pretraining.objective, config.pretrain_options(), pretrained_path(out))
    return learn(config.objective, config.training, out)


def evaluate_on_folder(
    data: Path, checkpoint: Path, split: str = "val", *, listeners: Listeners = QUIET
) -> tuple[WordCaptioner, Evaluation, dict[str, dict[str, Any]]]:
    """Measure a checkpoint on one split of a folder, with the change options it was trained with.

    Returns the captioner, its scores and the trivial rows'.
    """
    captioner = load_captioner(checkpoint)
    if not isinstance(captioner, WordCaptioner):
        raise TrainError(f"{checkpoint} holds captioner {captioner.name}, which gives no word probabilities")
    loaded = split_of(captioner, data, split, trained_changes(captioner), listeners)
    known = has_split(data, "train")
    if not known:
        listeners.note(f"{data} has no training split: the trivial rows that are drawn from it are left out")
    training = load_pairs(data, "train", require_images=False) if known else []
    sentences = [tuple(s for said in sample.annotations for s in said) for sample in training]
    return captioner, evaluate(captioner, loaded), trivial_rows(loaded.samples, sentences)


def record_of(config: TrainConfig) -> dict[str, Any]:
    return {"changes": asdict(config.changes), "min_count": config.min_count}
