"""When a JPEG was taken, by its EXIF data."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

_EXIF_FOLDER, _TAKEN, _ZONE, _FRACTION = 0x8769, 0x9003, 0x9011, 0x9291
_ASCII, _LONG = 2, 4
_HEAD = 256 * 1024  # bytes within which a JPEG's segments before the picture lie
_SEGMENT, _SCAN, _APP1 = 0xFF, 0xDA, 0xE1


def moment_in_exif(path: Path) -> datetime | None:
    """EXIF's DateTimeOriginal of a JPEG; None where there is none, or the file cannot be read.

    UTC where it tells its zone; else the camera's local time, given as UTC: good for differences.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_HEAD)
        tags = _tags(next(_exif(raw), b""))
        text = tags.get(_TAKEN, "")
        time = datetime.strptime(text, "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC)
    except (OSError, ValueError, struct.error):
        return None
    if fraction := re.match(r"\d+", tags.get(_FRACTION, "")):
        time += timedelta(seconds=float(f"0.{fraction[0]}"))
    if zone := re.match(r"([+-])(\d{2}):(\d{2})", tags.get(_ZONE, "")):
        offset = timedelta(hours=int(zone[2]), minutes=int(zone[3]))
        time += offset if zone[1] == "-" else -offset
    return time


def _exif(raw: bytes) -> Iterator[bytes]:
    """The TIFF part of a JPEG's EXIF segment."""
    at = 2
    while raw[:2] == b"\xff\xd8" and at + 4 <= len(raw) and raw[at] == _SEGMENT and raw[at + 1] != _SCAN:
        length = struct.unpack_from(">H", raw, at + 2)[0]
        if raw[at + 1] == _APP1 and raw[at + 4 : at + 10] == b"Exif\0\0":
            yield raw[at + 10 : at + 2 + length]
        at += 2 + length


def _tags(tiff: bytes) -> dict[int, str]:
    """Text of the tags of the EXIF folder within a TIFF.

    Raises:
        struct.error: it is cut off or damaged.
    """
    order = "<" if tiff[:2] == b"II" else ">"

    def entries(at: int) -> Iterator[tuple[int, int, int, int]]:
        for i in range(struct.unpack_from(f"{order}H", tiff, at)[0]):
            yield struct.unpack_from(f"{order}HHII", tiff, at + 2 + 12 * i)

    first = struct.unpack_from(f"{order}I", tiff, 4)[0]
    folders = [value for tag, kind, _, value in entries(first) if (tag, kind) == (_EXIF_FOLDER, _LONG)]
    found = {}
    for folder in folders:
        for i, (tag, kind, count, value) in enumerate(entries(folder)):
            if kind == _ASCII:
                at = value if count > 4 else folder + 2 + 12 * i + 8  # noqa: PLR2004 - short text lies inside
                found[tag] = tiff[at : at + count].split(b"\0")[0].decode("ascii", "replace")
    return found
