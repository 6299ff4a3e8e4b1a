"""The training loop, one for all captioners and objectives, and what `narrated-train train` and `score` do.

Adam (Jhamtani 2018: batches of 8), gradient clipping, early stop on the validation split's single-sentence
CIDEr, which is the one declared metric and chooses the checkpoint. Order and dropout of an epoch follow from
seed and epoch alone; the state is written after every epoch, so that a resumed run ends in the same
checkpoint, byte by byte, as an uninterrupted one.
"""

import hashlib
import json
import math
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models import load_captioner
from models.encoders import Encoder
from models.papers.captioner import ENCODER, WordCaptioner
from models.papers.ddla import Nearest
from models.papers.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from pipeline.disk import replacing
from train import Progress
from train.checkpoints import TrainError, refuse_folder, trained_changes, versions, write_checkpoint, writing
from train.papers.batches import Split, by_pair, epoch_batches, load_split, prior_features
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
from train.papers.evaluation import Evaluation, evaluate, likelihood, perplexity, single_sentences
from train.papers.objectives import Objective, Step
from train.papers.results import trivial_rows
from train.papers.scores import text_scores
from train.samples import Sample

_STATE_FORMAT = 3
_DAMAGES = (OSError, RuntimeError, ValueError, KeyError, TypeError, EOFError, pickle.UnpicklingError)


@dataclass(frozen=True, slots=True)
class Point:
    """One epoch of the curves: mean training loss per annotation, validation CIDEr and perplexity.

    An objective with a score of its own has that instead, and neither CIDEr nor perplexity (NaN).
    """

    epoch: int
    train_loss: float
    val_cider: float
    val_perplexity: float
    val_score: float | None = None

    @property
    def score(self) -> float:
        return self.val_cider if self.val_score is None else self.val_score

    def plain(self) -> dict[str, float | None]:
        values = {k: v for k, v in asdict(self).items() if v is not None}
        return {k: round(v, 5) if math.isfinite(v) else None for k, v in values.items()}


@dataclass(frozen=True, slots=True)
class Trained:
    curves: tuple[Point, ...]  # one point per epoch
    best_epoch: int  # the epoch that the checkpoint is from, from 1
    stopped_early: bool  # True where `patience` ended it
    seconds: float  # mean seconds per epoch of this run, validation included


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks for progress: `count` for things counted, `note` for a line that the user should read."""

    count: Progress = lambda _what, _done, _all: None
    note: Callable[[str], None] = lambda _line: None


QUIET = Listeners()

Weights = dict[str, Tensor]


class _Run:
    """A training under way: what is trained, its curves so far, and the weights of the best epoch."""

    def __init__(
        self,
        captioner: WordCaptioner,
        objective: Objective,
        options: TrainOptions,
        splits: tuple[Split, Split],
        out: Path,
    ) -> None:
        self.captioner, self.objective, self.options, self.out = captioner, objective, options, out
        self.training, self.validation = splits
        every = (*captioner.parameters(), *objective.parameters())
        self.parameters = [p for p in every if p.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=options.learning_rate)
        self.curves: list[Point] = []
        self.best_epoch = 0
        self.best: tuple[Weights, Weights] = ({}, {})  # the captioner's and the objective's

    @property
    def is_stale(self) -> bool:
        waited = len(self.curves) - self.best_epoch
        return self.best_epoch > 0 and waited >= max(self.options.patience, 1)

    def epoch(self) -> Point:
        epoch, captioner, options = len(self.curves) + 1, self.captioner, self.options
        # Dropout of an epoch must not depend on how the run came here, or a resumed run would differ.
        torch.manual_seed(int(np.random.SeedSequence([options.seed, epoch, 1]).generate_state(1)[0]))
        annotations, size = self.training.annotations, options.batch
        whole = len(dict(annotations) if options.drawn else annotations)  # of `drawn` one of each pair
        batches, total = -(-whole // size), 0.0
        for module in (captioner, self.objective):
            module.train()
        ordered = epoch_batches(
            self.training,
            captioner.vocabulary,
            size,
            seed=options.seed,
            epoch=epoch,
            max_words=options.max_words,
            drawn=options.drawn,
            swapped=options.swapped,
        )
        for number, (pairs, tokens) in enumerate(ordered, start=1):
            step, device = Step(epoch, number, batches), captioner.device
            for each in self.optimizer.param_groups:
                each["lr"] = options.rate(step)
            loss = self.objective.loss(captioner, pairs.to(device), tokens.to(device), step)
            if not math.isfinite(value := loss.item()):
                raise TrainError(
                    f"the loss is {value} in epoch {epoch}, batch {number}; lower learning_rate "
                    f"({options.learning_rate:g}) or clip_norm ({options.clip_norm:g})"
                )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.parameters, options.clip_norm)
            self.optimizer.step()
            total += value * min(size, whole - (number - 1) * size)
        for module in (captioner, self.objective):
            module.eval()
        score = self.objective.score(captioner, self.validation)
        if score is not None:
            return Point(epoch, total / whole, math.nan, math.nan, score)
        val_perplexity = perplexity(*likelihood(captioner, self.validation))
        return Point(epoch, total / whole, _cider(captioner, self.validation), val_perplexity)

    def keep(self, point: Point, mark: str) -> None:
        """Add an epoch to the curves; write the checkpoint if it is the best, and the state of the run.

        The state is written at once or not at all: a kill must leave that of the epoch before.
        """
        known = self.curves[self.best_epoch - 1].score if self.best_epoch else -math.inf
        self.curves.append(point)
        if self.options.keep == "last" or point.score > known:
            self.best_epoch = point.epoch
            self.best = (_weights(self.captioner), _weights(self.objective))
            self.write()
        weights = _weights(self.captioner), _weights(self.objective)
        content = {"format": _STATE_FORMAT, "mark": mark, "weights": weights, "best": self.best}
        content |= {"best_epoch": self.best_epoch, "curves": [asdict(p) for p in self.curves]}
        content["optimizer"] = self.optimizer.state_dict()
        path = state_path(self.out)
        with writing(path), replacing(path, durable=True) as file:
            torch.save(content, file)

    def write(self) -> None:
        _write(self.captioner, self.curves, self.best_epoch, self.out)
        self.objective.keep(self.captioner, self.out)

    def resume(self, path: Path, mark: str) -> None:
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
            if content["format"] != _STATE_FORMAT or content["mark"] != mark:
                raise TrainError(
                    f"{path} is the state of another run (other samples, settings, seed or version); "
                    "repeat that run's options, or start again without --resume"
                )
            self._load(content["weights"])
            self.optimizer.load_state_dict(content["optimizer"])
            self.curves = [Point(**p) for p in content["curves"]]
            self.best_epoch, self.best = content["best_epoch"], content["best"]
        except _DAMAGES as error:
            raise TrainError(f"{path} is damaged ({error!r}); start again without --resume") from error

    def finish(self) -> None:
        self._load(self.best)
        self.write()

    def _load(self, weights: tuple[Weights, Weights]) -> None:
        self.captioner.load_state_dict(weights[0], strict=False)
        self.objective.load_state_dict(weights[1])


def train(
    captioner: WordCaptioner,
    training: Split,
    validation: Split,
    options: TrainOptions,
    out: Path,
    *,
    objective: Objective | None = None,
    record: Mapping[str, Any] | None = None,
    resume: bool = False,
    listeners: Listeners = QUIET,
) -> Trained:
    """Train a captioner, new or trained before; it and the checkpoint `out` keep the best epoch.

    The state of the run lies beside that under ``<out>.state``; `record` goes into the training record.
    """
    objective = (objective or Objective()).to(captioner.device)
    training = _suitable_split(captioner, training, objective, options)
    decisive = _provenance(captioner, training, validation, options, objective)
    captioner.record = {**(record or {}), **decisive}
    started = time.monotonic()
    if isinstance(captioner, Nearest):  # one pass, nothing to lower, no epochs to choose
        words, most = captioner.vocabulary, options.max_words
        captioner.memorise(
            epoch_batches(training, words, options.batch, seed=options.seed, epoch=1, max_words=most)
        )
        point = Point(1, 0.0, _cider(captioner, validation), math.nan)
        _write(captioner, [point], 1, out)
        return Trained((point,), 1, stopped_early=False, seconds=time.monotonic() - started)
    run, mark = _Run(captioner, objective, options, (training, validation), out), _mark(captioner)
    with torch.random.fork_rng():
        if resume and state_path(out).exists():
            run.resume(state_path(out), mark)
        elif not captioner.whole:
            captioner.fit_scaling(prior_features(training).to(captioner.device))
        first = len(run.curves)
        while len(run.curves) < options.epochs and not run.is_stale:
            point = run.epoch()
            run.keep(point, mark)
            listeners.count("epochs", point.epoch, options.epochs)
    seconds = (time.monotonic() - started) / max(len(run.curves) - first, 1)
    run.finish()
    return Trained(tuple(run.curves), run.best_epoch, run.is_stale, seconds)


def state_path(out: Path) -> Path:
    return out.with_name(out.name + ".state")


def pretrained_path(out: Path) -> Path:
    """The checkpoint of the pre-training of the run that writes the checkpoint `out`."""
    return out.with_name(f"{out.stem}-pretrained{out.suffix}")


def _suitable_split(
    captioner: WordCaptioner, training: Split, objective: Objective, options: TrainOptions
) -> Split:
    """The split with pairs instead of annotations, where the options say so and it can be."""
    if not training.annotations:
        raise TrainError(
            f"nothing to train on: none of {len(training.samples)} pairs has a cluster of differing pixels; "
            "lower delta or min_area under `changes`"
        )
    if options.swapped and captioner.needs_masks:
        raise TrainError(
            f"{captioner.name} looks at masks, which are of one before frame: leave out training.swapped"
        )
    if options.by_pair and (objective.one_text or captioner.joined):
        name = f"objective {objective.name}" if objective.one_text else captioner.name
        raise TrainError(
            f"{name} takes an annotator's sentences as one text, and would take those of all: leave out "
            "training.by_pair; training.drawn looks at each pair once an epoch, too"
        )
    return by_pair(training) if options.by_pair else training


def _cider(captioner: WordCaptioner, split: Split) -> float:
    cider: float = text_scores(single_sentences(captioner, split), split.sentences)["cider"]
    return cider


def _write(captioner: WordCaptioner, curves: Sequence[Point], best_epoch: int, out: Path) -> None:
    record = {"curves": [p.plain() for p in curves], "best_epoch": best_epoch}
    captioner.record = {**captioner.record, **record}
    write_checkpoint(captioner, out)


def _provenance(
    captioner: WordCaptioner, training: Split, validation: Split, options: TrainOptions, objective: Objective
) -> dict[str, Any]:
    """The inputs that decide the result, as plain values; no paths of the machine and no times."""
    settings = {k: v for k, v in asdict(options).items() if k not in ("epochs", "patience")}
    record = {"captioner": captioner.name, "training": settings, "metric": objective.metric}
    if type(objective) is not Objective:
        record["objective"] = {"name": objective.name, **objective.arguments()}
    return {
        **record,
        "train_sha256": training.sha256,
        "val_sha256": validation.sha256,
        "train_pairs": len(training.samples),
        "train_annotations": len(training.annotations),
        "skipped_annotations": training.skipped,
        "val_pairs": len(validation.samples),
        "versions": versions(),
    }


def _mark(captioner: WordCaptioner) -> str:
    """Hash over what must be equal for a run to go on; how long it may last is none of it."""
    decides = {k: v for k, v in captioner.record.items() if k not in ("command", "versions")}
    described = [decides, captioner.arguments(), captioner.vocabulary.words, captioner.encoder.sha256]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _weights(module: nn.Module) -> Weights:
    return {k: v.detach().cpu().clone() for k, v in module.state_dict().items() if not k.startswith(ENCODER)}


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
