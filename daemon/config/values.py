"""Values of files and options: durations, rates, times, addresses, areas."""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, ValidationInfo

from daemon.config.units import parse_duration, parse_rate
from models.language.catalogue import Language
from models.language.places import Zone
from pipeline.record import Share

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
    from models.language.places import check_zone  # noqa: PLC0415 - only where a file has zones

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
