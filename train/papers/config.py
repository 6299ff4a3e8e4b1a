"""Training configuration: a YAML file, checked strictly."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from models import CAPTIONERS
from models.encoders import ENCODERS, Encoder
from models.papers.captioner import WordCaptioner
from models.papers.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from pipeline.yaml_lines import YamlError, read_yaml
from train.grounded.stages import ChainOptions
from train.papers.batches import Split
from train.papers.objectives import OBJECTIVES, Objective
from train.papers.suites import Strict
from train.papers.training import TrainOptions


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file, the key and what is allowed."""

    exit_code = 78


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
