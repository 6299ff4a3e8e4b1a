"""The sections of the configuration file; docs/configuration.md has the meaning of every key."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from daemon.config.units import parse_duration, parse_rate, usual_state
from models import DEFAULT, SHIPPED
from models.language.catalogue import Language
from models.language.places import Door, Line, Zone, check_zone
from pipeline.record import Share
from pipeline.record_format import Action, ChangeType, Event, check_camera

_LARGEST_PORT = 65535


class Section(BaseModel):
    """A section of the file; strict: no unknown key, no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def parse_listen(value: object) -> tuple[str, int]:
    """Host and port of an address here, such as 127.0.0.1:8470, or those themselves; raises `ValueError`."""
    host, _, port = (format_listen(value) if isinstance(value, tuple) else str(value)).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        known = host == "localhost" or bool(ip_address(host))
    except ValueError:
        known = False
    if not (known and port.isdecimal() and int(port) <= _LARGEST_PORT):
        raise ValueError("write an address of this machine and a port: 127.0.0.1:8470, 0.0.0.0:8470")
    return host, int(port)


def is_loopback(host: str) -> bool:
    return host == "localhost" or ip_address(host).is_loopback


def format_listen(listen: tuple[str, int]) -> str:
    host, port = listen
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def matching(pattern: str, advice: str) -> AfterValidator:
    """Refuses a text that does not match as a whole, with advice."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(advice)
        return text

    return AfterValidator(check)


def _parse_loopback(value: object) -> tuple[str, int]:
    with suppress(ValueError):
        listen = parse_listen(value)
        if is_loopback(listen[0]):
            return listen
    raise ValueError("write 127.0.0.1:PORT, [::1]:PORT or localhost:PORT: these pages ask for no password")


def _check_place_name(name: str, file: ValidationInfo) -> str:
    check_zone(name, english=not (file.context or {}).get("language"))
    return name


def _check_catalogue(path: Path) -> Path:
    try:
        Language().use(path.read_bytes())
    except (OSError, struct.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{path} cannot be read ({reason}): msgfmt makes a .mo of a .po file") from None
    return path


def _parse_corners(value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(c, list) and len(c) == len("xy") for c in value):
        raise ValueError("write its corners as [[x, y], [x, y], [x, y], ...]")
    if any(isinstance(share, int | float) and not 0 <= share <= 1 for corner in value for share in corner):
        raise ValueError("corners are shares 0..1 of the frame, not pixels: `narrated serve` draws them")
    return tuple(tuple(corner) for corner in value)


def _need_unit(value: object) -> object:
    if isinstance(value, int | float) or (isinstance(value, str) and value.strip().isdigit()):
        raise ValueError(f"write it with its unit, such as {value} GB")
    return value


def _parse_directions(value: Any) -> Any:
    if isinstance(value, list) and len(value) not in {0, 2}:
        raise ValueError("name both directions, or neither: [into the yard, out of the yard]")
    return tuple(value) if isinstance(value, list) else value


def _check_line(points: Corners) -> Corners:
    if len(points) < len("ab") or any(a == b for a, b in pairwise(points)):
        raise ValueError("write two points or more [[x, y], [x, y]], each different from the one before")
    return points


def _check_time_zone(name: str) -> str:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - only where a file names one

    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(f"{name!r} is not a time zone known here; write one such as Europe/Berlin") from None
    return name


Seconds = Annotated[float, Field(gt=0), BeforeValidator(parse_duration)]
SecondsOrNone = Annotated[float, Field(ge=0), BeforeValidator(parse_duration)]
"""A duration, of which 0s switches off what it is for."""
Hertz = Annotated[float, Field(le=1000), BeforeValidator(parse_rate)]  # a record says how often
Size = Annotated[ByteSize, Field(gt=0), BeforeValidator(_need_unit)]
Threshold = Annotated[
    Annotated[float, Field(gt=0, le=255)] | None,
    BeforeValidator(lambda value: None if value == "auto" else value),
]
"""A number of grey levels; None is ``auto``."""
ListenAnywhere = Annotated[tuple[str, int], BeforeValidator(parse_listen)]
Listen = Annotated[tuple[str, int], BeforeValidator(_parse_loopback)]  # on the loopback interface
PlaceName = Annotated[str, AfterValidator(_check_place_name)]
Corners = tuple[tuple[Share, Share], ...]
LinePoints = Annotated[Corners, BeforeValidator(_parse_corners), AfterValidator(_check_line)]
Catalogue = Annotated[Path, AfterValidator(_check_catalogue), Field(strict=False)]
_PLAIN_WORDS = r"[^\W\d_]([^\W\d_]|[' -]){0,38}[^\W\d_]"
LineName = Annotated[str, matching(_PLAIN_WORDS, "write a few plain words, such as the gate line")]
Directions = Annotated[tuple[LineName, ...], BeforeValidator(_parse_directions)]
"""Words of both directions across a line; none takes those of the picture."""
_check_area = AfterValidator(lambda corners: Zone("here", corners).polygon)
AreaCorners = Annotated[Corners, BeforeValidator(_parse_corners), _check_area]
TimeZoneName = Annotated[str, AfterValidator(_check_time_zone)]


class Rtsp(Section):
    transport: Literal["tcp", "udp"] = "tcp"
    idle_keyframes: bool = False  # decode only those while nothing moves


class Pairs(Section):
    """Which frames are looked at; thresholds are L2 distances in grey levels, None is ``auto``."""

    sample: Hertz = 5.0
    lower: Threshold = None
    upper: Threshold = None


class Narrate(Section):
    min_confidence: Share | None = None  # the captioner's own
    colours: bool = True
    depth: bool = False  # foreground and background in place of top and bottom
    cooldown: SecondsOrNone = 20.0
    max_per_hour: Annotated[int, Field(ge=1)] | None = 60
    max_per_minute: Annotated[int, Field(ge=1)] | None = 20
    workers: Literal["none", "redis"] = "none"


class EvidenceSettings(Section):
    """Which pictures are kept of what is reported; they go when the records that name them go."""

    keep: Literal["all", "frames", "overlay", "none"] = "all"


class CameraDefaults(Section):
    rtsp: Rtsp = Rtsp()
    pairs: Pairs = Pairs()
    narrate: Narrate = Narrate()
    evidence: EvidenceSettings = EvidenceSettings()


class ZoneSettings(Section):
    name: PlaceName  # as it stands in a sentence: "at the entrance"
    polygon: AreaCorners


class LineSettings(Section):
    name: LineName  # as it stands in a sentence: "has crossed the gate line"
    points: LinePoints
    directions: Directions = ()  # from the left to the right of one who follows it, and back

    @property
    def line(self) -> Line:
        return Line(self.name, self.points, self.directions)


class DoorSettings(Section):
    name: LineName  # as it stands in a sentence: "The gate has opened."
    polygon: AreaCorners  # where it is closed
    usually: Literal["closed", "open"] = "closed"

    @property
    def door(self) -> Door:
        return Door(self.name, self.polygon, self.usually)


PageAddress = Annotated[
    str,
    matching(
        r"https?://[^\s/@]+(/[^\s]*)?",
        "write the http:// or https:// address of a page with the live picture, without a password",
    ),
]


class Camera(CameraDefaults):
    url: Annotated[str, matching(r".*\S.*", "write an rtsp:// address, a file, a glob or a folder of stills")]
    screening: str | None = None  # a small second stream, which alone is decoded while nothing moves in it
    live_url: PageAddress | None = None  # where the page links to
    masks: dict[str, AreaCorners] = Field(default_factory=dict)  # ignored
    privacy: dict[str, AreaCorners] = Field(default_factory=dict)  # black right after decoding
    zones: Annotated[tuple[ZoneSettings, ...], Field(strict=False)] = ()  # of several, the first counts
    doors: Annotated[tuple[DoorSettings, ...], Field(strict=False)] = ()  # opening and closing is reported
    lines: Annotated[tuple[LineSettings, ...], Field(strict=False)] = ()  # crossing one is reported

    @model_validator(mode="after")
    def _check_screening(self) -> Self:
        if self.screening is not None:
            for address in (self.screening, self.url):
                if not address.startswith(("rtsp://", "rtsps://", "${")):
                    raise ValueError("screening: both streams need an rtsp:// address; else leave it out")
        return self


class RedisSettings(Section):
    url: str | None = None  # only the journal is written


class RetentionSettings(Section):
    """Limits of what is kept, None for no limit; unpublished records are never deleted."""

    age: Seconds | None = 90 * 86400.0
    size: Size | None = None
    free: Size | None = ByteSize(10**9)


Placeholder = Annotated[
    str,
    matching(r"\$\{.*\}", "write ${cred:NAME}, ${file:PATH} or ${env:NAME}: keys do not belong in this file"),
]


class SigningSettings(Section):
    key: Placeholder | None = None
    timestamps: Annotated[str, Field(pattern="^https?://[^/]+")] | None = None  # of an RFC 3161 server


class HttpSettings(Section):
    listen: Listen | None = None


class CaptionerSettings(Section):
    model: str | None = None  # one that ships, or a checkpoint file; None is the default
    device: Annotated[str, matching(r"auto|cpu|cuda(:\d+)?", "write auto, cpu, cuda or cuda:1")] = "auto"

    @field_validator("model")
    @classmethod
    def _check_model(cls, model: str | None) -> str | None:
        if model is not None and model not in SHIPPED and not {".", "/"} & set(model):
            raise ValueError(f"{model!r} does not ship: write grounded, ddla, or a checkpoint file")
        return model

    @property
    def checkpoint(self) -> Path:
        model = self.model or DEFAULT
        return SHIPPED[model] if model in SHIPPED else Path(model)


_name_or_section = BeforeValidator(lambda value: {"model": value} if isinstance(value, str) else value)
"""`captioner: ddla` is short for `captioner: {model: ddla}`."""


HostName = Annotated[
    str,
    matching(r"[\w-]+(\.[\w-]+)*", "write a host name as it stands in the address, without the port"),
    AfterValidator(str.lower),
]


class ServeSettings(Section):
    listen: ListenAnywhere = ("127.0.0.1", 8470)
    hosts: Annotated[tuple[HostName, ...], Field(strict=False)] = ()  # beside localhost and addresses
    passwords: str | None = None  # a file, or ${cred:NAME}
    proxy: bool = False  # one on this machine passes requests on; its X-Forwarded-For counts

    @model_validator(mode="after")
    def _check_access(self) -> Self:
        loopback = is_loopback(self.listen[0])
        if not loopback and self.passwords is None:
            raise ValueError("listen: others can connect there: set passwords, or listen on 127.0.0.1")
        if self.proxy and self.passwords is None:
            raise ValueError("proxy: others connect through it: set passwords")
        if self.proxy and not loopback:
            raise ValueError("proxy: listen on 127.0.0.1, so that the proxy cannot be bypassed")
        return self


_KINDS = tuple(k for k in get_args(Literal[ChangeType, Event, Action]) if k not in {"none", "change"})
EVENT_TYPES = tuple(kind for kind in _KINDS if kind not in {"cap_reached", "cap_ended"})
"""In Home Assistant."""
PictureChoice = Literal["overlay", "after", "before", "none"]

_HOUR = r"([01]\d|2[0-3]):[0-5]\d"


_one_or_many = BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
Words = Annotated[tuple[str, ...], _one_or_many, Field(strict=False)]
Topic = Annotated[
    str,
    matching(
        r"[^+#\x00$/]([^+#\x00]*[^+#\x00/])?", "write an MQTT topic without +, # and $, and no / at its ends"
    ),
]
Hours = Annotated[
    str, matching(f"{_HOUR}-{_HOUR}", 'write from and to of the day as "22:00-06:00", in quotes')
]
DigestHour = Annotated[str, matching(_HOUR, 'write a time of the day as "07:00", in quotes')]
TargetName = Annotated[
    str, matching(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", "write letters, digits, - and _, at most 32")
]


class FilterSettings(Section):
    camera: Words = ()  # names, or patterns such as yard-*
    zone: Words = ()
    object: Words = ()
    # of sentences, or events of records
    kind: Annotated[tuple[Literal[_KINDS], ...], _one_or_many, Field(strict=False)] = ()  # type: ignore[valid-type]
    confidence: Share = 0.0
    hours: Hours | None = None  # by `timezone`: "22:00-06:00"


class TargetSettings(Section):
    kind: ClassVar[str]  # its key in the section

    url: str
    filter: FilterSettings = FilterSettings()
    picture: PictureChoice = "overlay"


class MqttSettings(TargetSettings):
    kind = "mqtt"
    off_delay: ClassVar[float] = 60.0  # seconds that a binary sensor stays on

    topic: Topic = "narrated"
    discovery: Topic | None = "homeassistant"  # prefix under which Home Assistant looks for devices
    ca: Annotated[Path | None, Field(strict=False)] = None  # of the broker's certificate; the system's


class AppriseSettings(TargetSettings):
    kind = "apprise"

    message: Literal["text", "record"] = "text"  # the sentences, or the record's JSON
    digest: tuple[DigestHour, ...] = Field((), strict=False)  # hours by `timezone` at which one is sent


def _check_unique(what: str, names: list[str]) -> None:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two {what} are called {twice!r}: give each its own name")


class ForwardSettings(Section):
    mqtt: dict[TargetName, MqttSettings] = Field(default_factory=dict)
    apprise: dict[TargetName, AppriseSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        _check_unique("targets", [name for name, _ in self.targets()])
        return self

    def targets(self) -> Iterator[tuple[str, TargetSettings]]:
        for kind in type(self).model_fields:
            yield from getattr(self, kind).items()

    def addresses(self) -> Iterator[tuple[str, str]]:
        """Addresses, which may name secrets, by their keys in the file."""
        for name, target in self.targets():
            yield f"forward.{target.kind}.{name}.url", target.url


CameraName = Annotated[str, AfterValidator(check_camera)]


class RuleSettings(Section):
    name: Annotated[
        str, matching(r"[^\s\"]([^\n\"]{0,58}[^\s\"])?", "write words without quotes, 60 letters at most")
    ]
    when: Annotated[str, matching(r".*\w.*", "write what happens: a van stands at the gate for 10 min")]
    hours: Hours | None = None  # by `timezone`: "22:00-06:00"
    cooldown: SecondsOrNone = 0.0  # it fires once within this
    cameras: Words = ()  # all


class Configuration(Section):
    version: Literal[1]
    state: Annotated[Path, Field(strict=False)] = Field(default_factory=usual_state)
    timezone: TimeZoneName | None = None  # this machine's
    language: Catalogue | None = None  # English
    redis: RedisSettings = RedisSettings()
    http: HttpSettings = HttpSettings()
    retention: RetentionSettings = RetentionSettings()
    signing: SigningSettings = SigningSettings()
    captioner: Annotated[CaptionerSettings, _name_or_section] = CaptionerSettings()
    forward: ForwardSettings = ForwardSettings()
    serve: ServeSettings = ServeSettings()
    defaults: CameraDefaults = CameraDefaults()
    cameras: Annotated[dict[CameraName, Camera], Field(min_length=1)]
    rules: Annotated[tuple[RuleSettings, ...], Field(strict=False)] = ()

    @field_validator("rules")
    @classmethod
    def _check_rule_names(cls, rules: tuple[RuleSettings, ...]) -> tuple[RuleSettings, ...]:
        _check_unique("rules", [rule.name for rule in rules])
        return rules

    @model_validator(mode="after")
    def _check_workers(self) -> Self:
        if self.redis.url is None and any(each.narrate.workers == "redis" for each in self.cameras.values()):
            raise ValueError("narrate.workers: redis needs redis.url, the server where they meet")
        return self

    @model_validator(mode="before")
    @classmethod
    def _spread_defaults(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or not isinstance(raw.get("cameras"), dict):
            return raw
        defaults = raw.get("defaults", {})
        cameras = {name: _merge(defaults, camera) for name, camera in raw["cameras"].items()}
        return {**raw, "cameras": cameras}


def _merge(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: _merge(below.get(key), value) for key, value in above.items()}}
    return above
