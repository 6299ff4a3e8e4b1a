"""The sections of the configuration file; docs/configuration.md has the meaning of every key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, field_validator, model_validator

from daemon.config.forward import ForwardSettings
from daemon.config.serve import ServeSettings
from daemon.config.state import usual_state
from daemon.config.values import (
    AreaCorners,
    Hertz,
    Listen,
    PlaceName,
    Seconds,
    SecondsOrNone,
    Section,
    Size,
    Threshold,
    TimeZoneName,
)
from models import DEFAULT, SHIPPED
from pipeline.record import Share, check_camera


class Rtsp(Section):
    """Reading a live camera."""

    transport: Literal["tcp", "udp"] = "tcp"
    idle_keyframes: bool = False  # decode only those while nothing moves


class Pairs(Section):
    """Which frames are looked at; thresholds are L2 distances in grey levels, None is ``auto``."""

    sample: Hertz = 5.0
    lower: Threshold = None
    upper: Threshold = None


class Narrate(Section):
    """Sentences, and limits of messages."""

    min_confidence: Share | None = None  # the captioner's own
    colours: bool = True
    depth: bool = False  # foreground and background in place of top and bottom
    cooldown: SecondsOrNone = 20.0
    max_per_hour: Annotated[int, Field(ge=1)] | None = 60
    max_per_minute: Annotated[int, Field(ge=1)] | None = 10
    workers: Literal["none", "redis"] = "none"


class EvidenceSettings(Section):
    """Which pictures are kept of what is reported; they go when the records that name them go."""

    keep: Literal["all", "frames", "overlay", "none"] = "all"


class CameraDefaults(Section):
    """Sections of every camera, which may override them."""

    rtsp: Rtsp = Rtsp()
    pairs: Pairs = Pairs()
    narrate: Narrate = Narrate()
    evidence: EvidenceSettings = EvidenceSettings()


def _check_url(text: str) -> str:
    if not text.strip():
        raise ValueError("write an rtsp:// address, a file, a glob or a folder of stills")
    return text


class ZoneSettings(Section):
    """A part of the picture that has a name."""

    name: PlaceName  # as it stands in a sentence: "at the entrance"
    polygon: AreaCorners


class Camera(CameraDefaults):
    """One camera: where its frames come from, and what differs from the defaults."""

    url: Annotated[str, AfterValidator(_check_url)]
    screening: str | None = None  # a small second stream, which alone is decoded while nothing moves in it
    masks: dict[str, AreaCorners] = Field(default_factory=dict)  # ignored
    privacy: dict[str, AreaCorners] = Field(default_factory=dict)  # black right after decoding
    zones: Annotated[tuple[ZoneSettings, ...], Field(strict=False)] = ()  # of several, the first counts

    @model_validator(mode="after")
    def _check_screening(self) -> Self:
        if self.screening is not None:
            for address in (self.screening, self.url):
                if not address.startswith(("rtsp://", "rtsps://", "${")):
                    raise ValueError("screening: both streams need an rtsp:// address; else leave it out")
        return self


class RedisSettings(Section):
    """Server on which narrations are published."""

    url: str | None = None  # only the journal is written


class RetentionSettings(Section):
    """Limits of what is kept, None for no limit; unpublished records are never deleted."""

    age: Seconds | None = 90 * 86400.0
    size: Size | None = None
    free: Size | None = ByteSize(10**9)


def _check_placeholder(text: str) -> str:
    if not (text.startswith("${") and text.endswith("}")):
        raise ValueError("write ${cred:NAME}, ${file:PATH} or ${env:NAME}: keys do not belong in this file")
    return text


class SigningSettings(Section):
    """Signatures of the journals: they show lines cut off an end, or a journal that was rewritten."""

    key: Annotated[str, AfterValidator(_check_placeholder)] | None = None
    timestamps: Annotated[str, Field(pattern="^https?://[^/]+")] | None = None  # of an RFC 3161 server


class HttpSettings(Section):
    """Metrics and health."""

    listen: Listen | None = None


class CaptionerSettings(Section):
    """Model that writes the sentences."""

    model: str | None = None  # one that ships, or a checkpoint file; None is the default
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"

    @field_validator("model")
    @classmethod
    def _check_model(cls, model: str | None) -> str | None:
        if model is not None and model not in SHIPPED and not {".", "/"} & set(model):
            raise ValueError(f"{model!r} does not ship: write grounded, ddla, or a checkpoint file")
        return model

    @property
    def checkpoint(self) -> Path:
        """The file that is named, or that of the captioner that ships under the name."""
        model = self.model or DEFAULT
        return SHIPPED[model] if model in SHIPPED else Path(model)


CameraName = Annotated[str, AfterValidator(check_camera)]


def _expand_captioner(value: Any) -> Any:
    """`captioner: ddla` is short for `captioner: {model: ddla}`."""
    return {"model": value} if isinstance(value, str) else value


class Configuration(Section):
    """The whole file."""

    version: Literal[1]
    state: Annotated[Path, Field(strict=False)] = Field(default_factory=usual_state)
    timezone: TimeZoneName | None = None  # this machine's
    redis: RedisSettings = RedisSettings()
    http: HttpSettings = HttpSettings()
    retention: RetentionSettings = RetentionSettings()
    signing: SigningSettings = SigningSettings()
    captioner: Annotated[CaptionerSettings, BeforeValidator(_expand_captioner)] = CaptionerSettings()
    forward: ForwardSettings = ForwardSettings()
    serve: ServeSettings = ServeSettings()
    defaults: CameraDefaults = CameraDefaults()
    cameras: Annotated[dict[CameraName, Camera], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_workers(self) -> Self:
        if self.redis.url is None and any(each.narrate.workers == "redis" for each in self.cameras.values()):
            raise ValueError("narrate.workers: redis needs redis.url, the server where they meet")
        return self

    @model_validator(mode="before")
    @classmethod
    def _spread_defaults(cls, raw: Any) -> Any:
        """Every camera gets the defaults beneath its own keys."""
        if not isinstance(raw, dict) or not isinstance(raw.get("cameras"), dict):
            return raw
        defaults = raw.get("defaults", {})
        cameras = {name: _merge(defaults, camera) for name, camera in raw["cameras"].items()}
        return {**raw, "cameras": cameras}


def _merge(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: _merge(below.get(key), value) for key, value in above.items()}}
    return above
