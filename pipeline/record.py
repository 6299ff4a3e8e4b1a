"""The record `narrated/1`: what is journalled and published about one narration.

A record is canonical JSON (RFC 8785). ``hash`` is the SHA-256 of the record without ``hash``, ``prev`` is
the ``hash`` of the camera's record before it, so that no byte can change unseen. Floats are rounded and
times have six decimals, so the same narration always gives the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import rfc8785
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

if TYPE_CHECKING:  # types only: verifying and tailing records must not wait seconds for torch to load
    from models.captioner import Sentence
    from pipeline.narration.narration import FrameStamp, Narration

SCHEMA = "narrated/1"
_EVENTS = {"none": "change"}  # no event of the whole scene: objects changed
_DIGITS = 4
_L2_DIGITS = 3
_LATENCY_DIGITS = 1
_LARGEST_INTEGER = 2**53 - 1  # beyond it JSON readers lose digits
_CAMERA = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_SEGMENT = re.compile(r"\.[0-9]{12}$")
_HASH_KEY = b'"hash":"'


class RecordError(ValueError):
    """A narration or a line is no record `narrated/1`; the message names the field."""


def check_camera(name: str) -> str:
    """The camera's name, if it is safe as a file name and as part of a Redis key.

    Raises:
        RecordError: it is not.
    """
    if _CAMERA.fullmatch(name) is None:
        raise RecordError(
            f"the camera name {name!r} cannot be used: 1 to 64 of the characters A-Z a-z 0-9 _ . -, "
            "the first a letter, a digit or _ (it becomes a file name and a Redis key)"
        )
    if _SEGMENT.search(name):
        raise RecordError(f"the camera name {name!r} cannot be used: files of full journal segments end so")
    return name


def format_time(time: datetime) -> str:
    """An aware time as ISO 8601 in UTC with microseconds and Z.

    Raises:
        RecordError: `time` has no time zone.
    """
    if time.tzinfo is None:
        raise RecordError(f"the time {time.isoformat()} has no time zone; use aware UTC times")
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _check_time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


def _format_stream_id(stream_id: tuple[int, int]) -> str:
    return f"{stream_id[0]}-{stream_id[1]}"


def parse_stream_id(text: str) -> tuple[int, int]:
    """``"<ms>-<seq>"`` as two integers, which compare as Redis compares them."""
    ms, _, seq = text.partition("-")
    return int(ms), int(seq)


Time = Annotated[
    str,
    StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"),
    AfterValidator(_check_time),
    Field(description="ISO 8601, UTC, microseconds"),
]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), Field(description="SHA-256, hex")]
TaggedDigest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=_LARGEST_INTEGER)]
Stage = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,32}$")]
RecordBox = tuple[Share, Share, Share, Share]
RecordOutline = Annotated[
    tuple[tuple[Share, Share], ...],
    Field(min_length=3, description="closed polygon of [x, y] in 0..1 of the frame"),
]

RecordPath = Annotated[
    tuple[tuple[Share, Share], ...],
    Field(min_length=1, description="feet of one object in order of time, [x, y] in 0..1 of the frame"),
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class RecordFrame(_Part):
    """Which frame: when, its pts, and the SHA-256 of its RGB bytes."""

    time: Time
    pts: Annotated[int, Field(ge=-_LARGEST_INTEGER, le=_LARGEST_INTEGER)]
    sha256: Digest

    @property
    def moment(self) -> datetime:
        """`time` as an aware UTC datetime."""
        return datetime.fromisoformat(self.time)


class RecordSentence(_Part):
    """One sentence; box is ``x, y, width, height`` in 0..1 of the frame, null where there is none.

    The members after `confidence` are absent where a captioner does not say them; no `count` means one.
    """

    text: Annotated[str, StringConstraints(min_length=1)]
    type: Literal["appeared", "disappeared", "moved", "more", "fewer", "replaced", "none", "unknown"]
    object: Annotated[str, StringConstraints(min_length=1)]
    box: RecordBox | None
    salience: Share
    confidence: Share
    count: Annotated[Count, Field(ge=2, description="how many objects, if several")] | None = None
    box_before: Annotated[RecordBox, Field(description="where it was")] | None = None
    box_after: Annotated[RecordBox, Field(description="where it is now")] | None = None
    outline_before: RecordOutline | None = None
    outline_after: RecordOutline | None = None
    paths: Annotated[tuple[RecordPath, ...], Field(description="the ways that were followed")] | None = None
    time: Annotated[Time, Field(description="when it happened, where that was seen")] | None = None

    @property
    def before(self) -> RecordBox | None:
        """`box_before`, named as a captioner's sentence names it."""
        return self.box_before

    @property
    def after(self) -> RecordBox | None:
        """`box_after`, named as a captioner's sentence names it."""
        return self.box_after


class RecordModel(_Part):
    """Which captioner: its name and the SHA-256 of its checkpoint file."""

    name: Annotated[str, StringConstraints(min_length=1)]
    sha256: Digest


class RecordCount(_Part):
    """How many sentences of a kind were told, or held back."""

    type: Annotated[str, StringConstraints(min_length=1)]
    object: Annotated[str, StringConstraints(min_length=1)]
    count: Annotated[Count, Field(ge=1)]


class Evidence(_Part):
    """Which stored pictures show the pair, by content; those that are not kept are absent.

    `overlay` shows both frames side by side, what is told outlined and written below.
    """

    before: TaggedDigest | None = None
    after: TaggedDigest | None = None
    overlay: TaggedDigest | None = None


class Record(_Part):
    """One line of the journal; see the module's head. Built by `build_record`, read by `read_record`."""

    schema_: Annotated[Literal["narrated/1"], Field(alias="schema")]
    id: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    camera: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"), AfterValidator(check_camera)
    ]
    seq: Annotated[Count, Field(ge=1, description="1, 2, 3, ... per camera")]
    before: RecordFrame
    after: RecordFrame
    clock: Literal["rtcp", "receive", "file"]
    event: Annotated[
        Literal["change", "light_changed", "view_changed", "obstructed", "cap_reached", "cap_ended"],
        Field(description="cap_reached: told as much as an hour may hold; cap_ended: is heard again"),
    ]
    text: str
    sentences: tuple[RecordSentence, ...]
    abstained: (
        Annotated[str, StringConstraints(min_length=1), Field(description="why nothing, or less, was told")]
        | None
    ) = None
    fallback: (
        Annotated[str, StringConstraints(min_length=1), Field(description="why no captioner told it")] | None
    ) = None
    counts: (
        Annotated[
            tuple[RecordCount, ...],
            Field(description="at cap_reached sentences told in the hour, at cap_ended those held back"),
        ]
        | None
    ) = None
    until: Annotated[Time, Field(description="when a camera at its hourly cap is heard again")] | None = None
    l2: Annotated[float, Field(ge=0, le=255, description="root mean square, 0..255 grey levels")]
    suppressed: Annotated[Count, Field(description="narrations held back since the last one")]
    model: RecordModel
    config_sha256: Digest
    stream_id: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,16}-[0-9]{1,16}$")]
    latency_ms: dict[Stage, Annotated[float, Field(ge=0, le=_LARGEST_INTEGER)]] | None = None
    evidence: Evidence | None = None
    prev: Digest
    hash: Digest

    def line(self) -> bytes:
        """The record as canonical JSON, UTF-8, without a line end."""
        return rfc8785.dumps(_members(self))

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects of the sentences, each once, in the order of the sentences."""
        return tuple(dict.fromkeys(s.object for s in self.sentences))


def _members(record: Record) -> dict[str, Any]:
    """JSON members; the optional ones are left out where there are none, `box` stays as null."""
    members = record.model_dump(mode="json", by_alias=True)
    if members["evidence"]:
        members["evidence"] = {k: v for k, v in members["evidence"].items() if v is not None}
    sentences = [{k: v for k, v in s.items() if v is not None or k == "box"} for s in members["sentences"]]
    return {k: v for k, v in members.items() if v is not None} | {"sentences": sentences}


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """The last record of a chain, to which the next one is linked.

    Attributes:
        seq: its number, 0 before the first record.
        hash: its hash, 64 zeros before the first record.
        stream_id: ``(ms, seq)``, the largest id used so far.
    """

    seq: int = 0
    hash: str = "0" * 64
    stream_id: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, record: Record) -> ChainEnd:
        """The end of a chain whose last record is `record`."""
        return cls(record.seq, record.hash, parse_stream_id(record.stream_id))


def next_stream_id(time: datetime, last: tuple[int, int]) -> tuple[int, int]:
    """The stream id of a record whose after frame was taken at `time`: strictly greater than `last`.

    ``(ms, 0)`` of the time where that is greater, else the next sequence number in the last millisecond
    (a clock that stepped back, two records in one millisecond, 1970-01-01T00:00:00Z).
    """
    ms = int(time.timestamp() * 1000)
    return (ms, 0) if (ms, 0) > last else (last[0], last[1] + 1)


def build_record(
    narration: Narration,
    end: ChainEnd,
    *,
    suppressed: int = 0,
    latency_ms: Mapping[str, float] | None = None,
    evidence: Evidence | None = None,
) -> Record:
    """The record of `narration`, linked to the `end` of its camera's chain.

    Args:
        narration: what is told.
        end: the camera's last record.
        suppressed: narrations of this camera held back since the last one.
        latency_ms: how long the stages took, by name; it differs from run to run, so a replay leaves it out.
        evidence: content hashes of the stored pictures.

    Raises:
        RecordError: a value does not fit the schema.
    """
    members: dict[str, Any] = {
        "schema": SCHEMA,
        "id": narration.id,
        "camera": check_camera(narration.camera),
        "seq": end.seq + 1,
        "before": _frame(narration.before),
        "after": _frame(narration.after),
        "clock": narration.clock.value,
        "event": _EVENTS.get(narration.event.value, narration.event.value),
        "text": narration.text,
        "sentences": tuple(_sentence(s, narration.before.time) for s in narration.sentences),
        "abstained": narration.abstained or None,
        "fallback": narration.fallback or None,
        "counts": tuple({"type": t, "object": o, "count": n} for t, o, n in narration.counts) or None,
        "until": narration.until and format_time(narration.until),
        "l2": _rounded(narration.l2, _L2_DIGITS),
        "suppressed": suppressed,
        "model": {"name": narration.model.name, "sha256": narration.model.sha256},
        "config_sha256": narration.settings_sha256,
        "stream_id": _format_stream_id(next_stream_id(narration.after.time, end.stream_id)),
        "latency_ms": latency_ms and {k: _rounded(v, _LATENCY_DIGITS) for k, v in latency_ms.items()},
        "evidence": evidence,
        "prev": end.hash,
        "hash": "0" * 64,
    }
    try:
        unhashed = _members(Record.model_validate(members))
        del unhashed["hash"]
        digest = hashlib.sha256(rfc8785.dumps(unhashed)).hexdigest()
        return Record.model_validate(members | {"hash": digest})
    except (ValidationError, rfc8785.CanonicalizationError) as error:
        raise RecordError(f"narration {narration.id}: {_reason(error)}") from None


def read_record(line: bytes | str) -> Record:
    """The record in one line of JSON.

    Raises:
        RecordError: the line is no record. The hash is not checked here: see `hash_holds`.
    """
    try:
        return Record.model_validate_json(line)
    except ValidationError as error:
        raise RecordError(_reason(error)) from None


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


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the record, generated from the model that builds and reads it."""
    schema = Record.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": SCHEMA}


def _reason(error: ValidationError | rfc8785.CanonicalizationError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(str(p) for p in e['loc']) or 'line'}: {e['msg']}" for e in error.errors()[:3]
    )


def _rounded(number: float, digits: int) -> float:
    return round(float(number), digits) + 0.0  # + 0.0 turns -0.0 into 0.0


def _frame(stamp: FrameStamp) -> dict[str, Any]:
    return {"time": format_time(stamp.time), "pts": stamp.pts, "sha256": stamp.sha256}


def _sentence(sentence: Sentence, before: datetime) -> dict[str, Any]:
    moment_s = sentence.moment_s
    return {
        "text": sentence.text,
        "type": sentence.type,
        "object": sentence.object,
        "box": _shares(sentence.box),
        "salience": _rounded(sentence.salience, _DIGITS),
        "confidence": _rounded(sentence.confidence, _DIGITS),
        "count": sentence.count if sentence.count != 1 else None,
        "box_before": _shares(sentence.before),
        "box_after": _shares(sentence.after),
        "outline_before": tuple(_shares(corner) for corner in sentence.outline_before) or None,
        "outline_after": tuple(_shares(corner) for corner in sentence.outline_after) or None,
        "paths": tuple(tuple(_shares(point) for point in path) for path in sentence.paths) or None,
        "time": None if moment_s is None else format_time(before + timedelta(seconds=moment_s)),
    }


def _shares(numbers: tuple[float, ...] | None) -> tuple[float, ...] | None:
    return numbers and tuple(_rounded(v, _DIGITS) for v in numbers)
