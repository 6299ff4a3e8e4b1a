"""What can be configured: the sections of the configuration file, their keys, defaults and meanings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from daemon.config.forward import ForwardSettings
from daemon.config.section import Section
from daemon.config.serve import ServeSettings
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

    transport: Literal["tcp", "udp"] = Field(
        "tcp", description="tcp, which loses nothing; udp only where tcp does not work"
    )
    open_timeout: Seconds = Field(5.0, description="how long to wait for the camera to answer")
    stall_timeout: Seconds = Field(
        10.0, description="how long the camera may be silent before it is opened again"
    )
    clock_skew: Seconds = Field(
        2.0, description="warn when the camera's clock differs from this machine's by more than this"
    )
    idle_keyframes: bool = Field(
        False,
        description="decode only keyframes while nothing moves: cheap, but misses who crosses between two",
    )
    hardware: Annotated[str, Field(pattern=r"^[a-z0-9]+$")] = Field(
        "none",
        description="what decodes: none (the processor), auto, or one of FFmpeg's devices, such as cuda",
    )


class Pairs(Section):
    """Which two frames are worth comparing."""

    sample: Hertz = Field(2.0, description="how many frames are looked at, such as 2/s")
    lower: Threshold = Field(
        "auto", description="L2 distance in grey levels 0..255 below which nothing happened"
    )
    upper: Threshold = Field("auto", description="L2 distance beyond which the whole scene changed")
    settle: Seconds = Field(0.75, description="how long a change must keep still before it is reported")
    max_wait: Seconds = Field(
        3.0, description="longest wait for that; then it is reported although things still move"
    )
    max_gap: Seconds = Field(60.0, description="how often the picture of the quiet scene is renewed")
    long_gap: Seconds = Field(
        300.0, description="time between the frames of a second comparison, which catches slow changes"
    )


class Clusters(Section):
    """What counts as one change; what is null is as the captioner was trained."""

    size: FrameSize | None = Field(
        None, description="height and width in pixels at which frames are compared"
    )
    max_shift: Annotated[int, Field(ge=0, le=32)] | None = Field(
        None, description="camera shake that is undone, in pixels"
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
        None, description="DBSCAN: how many pixels make a cluster"
    )
    min_area: Share | None = Field(None, description="smaller clusters are ignored; share of the frame")
    light_correlation: Share | None = Field(
        None,
        description="clusters in which only the light differs are ignored above this correlation; 1: none",
    )
    max_clusters: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="clusters in a pair at most"
    )


class Narrate(Section):
    """What is told."""

    max_sentences: Annotated[int, Field(ge=1, le=64)] = Field(
        16, description="sentences in a narration at most"
    )
    min_confidence: Share | None = Field(
        None,
        description="least confidence of a sentence: higher tells less that is false and misses more; "
        "null is the captioner's own",
    )
    colours: bool = Field(True, description="name a colour where it is certain")
    depth: bool = Field(
        False,
        description="say near and far in place of bottom and top: for cameras that look ahead, not down",
    )
    beam_size: Annotated[int, Field(ge=1, le=32)] = Field(
        1, description="width of the beam search for words; 1 is greedy"
    )
    merge: SecondsOrNone = Field(
        0.0, description="what follows a narration within this time is added to its record; 0s: nothing is"
    )
    cooldown: SecondsOrNone = Field(
        20.0,
        description="a kind of change (type, object, place) is reported once within this time; 0s: always",
    )
    max_per_hour: Annotated[int, Field(ge=1)] | None = Field(
        60,
        description="records in any hour at most, and as many again without the captioner; null: no limit",
    )
    workers: Literal["none", "redis"] = Field(
        "none", description="who looks at the pictures: this process, or `narrated worker`s through redis.url"
    )
    deadline: SecondsOrNone = Field(
        30.0,
        description="a pair that waits longer is reported without the captioner; 0s: it waits",
    )


class EvidenceSettings(Section):
    """Which pictures are kept of what is told; they go when the records that name them go."""

    keep: Literal["all", "frames", "overlay", "none"] = Field(
        "all", description="frames: before and after; overlay: both side by side with what changed drawn in"
    )
    format: Literal["jpeg", "webp"] = Field(
        "jpeg", description="webp takes a third of the space and about twenty times as long to make"
    )
    quality: Annotated[int, Field(ge=1, le=100)] = Field(85, description="of the pictures, 1 to 100")

    @property
    def suffix(self) -> Literal["jpg", "webp"]:
        """Of the pictures' files."""
        return "webp" if self.format == "webp" else "jpg"


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

    name: PlaceName = Field(description='the place as it stands in a sentence: "at the entrance"')
    polygon: AreaCorners = Field(
        description="three corners or more, [x, y] in shares of the frame from its top left"
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
    maxlen: Annotated[int, Field(ge=1)] = Field(
        100_000, description="entries kept on the stream of each camera, roughly"
    )


class RetentionSettings(Section):
    """How much is kept; what is not published never goes."""

    age: Seconds | None = Field(
        90 * 86400.0,
        description="parts of a journal last written longer ago are deleted, with the pictures they name",
    )
    size: Size | None = Field(
        None, description="what journals and pictures of all cameras may take together; null: no limit"
    )
    free: Size | None = Field(10**9, description="what must stay free on the disk; null: nothing")


def _placeholder(text: str) -> str:
    if not (text.startswith("${") and text.endswith("}")):
        raise ValueError("write ${cred:NAME}, ${file:PATH} or ${env:NAME}: keys do not belong in this file")
    return text


class SigningSettings(Section):
    """Who vouches for the journals: against lines cut off their ends, or all of one written anew."""

    key: Annotated[str, AfterValidator(_placeholder)] | None = Field(
        None, description="where the private key is that `narrated keys` has made; absent: nothing is signed"
    )
    every: Seconds = Field(600.0, description="how often new records are signed; also when the service stops")


class HttpSettings(Section):
    """Where metrics and health are served."""

    listen: Listen | None = Field(
        None, description="loopback address and port, such as 127.0.0.1:9464; absent: nothing is served"
    )


CaptionerName = Literal["grounded", "ddla"]
"""The captioners that ship; the keys of `models.SHIPPED`, which only torch can import."""


class CaptionerSettings(Section):
    """Who writes the sentences."""

    model: CaptionerName | None = Field(None, description="one that ships; absent: the best of them")
    checkpoint: Annotated[Path | None, Field(strict=False)] = Field(
        None, description="a checkpoint file of your own instead of a model"
    )
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = Field(
        "auto", description="auto, cpu, cuda or cuda:N"
    )
    batch: Annotated[int, Field(ge=1, le=256)] = Field(
        8, description="how many pairs are narrated together at most"
    )
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
        description="folder of journals and pictures; absent: systemd's StateDirectory or the user's",
    )
    redis: RedisSettings = RedisSettings()
    http: HttpSettings = HttpSettings()
    retention: RetentionSettings = RetentionSettings()
    signing: SigningSettings = SigningSettings()
    captioner: Annotated[CaptionerSettings, BeforeValidator(_named_captioner)] = CaptionerSettings()
    forward: ForwardSettings = ForwardSettings()
    serve: ServeSettings = ServeSettings()
    defaults: CameraDefaults = CameraDefaults()
    cameras: Annotated[dict[str, Camera], Field(min_length=1)]

    @model_validator(mode="after")
    def _workers_are_met_at_a_server(self) -> Self:
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
        cameras = {name: _merged(defaults, camera) for name, camera in raw["cameras"].items()}
        return {**raw, "cameras": cameras}


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
    return above
