"""Values of the configuration that are more than a number or a text, each with what to write instead."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)

from daemon.config.durations import (
    DURATION_PATTERN,
    RATE_PATTERN,
    format_duration,
    format_rate,
    parse_duration,
    parse_rate,
)
from pipeline.record import Share


class Section(BaseModel):
    """A section of the file; strict: no unknown key, no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


# Not pydantic's ByteSize, which reads 8.2GB as a byte less, and takes a number without a unit.
UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
"""Bytes in each unit."""

SIZE_PATTERN = r"^(\d+(?:\.\d+)?)(B|kB|MB|GB|TB)$"
LARGEST_PORT = 65535


def parse_size(value: object) -> int:
    """Bytes of a size such as ``500MB`` or ``1.5GB``.

    Raises:
        ValueError: it has no unit, or is no size.
    """
    text = str(value).strip()
    if not (match := re.match(SIZE_PATTERN, text)):
        raise ValueError(f"{text!r} is not a size: write a number and its unit, such as 500MB or 10GB")
    return round(float(match[1]) * UNITS[match[2]])


def format_size(size: int) -> str:
    """The shortest exact spelling that `parse_size` reads back."""
    unit = next(unit for unit in ("TB", "GB", "MB", "kB", "B") if size % UNITS[unit] == 0 or unit == "B")
    return f"{size // UNITS[unit]}{unit if size else 'B'}"


def parse_listen(value: object) -> tuple[str, int]:
    """Host and port of an address of this machine.

    Raises:
        ValueError: it is none.
    """
    host, _, port = str(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        known = host == "localhost" or bool(ip_address(host))
    except ValueError:
        known = False
    if not (known and port.isdecimal() and int(port) <= LARGEST_PORT):
        raise ValueError(
            "write an address of this machine and a port: 127.0.0.1:8470, [::1]:8470, 0.0.0.0:8470"
        )
    return host, int(port)


def is_loopback(host: str) -> bool:
    """True for an address that only this machine can reach."""
    return host == "localhost" or ip_address(host).is_loopback


def format_listen(listen: tuple[str, int]) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    host, port = listen
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_loopback(value: object) -> tuple[str, int]:
    with suppress(ValueError):
        listen = parse_listen(value)
        if is_loopback(listen[0]):
            return listen
    raise ValueError(
        "write 127.0.0.1:PORT, [::1]:PORT or localhost:PORT: the pages ask for no password, so they are "
        "served on the loopback interface only; a proxy before them can ask for one"
    )


def _threshold(value: object) -> float | None:
    if value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_GREY:
        raise ValueError("write auto, or a number of grey levels 0..255")
    return float(value)


def _place_name(name: str) -> str:
    from models.language.statements import check_zone  # noqa: PLC0415 - only where a file has zones

    check_zone(name)
    return name


def _corners(value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(c, list) and len(c) == len("xy") for c in value):
        raise ValueError("write its corners [[x, y], [x, y], [x, y], ...]")
    if any(isinstance(share, int | float) and not 0 <= share <= 1 for corner in value for share in corner):
        raise ValueError(
            "corners are shares 0..1 of the frame, not pixels: `narrated snapshot --overlay` shows them"
        )
    return tuple(tuple(corner) for corner in value)


def _area(corners: Corners) -> Corners:
    from models.language.places import Zone  # noqa: PLC0415 - see above

    return Zone("here", corners).polygon


def _zone_info(name: str) -> str:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - only where a file names one

    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(
            f"{name!r} is not a time zone that this machine knows; write one such as Europe/Berlin"
        ) from None
    return name


def _schema(*examples: str, pattern: str | None = None) -> WithJsonSchema:
    return WithJsonSchema(
        {"type": "string", "examples": list(examples)} | ({"pattern": pattern} if pattern else {})
    )


_DURATION = (BeforeValidator(parse_duration), PlainSerializer(format_duration))
Seconds = Annotated[float, Field(gt=0), *_DURATION, _schema("5s", pattern=DURATION_PATTERN)]
SecondsOrNone = Annotated[float, Field(ge=0), *_DURATION, _schema("20s", "0s", pattern=DURATION_PATTERN)]
"""A duration, of which 0s switches off what it is for."""
Hertz = Annotated[
    float,
    BeforeValidator(parse_rate),
    PlainSerializer(format_rate),
    _schema("2/s", pattern=RATE_PATTERN),
]
Size = Annotated[
    int,
    Field(gt=0),
    BeforeValidator(parse_size),
    PlainSerializer(format_size),
    _schema("10GB", pattern=SIZE_PATTERN),
]
LARGEST_GREY = 255
Threshold = Annotated[
    float | None,
    PlainValidator(_threshold),
    PlainSerializer(lambda value: "auto" if value is None else value),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "number", "maximum": LARGEST_GREY}]}),
]
"""A number of grey levels; None is ``auto``."""
_LISTEN = (PlainSerializer(format_listen), _schema("127.0.0.1:8470"))
ListenAnywhere = Annotated[tuple[str, int], BeforeValidator(parse_listen), *_LISTEN]
Listen = Annotated[tuple[str, int], BeforeValidator(_parse_loopback), *_LISTEN]
"""On the loopback interface."""
PlaceName = Annotated[str, AfterValidator(_place_name)]
Corners = tuple[tuple[Share, Share], ...]
AreaCorners = Annotated[Corners, BeforeValidator(_corners), AfterValidator(_area)]
ZoneName = Annotated[str, AfterValidator(_zone_info)]
