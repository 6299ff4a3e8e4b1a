"""Training configuration: a YAML file, checked strictly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from models import CAPTIONERS
from models.encoders import ENCODERS, Encoder
from models.papers.captioner import WordCaptioner
from models.papers.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from pipeline.yaml_lines import YamlError, read_yaml
from train.grounded.stages import ChainOptions
from train.papers.objectives import OBJECTIVES, Objective, Step
from train.papers.suites import Strict

if TYPE_CHECKING:
    from train.papers.batches import Split  # with the extra `papers`, which the grounded captioner needs not


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file, the key and what is allowed."""

    exit_code = 78


@dataclasses.dataclass(frozen=True, slots=True)
class TrainOptions:
    epochs: int = 20  # at most this many
    batch: int = 8  # annotations in a batch (the paper's 8)
    learning_rate: float = 1e-3  # of Adam, in the first epoch
    decay: float = 1.0  # the learning rate is multiplied by this after every `decay_every` epochs; 1 keeps it
    decay_every: int = 1  # epochs, at least 1
    # batches over which the learning rate rises to its value, after which it falls with the root of the
    # batch's number (Noam, Vaswani et al. 2017); 0 keeps it.
    warmup: int = 0
    clip_norm: float = 5.0  # gradients are scaled down to at most this norm
    patience: int = 4  # training stops when the validation CIDEr has not risen for this many epochs
    seed: int = 0  # of weights, order and dropout
    max_words: int = 24  # longer training sentences are cut
    # which epoch's weights are kept: the best by validation CIDEr, or the last, for a schedule whose rate
    # has fallen by then (few validation cameras choose between epochs by chance)
    keep: Literal["best", "last"] = "best"
    # whether what all annotators say of a pair is learnt at once: the pair is looked at once an epoch
    # instead of once for each of them. A batch then counts pairs. Not for stories, nor where an objective
    # takes all of it as one text.
    by_pair: bool = False
    drawn: bool = False  # whether an epoch takes one annotation of each pair, drawn by chance, instead of all
    # share 0..1 of the pairs of a scene seen twice without a change that are seen from the other view, see
    # `train.papers.batches.find_twins`. Not for captioners that look at masks.
    swapped: float = 0.0

    def __post_init__(self) -> None:
        positive = self.epochs, self.batch, self.max_words, self.decay_every, self.learning_rate, self.decay
        if min(*positive, self.clip_norm) <= 0 or min(self.patience, self.seed, self.warmup) < 0:
            raise ValueError(f"options must be positive (patience, seed and warmup at least 0): {self}")
        if not 0 <= self.swapped <= 1 or (self.by_pair and self.drawn):
            raise ValueError("swapped must be in 0..1; by_pair takes all annotations and drawn one: choose")

    def rate(self, step: Step) -> float:
        rate = self.learning_rate * self.decay ** ((step.epoch - 1) // self.decay_every)
        if self.warmup:
            reached = (step.done + 1) / self.warmup
            rate *= min(reached, reached**-0.5)
        return rate


class ObjectiveConfig(Strict):
    name: str  # key of `train.papers.objectives.OBJECTIVES`
    arguments: dict[str, Any] = Field(default_factory=dict)  # of its constructor


class PreTrainingConfig(Strict):
    objective: ObjectiveConfig  # what it lowers
    training: TrainOptions = TrainOptions()  # see `TrainOptions`; the seed is the run's


class TrainConfig(Strict):
    version: Literal[1]  # of this file format
    captioner: str = "ddla"  # key of `models.CAPTIONERS`
    arguments: dict[str, Any] = Field(default_factory=dict)  # its constructor's, see its `Options`
    encoder: str = "efficientnet_lite0"  # key of `models.encoders.ENCODERS`
    encoder_weights: Path | None = None  # file with the encoder's weights; None takes those of its package
    min_count: int = Field(5, ge=1)  # words seen less often are unknown (paper's Table 1: 5)
    changes: ChangeOptions = ChangeOptions()  # how clusters are found, see `ChangeOptions`
    training: TrainOptions = TrainOptions()  # see `TrainOptions`
    # how much each part of a grounded captioner learns from labelled frames, see `ChainOptions`
    learning: ChainOptions = ChainOptions()
    objective: ObjectiveConfig | None = None  # None lowers the captioner's own loss
    pretraining: PreTrainingConfig | None = None  # None for none

    def pretrain_options(self) -> TrainOptions:
        """The section `pretraining.training`, with the run's seed; the defaults without that section."""
        own = self.pretraining.training if self.pretraining else TrainOptions()
        return dataclasses.replace(own, seed=self.training.seed)


def load_config(path: Path, **training: Any) -> TrainConfig:
    """Read a configuration; values of `training` that are not None override the section of that name."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except YamlError as error:
        raise ConfigError(error.within(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold a mapping that begins with `version: 1`")
    explicit = {key: value for key, value in training.items() if value is not None}
    if explicit and isinstance(content.get("training", {}), dict | None):
        content = {**content, "training": {**(content.get("training") or {}), **explicit}}
    return validate_config(content, str(path))


def validate_config(content: Mapping[str, Any], source: str) -> TrainConfig:
    try:
        config = TrainConfig.model_validate(dict(content))
    except ValidationError as error:
        raise ConfigError(f"{source}: {_wrong(error)}") from error
    _check_names(config, source)
    return config


def build_encoder(config: TrainConfig) -> Encoder:
    try:
        return ENCODERS[config.encoder](config.encoder_weights)
    except (OSError, ImportError, RuntimeError) as error:
        raise ConfigError(f"encoder {config.encoder} cannot be loaded: {error}") from error


def captioner_kind(config: TrainConfig) -> type[WordCaptioner]:
    kind = CAPTIONERS[config.captioner]()
    if not issubclass(kind, WordCaptioner):
        raise ConfigError(f"captioner {kind.name} learns from labelled frames (`label`), not from pairs")
    return kind


def build_captioner(config: TrainConfig, vocabulary: Vocabulary, encoder: Encoder) -> WordCaptioner:
    try:
        return captioner_kind(config)(vocabulary, encoder, **config.arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"captioner {config.captioner} does not take its arguments: {error}") from error


def build_objective(
    config: ObjectiveConfig | None, captioner: WordCaptioner, training: Split
) -> Objective | None:
    """The objective that a configuration names; None for the captioner's own loss."""
    if config is None:
        return None
    try:
        kind: Callable[..., Objective] = OBJECTIVES[config.name]()
        return kind(captioner, training, **config.arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"objective {config.name} does not take its arguments: {error}") from error


def _check_names(config: TrainConfig, source: str) -> None:
    pre = config.pretraining.objective if config.pretraining else None
    if config.encoder not in ENCODERS:
        raise ConfigError(f"{source}: encoder: {config.encoder!r} is unknown; there is {', '.join(ENCODERS)}")
    named: dict[str, tuple[str, dict[str, Any], str, Mapping[str, Callable[[], Any]]]]
    named = {"captioner": (config.captioner, config.arguments, "arguments", CAPTIONERS)}
    for key, own in (("objective", config.objective), ("pretraining.objective", pre)):
        if own:
            named[f"{key}.name"] = own.name, own.arguments, f"{key}.arguments", OBJECTIVES
    for key, (name, arguments, section, known) in named.items():
        if name not in known:
            raise ConfigError(f"{source}: {key}: {name!r} is unknown; there is {', '.join(known)}")
        options = known[name]().Options
        taken = [each.name for each in dataclasses.fields(options)]
        unknown = arguments.keys() - set(taken)
        if unknown:
            raise ConfigError(
                f"{source}: {section}.{min(unknown)}: unknown key; {name} takes {', '.join(taken)}"
            )
        try:
            TypeAdapter(options).validate_json(to_json(arguments), strict=key == "captioner")
        except ValidationError as error:
            raise ConfigError(f"{source}: {_wrong(error, section)}") from error


def _wrong(error: ValidationError, *section: str) -> str:
    wrong = []
    for each in error.errors():
        unknown = each["type"] in ("extra_forbidden", "unexpected_keyword_argument")
        advice = "unknown key" if unknown else each["msg"].removeprefix("Value error, ")
        wrong.append(f"{'.'.join(map(str, (*section, *each['loc'])))}: {advice}")
    return "; ".join(wrong)
