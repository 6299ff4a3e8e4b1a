"""The sections of the configuration file, their keys, defaults and meanings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

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

    transport: Literal["tcp", "udp"] = Field(
        "tcp", description="tcp, which loses nothing; udp only where tcp does not work"
    )
    idle_keyframes: bool = Field(
        False,
        description="decode only keyframes while nothing moves: cheap, but misses who crosses between two",
    )


class Pairs(Section):
    """Which two frames are worth comparing."""

    sample: Hertz = Field(
        "5/s",
        validate_default=True,
        description="how many frames are looked at while something moves: 5/s, or 2/s to spare processor",
    )
    lower: Threshold = Field(
        "auto",
        validate_default=True,
        description="L2 distance in grey levels 0..255 below which nothing happened",
    )
    upper: Threshold = Field(
        "auto", validate_default=True, description="L2 distance beyond which the whole scene changed"
    )


class Narrate(Section):
    """Sentences and messages."""

    min_confidence: Share | None = Field(
        None,
        description="least confidence of a sentence: higher reports less that is false and misses more; "
        "null is the captioner's own",
    )
    colours: bool = Field(True, description="name a colour where it is certain")
    depth: bool = Field(
        False,
        description="say near and far in place of bottom and top: for cameras that look ahead, not down",
    )
    cooldown: SecondsOrNone = Field(
        "20s",
        validate_default=True,
        description="a kind of event (type, object, place) is sent as a message once within this time; "
        "0s: always",
    )
    max_per_hour: Annotated[int, Field(ge=1)] | None = Field(
        60, description="messages in any hour at most; null: no limit; the record has everything"
    )
    max_per_minute: Annotated[int, Field(ge=1)] | None = Field(
        10, description="messages in a minute at most, one summary stands for the others; null: no limit"
    )
    workers: Literal["none", "redis"] = Field(
        "none", description="who looks at the pictures: this process, or `narrated worker`s through redis.url"
    )


class EvidenceSettings(Section):
    """Which pictures are kept of what is reported; they go when the records that name them go."""

    keep: Literal["all", "frames", "overlay", "none"] = Field(
        "all", description="frames: before and after; overlay: both side by side with what changed drawn in"
    )


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

    name: PlaceName = Field(description='the place as it stands in a sentence: "at the entrance"')
    polygon: AreaCorners = Field(
        description="three corners or more, [x, y] in shares of the frame from its top left"
    )


class Camera(CameraDefaults):
    """One camera: where its frames come from, and what differs from the defaults."""

    url: Annotated[str, AfterValidator(_check_url)] = Field(
        description="rtsp:// address, file, glob or folder; secrets as ${env:..}, ${file:..}, ${cred:..}"
    )
    screening: str | None = Field(
        None,
        description="rtsp:// address of the camera's small second stream, secrets as in url: it alone is "
        "decoded while nothing moves in it; absent: there is none",
    )
    masks: dict[str, AreaCorners] = Field(
        default_factory=dict,
        description="areas to ignore, each under a name of your own: corners [x, y] in shares of the frame",
    )
    privacy: dict[str, AreaCorners] = Field(
        default_factory=dict,
        description="areas that are black right after decoding: nothing in them is compared, kept or shown",
    )
    zones: Annotated[tuple[ZoneSettings, ...], Field(strict=False)] = Field(
        (), description="parts of the picture that have a name; where several overlap, the first counts"
    )

    @model_validator(mode="after")
    def _check_screening(self) -> Self:
        if self.screening is not None:
            for address in (self.screening, self.url):
                if not address.startswith(("rtsp://", "rtsps://", "${")):
                    raise ValueError("screening: both streams need an rtsp:// address; else leave it out")
        return self


class RedisSettings(Section):
    """Server on which narrations are published."""

    url: str | None = Field(
        None, description="redis://, rediss:// or unix://; absent: only the journal is written"
    )


class RetentionSettings(Section):
    """Limits of what is kept; unpublished records are never deleted."""

    age: Seconds | None = Field(
        "90d",
        validate_default=True,
        description="parts of a journal last written longer ago are deleted, with the pictures they name",
    )
    size: Size | None = Field(
        None, description="what journals and pictures of all cameras may take together; null: no limit"
    )
    free: Size | None = Field(
        "1GB", validate_default=True, description="what must stay free on the disk; null: nothing"
    )


def _check_placeholder(text: str) -> str:
    if not (text.startswith("${") and text.endswith("}")):
        raise ValueError("write ${cred:NAME}, ${file:PATH} or ${env:NAME}: keys do not belong in this file")
    return text


class SigningSettings(Section):
    """Signatures of the journals: they show lines cut off an end, or a journal that was rewritten."""

    key: Annotated[str, AfterValidator(_check_placeholder)] | None = Field(
        None,
        description="${cred:NAME} of the key that `verify --new-key` made; absent: nothing is signed",
    )


class HttpSettings(Section):
    """Metrics and health."""

    listen: Listen | None = Field(
        None, description="loopback address and port, such as 127.0.0.1:9464; absent: nothing is served"
    )


class CaptionerSettings(Section):
    """Model that writes the sentences."""

    model: str | None = Field(
        None, description="grounded or ddla, which ship, or a checkpoint file of your own; absent: grounded"
    )
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = Field(
        "auto", description="auto, cpu, cuda or cuda:N"
    )

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

    version: Literal[1] = Field(description="of this format")
    state: Annotated[Path, Field(strict=False)] = Field(
        default_factory=usual_state,
        description="folder of journals and pictures; absent: systemd's StateDirectory or the user's",
    )
    timezone: TimeZoneName | None = Field(
        None,
        description="of hours and local times on the page and in messages, such as Europe/Berlin; null: the "
        "machine's",
    )
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
