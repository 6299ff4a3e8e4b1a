"""The configuration file: strict, with units, and with errors that say where and what instead."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from platformdirs import user_state_path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from daemon.durations import DURATION_PATTERN, RATE_PATTERN, format_duration, format_rate
from daemon.values import FrameSize, GreyLevels, Hertz, PlaceName, Polygon, Seconds, Share, Threshold
from daemon.yaml_lines import KeyPath, YamlError, YamlTree, read_yaml
from pipeline.record import RecordError, check_camera


class ConfigurationError(Exception):
    """The configuration cannot be used.

    Attributes:
        problems: one line each: file, line, key, what is wrong and what to write instead.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Rtsp(_Section):
    """How a live camera is read."""

    transport: Literal["tcp", "udp"] = Field("tcp", description="tcp loses nothing; udp only where tcp fails")
    open_timeout: Seconds = Field(5.0, description="longest wait for the camera to answer")
    stall_timeout: Seconds = Field(10.0, description="longest silence before it is opened again")


class Pairs(_Section):
    """Which two frames are worth comparing."""

    sample: Hertz = Field(2.0, description="frames a second that are looked at")
    lower: Threshold = Field(
        "auto", description="L2 distance in grey levels 0..255 below which nothing happened"
    )
    upper: Threshold = Field("auto", description="L2 distance beyond which the whole scene changed")
    settle: Seconds = Field(
        0.75, description="how long what changed must keep still before a pair is proposed"
    )
    max_wait: Seconds = Field(
        3.0, description="longest wait for that; then it is proposed although things move"
    )
    max_gap: Seconds = Field(60.0, description="age at which the reference is renewed while nothing happens")
    long_gap: Seconds = Field(300.0, description="the long baseline, which catches slow change")


class Clusters(_Section):
    """What counts as one change; what is null is as the captioner was trained."""

    size: FrameSize | None = Field(
        None, description="height and width in pixels at which frames are compared"
    )
    max_shift: Annotated[int, Field(ge=0, le=32)] | None = Field(
        None, description="alignment shift in pixels at most"
    )
    delta: GreyLevels | None = Field(
        None, description="L2 distance of RGB vectors above which a pixel differs"
    )
    noise_factor: Annotated[float, Field(ge=0)] | None = Field(
        None, description="a pixel must also differ by this many times the pair's median difference"
    )
    match_light: bool | None = Field(None, description="match brightness and contrast of both frames first")
    eps: Annotated[float, Field(gt=0)] | None = Field(
        None, description="DBSCAN radius in pixels of the difference mask"
    )
    min_samples: Annotated[int, Field(ge=1)] | None = Field(
        None, description="DBSCAN's least number of active pixels"
    )
    min_area: Share | None = Field(None, description="smaller clusters are dropped; share of the frame")
    light_correlation: Share | None = Field(
        None, description="a cluster that looks the same but for its light is dropped above this; 1 keeps it"
    )
    max_clusters: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="clusters per pair at most"
    )


class Narrate(_Section):
    """What is told."""

    max_sentences: Annotated[int, Field(ge=1, le=64)] = Field(16, description="sentences per pair at most")
    min_salience: Share = Field(0.05, description="least share of the greatest salience")
    min_confidence: Share | None = Field(
        None,
        description="least confidence of a sentence: higher tells less that is false and misses more; "
        "null is the captioner's own",
    )
    colours: bool = Field(True, description="say a colour where it is sure")
    beam_size: Annotated[int, Field(ge=1, le=32)] = Field(1, description="1 is greedy decoding")


class CameraDefaults(_Section):
    """What every camera has unless it says otherwise."""

    rtsp: Rtsp = Rtsp()
    pairs: Pairs = Pairs()
    clusters: Clusters = Clusters()
    narrate: Narrate = Narrate()


def _url(text: str) -> str:
    if not text.strip():
        raise ValueError("write an rtsp:// address, a file, a glob or a folder of stills")
    return text


class ZoneSettings(_Section):
    """A part of the picture that has a name."""

    name: PlaceName = Field(
        description='the words for the place as they stand in a sentence: "at the entrance"'
    )
    polygon: Polygon = Field(
        description="three corners [x, y] or more, in shares of the frame from its top left"
    )


class Camera(CameraDefaults):
    """One camera: where its frames come from, and what differs from the defaults."""

    url: Annotated[str, AfterValidator(_url)] = Field(
        description="rtsp:// address, file, glob or folder; secrets as ${env:..}, ${file:..}, ${cred:..}"
    )
    zones: Annotated[tuple[ZoneSettings, ...], Field(strict=False)] = Field(
        (), description="what stands in one is told to be there; the first that holds its foot counts"
    )


class RedisSettings(_Section):
    """Where narrations are published."""

    url: str | None = Field(
        None, description="redis:// rediss:// unix:// or embedded; absent: only the journal is written"
    )
    maxlen: Annotated[int, Field(ge=1)] = Field(100_000, description="stream entries kept per camera, about")


CaptionerName = Literal["grounded", "ddla"]
"""The captioners that ship; the keys of `models.SHIPPED`, which only torch can import."""


class CaptionerSettings(_Section):
    """Who writes the sentences."""

    model: CaptionerName | None = Field(None, description="one that is shipped; absent: the best of them")
    checkpoint: Annotated[Path | None, Field(strict=False)] = Field(
        None, description="a checkpoint file of your own, in place of a model"
    )
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = Field(
        "auto", description="auto, cpu, cuda or cuda:N"
    )
    batch: Annotated[int, Field(ge=1, le=256)] = Field(
        8, description="pairs that are narrated together at most"
    )
    wait: Seconds = Field(0.5, description="how long a batch waits for more pairs")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.model and self.checkpoint:
            raise ValueError("give model or checkpoint, not both")
        return self


def _named_captioner(value: Any) -> Any:
    """`captioner: ddla` is short for `captioner: {model: ddla}`."""
    return {"model": value} if isinstance(value, str) else value


def _default_state() -> Path:
    if folder := os.environ.get("STATE_DIRECTORY"):
        return Path(folder.split(":")[0])
    return user_state_path("narrated", appauthor=False)


class Configuration(_Section):
    """The whole file."""

    version: Literal[1] = Field(description="of this format")
    state: Annotated[Path, Field(strict=False)] = Field(
        default_factory=_default_state,
        description="folder of journals and calibrations; absent: systemd's StateDirectory or the user's",
    )
    redis: RedisSettings = RedisSettings()
    captioner: Annotated[CaptionerSettings, BeforeValidator(_named_captioner)] = CaptionerSettings()
    defaults: CameraDefaults = CameraDefaults()
    cameras: Annotated[dict[str, Camera], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _spread_defaults(cls, raw: Any) -> Any:
        """Every camera gets the defaults beneath its own keys."""
        if not isinstance(raw, dict) or not isinstance(raw.get("cameras"), dict):
            return raw
        defaults = raw.get("defaults", {})
        cameras = {name: _merged(defaults, camera) for name, camera in raw["cameras"].items()}
        return {**raw, "cameras": cameras}


def load_configuration(path: Path) -> Configuration:
    """Read and check a configuration file; secrets stay unread.

    Raises:
        ConfigurationError: it cannot be read or used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError([f"{path}: cannot be read: {reason}"]) from None
    return parse_configuration(text, str(path))


def parse_configuration(text: str, name: str = "configuration") -> Configuration:
    """Check the text of a configuration; `name` stands in the messages.

    Raises:
        ConfigurationError: with one line per problem.
    """
    try:
        tree = read_yaml(text)
    except YamlError as error:
        where = name if error.line is None else f"{name}:{error.line}"
        raise ConfigurationError([f"{where}: {error}"]) from None
    if not isinstance(tree.values, dict):
        raise ConfigurationError([f"{name}: is empty: start from configs/narrated.yaml"])
    problems = [_problem(name, tree, ("cameras", camera), bad) for camera, bad in _bad_names(tree.values)]
    try:
        configuration = Configuration.model_validate(tree.values)
    except ValidationError as error:
        found = [
            _problem(name, tree, _written(tree, _key_path(e["loc"])), _message(e["type"], e["msg"], e["loc"]))
            for e in error.errors(include_url=False, include_input=False)
        ]
        problems += dict.fromkeys(found)  # a mistake under defaults shows at every camera: tell it once
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    return configuration


def configuration_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the file, for editors, with defaults spelt as in the file."""
    schema = Configuration.model_json_schema()
    spellings = {DURATION_PATTERN: format_duration, RATE_PATTERN: format_rate}
    for section in (schema, *schema["$defs"].values()):
        for key in section["properties"].values():
            if isinstance(key.get("default"), dict):
                del key["default"]  # a section's keys tell their own
            elif key.get("pattern") in spellings and "default" in key:
                key["default"] = spellings[key["pattern"]](key["default"])
    captioner = schema["properties"]["captioner"]
    short = {"enum": list(get_args(CaptionerName)), "description": "one that is shipped"}
    schema["properties"]["captioner"] = {"anyOf": [short, captioner]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "narrated.yaml"}


def _bad_names(values: dict[str, Any]) -> list[tuple[str, str]]:
    cameras = values.get("cameras")
    names = cameras if isinstance(cameras, dict) else {}
    problems = []
    for name in names:
        try:
            check_camera(name)
        except RecordError as error:
            problems.append((name, str(error)))
    return problems


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
    return above


def _key_path(loc: tuple[int | str, ...]) -> KeyPath:
    """The path without pydantic's name of a union's member (a threshold is "auto" or a number)."""
    for key in ("lower", "upper"):
        if key in loc[:-1]:
            return loc[: loc.index(key) + 1]
    return loc


def _written(tree: YamlTree, path: KeyPath) -> KeyPath:
    """Where a camera's value was really written: at the camera, or under the defaults."""
    if len(path) > 2 and path[0] == "cameras" and path not in tree.lines:  # noqa: PLR2004 - cameras.NAME.key
        inherited = ("defaults", *path[2:])
        return inherited if inherited in tree.lines else path
    return path


def _problem(name: str, tree: YamlTree, path: KeyPath, message: str) -> str:
    line = tree.line(path)
    key = ".".join(str(part) for part in path)
    return f"{name}:{line}: {key}: {message}" if key else f"{name}:{line}: {message}"


def _message(kind: str, message: str, loc: tuple[int | str, ...]) -> str:
    if kind == "missing":
        return "this key is missing"
    if kind == "extra_forbidden":
        known = sorted(_fields_at(loc[:-1]))
        near = difflib.get_close_matches(str(loc[-1]), known, n=1, cutoff=0.5)
        return "unknown key; " + (f'did you mean "{near[0]}"?' if near else "known here: " + ", ".join(known))
    if {"lower", "upper"} & set(loc):
        return "write auto, or a number of grey levels 0..255"
    return message.removeprefix("Value error, ")


def _fields_at(loc: tuple[int | str, ...]) -> set[str]:
    """Names of the keys that are allowed at a place of the configuration."""
    model: Any = Configuration
    for part in loc:
        fields = getattr(model, "model_fields", None)
        if fields is None or part not in fields:
            continue  # the name of a camera
        annotation = fields[part].annotation
        model = next(
            (a for a in get_args(annotation) if isinstance(a, type) and issubclass(a, BaseModel)), annotation
        )
    return set(getattr(model, "model_fields", {}))
