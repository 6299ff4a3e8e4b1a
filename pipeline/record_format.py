"""The format of records and of a journal's files, without the record's model.

Searching journals needs no more; pydantic and the model take a tenth of a second to load.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Self

CAMERA = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"
SINCE = TIME.replace("^", "^(before )?")
"""Patterns of a camera's name, a time, and a time before which nothing is known."""

ACCESS_LOG = "access.log"  # the name of the log of who looked at the record

_HASH_KEY = b'"hash":"'
_SEGMENT = re.compile(r"\.[0-9]{12}$")
_CLOSED = re.compile(r"(?P<camera>.+)\.(?P<first>\d{12})\.jsonl")

ChangeType = Literal["appeared", "disappeared", "moved", "more", "fewer", "replaced", "none", "unknown"]
"""The kind of change of a sentence."""

Event = Literal[
    "change", "light_changed", "view_changed", "obstructed", "summary", "rule", "gap", "deletion",
    "cap_reached", "cap_ended",
]  # fmt: skip
"""What a record is of."""

Action = Literal[
    "entered", "left", "appeared", "disappeared", "moved", "stopped", "resumed", "parked", "placed",
    "removed", "got_in", "got_out", "met", "waiting", "crossed", "opened", "closed", "lost",
]  # fmt: skip
"""What a track did: the event of a sentence."""


class RecordError(ValueError):
    """A narration or a line is not a record `narrated/2` (or `/1`); the message names the field."""


def check_camera(name: str) -> str:
    """The camera's name, if it is safe as a file name and as part of a Redis key; else RecordError."""
    if re.fullmatch(CAMERA, name) is None:
        raise RecordError(
            f"the camera name {name!r} cannot be used: 1 to 64 of the characters A-Z a-z 0-9 _ . -, "
            "the first a letter, a digit or _ (it becomes part of a file name and of a Redis key)"
        )
    if _SEGMENT.search(name):
        raise RecordError(f"the camera name {name!r} cannot be used: files of full journal segments end so")
    return name


def check_time(text: str) -> str:
    """A time as `TIME` or `SINCE` spells it, if there is such a day and hour; raises ValueError else."""
    datetime.fromisoformat(text.removeprefix("before "))
    return text


def format_time(time: datetime) -> str:
    """An aware time as ISO 8601 in UTC with microseconds and Z; RecordError where it has no time zone."""
    if time.tzinfo is None:
        raise RecordError(f"the time {time.isoformat()} has no time zone; use aware UTC times")
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def format_stream_id(stream_id: tuple[int, int]) -> str:
    return f"{stream_id[0]}-{stream_id[1]}"


def parse_stream_id(text: str) -> tuple[int, int]:
    """``"<ms>-<seq>"`` as two integers, which compare as Redis compares them."""
    ms, _, seq = text.partition("-")
    return int(ms), int(seq)


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """The last record of a chain, to which the next one is linked."""

    seq: int = 0  # its number, 0 before the first record
    hash: str = "0" * 64  # its hash, 64 zeros before the first record
    stream_id: tuple[int, int] = (0, 0)  # ``(ms, seq)``, the largest id used so far

    @classmethod
    def of(cls, record: Any) -> Self:
        return cls(record.seq, record.hash, parse_stream_id(record.stream_id))


def hash_holds(line: bytes) -> bool:
    """True where `line` (canonical JSON without a line end) carries its own SHA-256.

    In canonical JSON the bytes without the member ``hash`` are the canonical JSON of the record without it.
    Inside a string the quotes would be escaped, so the member is found without parsing.
    """
    place = line.find(_HASH_KEY) + len(_HASH_KEY)
    stated, behind = line[place : place + 64], line[place + 64 :]
    if line.count(_HASH_KEY) != 1 or not behind.startswith(b'",'):
        return False
    digest = hashlib.sha256(line[: place - len(_HASH_KEY)])
    digest.update(behind[len(b'",') :])
    return digest.hexdigest().encode() == stated


def closed_name(name: str) -> tuple[str, int] | None:
    """Camera and first record in the name of a full segment's file; None for any other file."""
    named = _CLOSED.fullmatch(name)
    return (named["camera"], int(named["first"])) if named else None
