"""Training configuration: a YAML file, checked strictly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from models import CAPTIONERS
from models.encoders.encoder import ENCODERS, Encoder
from models.papers.captioner import WordCaptioner
from models.papers.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from pipeline.yaml_lines import YamlError, read_yaml
from train.grounded.stages import ChainOptions
from train.papers.batches import Split
from train.papers.objectives import OBJECTIVES, Objective
from train.papers.training import TrainOptions


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file, the key and what is allowed."""

    exit_code = 78


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _section(options: type[Any]) -> Any:
    hints = get_type_hints(options)
    fields: dict[str, Any] = {f.name: (hints[f.name], f.default) for f in dataclasses.fields(options)}
    return create_model(options.__name__, __base__=_Strict, **fields)


class ObjectiveConfig(_Strict):
    name: str  # key of `train.papers.objectives.OBJECTIVES`
    arguments: dict[str, Any] = Field(default_factory=dict)  # of its constructor


class PreTrainingConfig(_Strict):
    objective: ObjectiveConfig  # what it lowers
    training: TrainOptions = TrainOptions()  # see `TrainOptions`; the seed is the run's


class TrainConfig(_Strict):
    version: Literal[1]  # of this file format
    captioner: str = "ddla"  # key of `models.CAPTIONERS`
    # of its constructor, see the captioner's `Options`
    arguments: dict[str, Any] = Field(default_factory=dict)
    encoder: str = "efficientnet_lite0"  # key of `models.encoders.encoder.ENCODERS`
    encoder_weights: Path | None = None  # file with the encoder's weights; None takes those of its package
    # words seen less often in the training sentences are unknown (paper's Table 1: 5)
    min_count: int = Field(5, ge=1)
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
    return checked_config(content, str(path))


def checked_config(content: Mapping[str, Any], source: str) -> TrainConfig:
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
    for key, name, arguments, known in (
        ("captioner", config.captioner, config.arguments, CAPTIONERS),
        ("encoder", config.encoder, None, ENCODERS),
        *_objective("objective", config.objective),
        *_objective("pretraining.objective", pre),
    ):
        if name not in known:
            raise ConfigError(f"{source}: {key}: {name!r} is unknown; there is {', '.join(known)}")
        if arguments is None:
            continue
        options = known[name]().Options
        section = f"{key.rpartition('.name')[0]}.arguments".removeprefix(".")
        unknown = arguments.keys() - {each.name for each in dataclasses.fields(options)}
        if unknown:
            taken = ", ".join(each.name for each in dataclasses.fields(options))
            raise ConfigError(f"{source}: {section}.{min(unknown)}: unknown key; {name} takes {taken}")
        try:
            _section(options).model_validate(arguments, strict=key == "captioner")
        except ValidationError as error:
            raise ConfigError(f"{source}: {_wrong(error, section)}") from error


def _objective(key: str, config: ObjectiveConfig | None) -> list[tuple[str, str, dict[str, Any], Any]]:
    return [(f"{key}.name", config.name, config.arguments, OBJECTIVES)] if config else []


def _wrong(error: ValidationError, *section: str) -> str:
    return "; ".join(f"{'.'.join(map(str, (*section, *e['loc'])))}: {_advice(e)}" for e in error.errors())


def _advice(error: Any) -> str:
    unknown = ("extra_forbidden", "unexpected_keyword_argument")
    return "unknown key" if error["type"] in unknown else str(error["msg"]).removeprefix("Value error, ")
