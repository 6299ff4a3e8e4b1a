"""What can be configured: the sections of the configuration file, their keys, defaults and meanings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from daemon.config.forward import ForwardSettings
from daemon.config.section import Section
from daemon.config.state import usual_state
from daemon.config.values import (
    AreaCorners,
    FrameSize,
    GreyLevels,
    Hertz,
    Listen,
    PlaceName,
    Seconds,
    SecondsOrNone,
    Size,
    Threshold,
)
from pipeline.record import Share


class Rtsp(Section):
    """How a live camera is read."""

    transport: Literal["tcp", "udp"] = Field("tcp", description="tcp loses nothing; udp only where tcp fails")
    open_timeout: Seconds = Field(5.0, description="longest wait for the camera to answer")
    stall_timeout: Seconds = Field(10.0, description="longest silence before the camera is opened again")
    clock_skew: Seconds = Field(
        2.0, description="warn when the camera's clock differs from this machine's by more than this"
    )
    idle_keyframes: bool = Field(
        False,
        description="decode only keyframes while nothing moves: cheap, but who crosses between two is missed",
    )
    hardware: Annotated[str, Field(pattern=r"^[a-z0-9]+$")] = Field(
        "none", description="what decodes: none is the processor, auto any device, or one of FFmpeg's: cuda"
    )


class Pairs(Section):
    """Which two frames are worth comparing."""

    sample: Hertz = Field(2.0, description="frames per second to look at")
    lower: Threshold = Field(
        "auto", description="L2 distance in grey levels 0..255 below which nothing happened"
    )
    upper: Threshold = Field("auto", description="L2 distance beyond which the whole scene changed")
    settle: Seconds = Field(
        0.75, description="how long what changed must keep still before a pair is proposed"
    )
    max_wait: Seconds = Field(
        3.0, description="longest wait for that; then it is proposed even though things still move"
    )
    max_gap: Seconds = Field(60.0, description="age at which the reference is renewed while nothing happens")
    long_gap: Seconds = Field(300.0, description="the long baseline, which catches slow change")


class Clusters(Section):
    """What counts as one change; what is null is as the captioner was trained."""

    size: FrameSize | None = Field(
        None, description="height and width in pixels at which frames are compared"
    )
    max_shift: Annotated[int, Field(ge=0, le=32)] | None = Field(
        None, description="largest alignment shift, in pixels"
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
        None,
        description="a cluster that differs in light alone is dropped above this correlation; 1 keeps it",
    )
    max_clusters: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="most clusters per pair"
    )


class Narrate(Section):
    """What is told."""

    max_sentences: Annotated[int, Field(ge=1, le=64)] = Field(16, description="most sentences per pair")
    min_confidence: Share | None = Field(
        None,
        description="least confidence of a sentence: higher tells less that is false and misses more; "
        "null is the captioner's own",
    )
    colours: bool = Field(True, description="say a colour where it is sure")
    depth: bool = Field(
        False,
        description="say near and far in place of bottom and top: for cameras that look ahead, not down",
    )
    beam_size: Annotated[int, Field(ge=1, le=32)] = Field(1, description="1 is greedy decoding")
    merge: SecondsOrNone = Field(
        0.0, description="what follows so soon after something told shares its record; 0s: nothing does"
    )
    cooldown: SecondsOrNone = Field(
        20.0, description="a kind of change (type, object, place) is told once within this; 0s: always"
    )
    max_per_hour: Annotated[int, Field(ge=1)] | None = Field(
        60,
        description="most records within any hour, and as many again without the captioner; null: no limit",
    )
    deadline: SecondsOrNone = Field(
        30.0,
        description="what waits longer for the captioner is told by what is known without it; 0s: never",
    )


class EvidenceSettings(Section):
    """Which pictures are kept of what is told; they go when the records that name them go."""

    keep: Literal["all", "frames", "overlay", "none"] = Field(
        "all", description="frames: before and after; overlay: both side by side, with what is told drawn in"
    )
    format: Literal["jpeg", "webp"] = Field(
        "jpeg", description="webp takes a third of the space and twenty times as long to make"
    )
    quality: Annotated[int, Field(ge=1, le=100)] = Field(85, description="of the pictures")


class CameraDefaults(Section):
    """What every camera has unless it says otherwise."""

    rtsp: Rtsp = Rtsp()
    pairs: Pairs = Pairs()
    clusters: Clusters = Clusters()
    narrate: Narrate = Narrate()
    evidence: EvidenceSettings = EvidenceSettings()


def _url(text: str) -> str:
    if not text.strip():
        raise ValueError("write an rtsp:// address, a file, a glob or a folder of stills")
    return text


class ZoneSettings(Section):
    """A part of the picture that has a name."""

    name: PlaceName = Field(
        description='the words for the place as they stand in a sentence: "at the entrance"'
    )
    polygon: AreaCorners = Field(
        description="three corners [x, y] or more, in shares of the frame from its top left"
    )


class Camera(CameraDefaults):
    """One camera: where its frames come from, and what differs from the defaults."""

    url: Annotated[str, AfterValidator(_url)] = Field(
        description="rtsp:// address, file, glob or folder; secrets as ${env:..}, ${file:..}, ${cred:..}"
    )
    screening: str | None = Field(
        None,
        description="rtsp:// address of the camera's small second stream, secrets as in url: it alone is "
        "decoded while nothing moves in it; absent: there is none",
    )
    masks: dict[str, AreaCorners] = Field(
        default_factory=dict,
        description="areas that are not looked at, by any name: corners [x, y] in shares of the frame",
    )
    privacy: dict[str, AreaCorners] = Field(
        default_factory=dict,
        description="areas that are black from the decoder on: nothing of them is compared, kept or shown",
    )
    zones: Annotated[tuple[ZoneSettings, ...], Field(strict=False)] = Field(
        (), description="what stands in one is told to be there; the first that holds its foot counts"
    )

    @model_validator(mode="after")
    def _second_stream_of_a_camera(self) -> Self:
        for text, wrong in (
            (self.screening, "screening: write an rtsp:// address, or leave it out"),
            (self.screening and self.url, "screening is for cameras, rtsp://: leave it out"),
        ):
            if text is not None and not text.startswith(("rtsp://", "rtsps://", "${")):
                raise ValueError(wrong)
        return self


class RedisSettings(Section):
    """Where narrations are published."""

    url: str | None = Field(
        None, description="redis:// rediss:// unix:// or embedded; absent: only the journal is written"
    )
    maxlen: Annotated[int, Field(ge=1)] = Field(100_000, description="stream entries kept per camera, about")


class RetentionSettings(Section):
    """How much is kept; what is not published never goes."""

    age: Seconds | None = Field(
        90 * 86400.0, description="journal segments written longer ago go, and the pictures they name"
    )
    size: Size | None = Field(None, description="journals and pictures of all cameras together; null: any")
    free: Size | None = Field(10**9, description="space that must stay free on the disk; null: none")


def _placeholder(text: str) -> str:
    if not (text.startswith("${") and text.endswith("}")):
        raise ValueError(
            "write ${cred:NAME}, ${file:PATH} or ${env:NAME}: a key does not belong into this file"
        )
    return text


class SigningSettings(Section):
    """Who vouches for the journals: against lines cut off their ends, or all of one written anew."""

    key: Annotated[str, AfterValidator(_placeholder)] | None = Field(
        None, description="where the private key is, which `narrated keys` makes; absent: nothing is signed"
    )
    every: Seconds = Field(
        600.0, description="how often new records are signed; they are also signed at shutdown"
    )


class HttpSettings(Section):
    """Where metrics and health are served."""

    listen: Listen | None = Field(
        None, description="loopback address and port, such as 127.0.0.1:9464; absent: nothing is served"
    )


CaptionerName = Literal["grounded", "ddla"]
"""The captioners that ship; the keys of `models.SHIPPED`, which only torch can import."""


class CaptionerSettings(Section):
    """Who writes the sentences."""

    model: CaptionerName | None = Field(None, description="one that is shipped; absent: the best of them")
    checkpoint: Annotated[Path | None, Field(strict=False)] = Field(
        None, description="a checkpoint file of your own, in place of a model"
    )
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = Field(
        "auto", description="auto, cpu, cuda or cuda:N"
    )
    batch: Annotated[int, Field(ge=1, le=256)] = Field(8, description="most pairs narrated together")
    wait: Seconds = Field(0.5, description="longest that a batch waits for more pairs")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.model and self.checkpoint:
            raise ValueError("give model or checkpoint, not both")
        return self


def _named_captioner(value: Any) -> Any:
    """`captioner: ddla` is short for `captioner: {model: ddla}`."""
    return {"model": value} if isinstance(value, str) else value


class Configuration(Section):
    """The whole file."""

    version: Literal[1] = Field(description="of this format")
    state: Annotated[Path, Field(strict=False)] = Field(
        default_factory=usual_state,
        description="folder of journals and calibrations; absent: systemd's StateDirectory or the user's",
    )
    redis: RedisSettings = RedisSettings()
    http: HttpSettings = HttpSettings()
    retention: RetentionSettings = RetentionSettings()
    signing: SigningSettings = SigningSettings()
    captioner: Annotated[CaptionerSettings, BeforeValidator(_named_captioner)] = CaptionerSettings()
    forward: ForwardSettings = ForwardSettings()
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


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
    return above
