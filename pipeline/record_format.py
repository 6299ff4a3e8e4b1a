"""The format of records and of a journal's files, without the record's model.

Whoever searches journals needs no more; pydantic and the model take a tenth of a second to load.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal

_HASH_KEY = b'"hash":"'
_CLOSED = re.compile(r"(?P<camera>.+)\.(?P<first>\d{12})\.jsonl")

ChangeType = Literal["appeared", "disappeared", "moved", "more", "fewer", "replaced", "none", "unknown"]
"""The kind of change of a sentence."""

Event = Literal[
    "change",
    "light_changed",
    "view_changed",
    "obstructed",
    "summary",
    "rule",
    "gap",
    "deletion",
    "cap_reached",
    "cap_ended",
]
"""What a record is of."""

Action = Literal[
    "entered",
    "left",
    "appeared",
    "disappeared",
    "moved",
    "stopped",
    "resumed",
    "parked",
    "placed",
    "removed",
    "got_in",
    "got_out",
    "met",
    "waiting",
    "crossed",
    "opened",
    "closed",
]
"""What a track did: the event of a sentence."""


class RecordError(ValueError):
    """A narration or a line is not a record `narrated/2` (or `/1`); the message names the field."""


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
