"""Training configuration: a YAML file, checked strictly."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from models import CAPTIONERS
from models.captioner import Captioner
from models.encoder import ENCODERS, Encoder
from models.vocabulary import Vocabulary
from pipeline.changes import ChangeOptions
from train.loop import TrainOptions


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file, the key and what is allowed."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _section(options: type[Any]) -> Any:
    """A strict section with the keys, types and defaults of an options dataclass."""
    hints = get_type_hints(options)
    fields: dict[str, Any] = {f.name: (hints[f.name], f.default) for f in dataclasses.fields(options)}
    return create_model(options.__name__, __base__=_Strict, **fields)


_Changes, _Training = _section(ChangeOptions), _section(TrainOptions)


class TrainConfig(_Strict):
    """Everything that decides a training run besides the samples.

    Attributes:
        version: of this file format.
        captioner: key of `models.CAPTIONERS`.
        arguments: of its constructor.
        encoder: key of `models.encoder.ENCODERS`.
        encoder_weights: file with the encoder's weights; None takes those of its package.
        min_count: words seen less often in the training sentences are unknown (paper's Table 1: 5).
        changes: how clusters are found, see `ChangeOptions`.
        training: see `TrainOptions`.
    """

    version: Literal[1]
    captioner: str = "ddla"
    arguments: dict[str, Any] = Field(default_factory=dict)
    encoder: str = "efficientnet_lite0"
    encoder_weights: Path | None = None
    min_count: int = Field(5, ge=1)
    changes: Any = Field(default_factory=dict, validate_default=True)
    training: Any = Field(default_factory=dict, validate_default=True)

    def change_options(self) -> ChangeOptions:
        """The section `changes`."""
        return ChangeOptions(**dict(self.changes))

    def train_options(self) -> TrainOptions:
        """The section `training`.

        Raises:
            ConfigError: a value is out of range.
        """
        try:
            return TrainOptions(**dict(self.training))
        except ValueError as error:
            raise ConfigError(str(error)) from error


_Checked: Any = create_model(
    "TrainConfig",
    __base__=TrainConfig,
    changes=(_Changes, Field(default_factory=_Changes)),
    training=(_Training, Field(default_factory=_Training)),
)


def load_config(path: Path, **training: Any) -> TrainConfig:
    """Read and check a configuration.

    Args:
        path: YAML file.
        training: keys of the section `training` that override the file; None leaves the file's value.

    Raises:
        ConfigError: absent, no YAML, an unknown key, or a value of the wrong type or name.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold a mapping that begins with `version: 1`")
    explicit = {key: value for key, value in training.items() if value is not None}
    if explicit and isinstance(content.get("training", {}), dict | None):
        content = {**content, "training": {**(content.get("training") or {}), **explicit}}
    try:
        config: TrainConfig = _Checked.model_validate(content)
        config.train_options()
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {_advice(e)}" for e in error.errors())
        raise ConfigError(f"{path}: {wrong}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    _check_names(config, path)
    return config


def build_encoder(config: TrainConfig) -> Encoder:
    """The encoder that a configuration names.

    Raises:
        ConfigError: its weights file cannot be used, or its package is not installed.
    """
    try:
        return ENCODERS[config.encoder](config.encoder_weights)
    except (OSError, ImportError, RuntimeError) as error:
        raise ConfigError(f"encoder {config.encoder} cannot be loaded: {error}") from error


def build_captioner(config: TrainConfig, vocabulary: Vocabulary, encoder: Encoder) -> Captioner:
    """The captioner that a configuration names, with random weights.

    Raises:
        ConfigError: an argument has a value that the captioner does not take.
    """
    try:
        return CAPTIONERS[config.captioner]()(vocabulary, encoder, **config.arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"captioner {config.captioner} does not take its arguments: {error}") from error


def _check_names(config: TrainConfig, path: Path) -> None:
    for key, name, known in (
        ("captioner", config.captioner, CAPTIONERS),
        ("encoder", config.encoder, ENCODERS),
    ):
        if name not in known:
            raise ConfigError(f"{path}: {key}: {name!r} is unknown; there is {', '.join(known)}")
    taken = inspect.signature(CAPTIONERS[config.captioner]().__init__).parameters
    allowed = [name for name, p in taken.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for key in config.arguments:
        if key not in allowed:
            raise ConfigError(
                f"{path}: arguments.{key}: unknown key; {config.captioner} takes {', '.join(allowed)}"
            )


def _advice(error: Any) -> str:
    return "unknown key" if error["type"] == "extra_forbidden" else str(error["msg"])
