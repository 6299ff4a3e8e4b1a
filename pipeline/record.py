"""The record `narrated/2`: what is journalled and published about one narration.

A record is canonical JSON (RFC 8785). ``hash`` is the SHA-256 of the record without ``hash``, ``prev`` is
the ``hash`` of the camera's record before it, so that no byte can change unseen. Floats are rounded and
times have six decimals, so the same narration always gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import rfc8785
from pydantic import ValidationError

from pipeline.record_members import (
    Digest,
    Evidence,
    Record,
    RecordError,
    RecordSentence,
    Share,
    WrittenSchema,
    check_camera,
)

if TYPE_CHECKING:  # types only: verifying and tailing records must not wait seconds for torch to load
    from models.sentences import Sentence
    from pipeline.narration.narration import FrameStamp, Narration

__all__ = [
    "SCHEMA",
    "ChainEnd",
    "Digest",
    "Evidence",
    "Record",
    "RecordError",
    "RecordSentence",
    "Share",
    "build_record",
    "check_camera",
    "format_stream_id",
    "format_time",
    "hash_holds",
    "json_schema",
    "next_stream_id",
    "parse_stream_id",
    "read_record",
    "sentence_members",
]

SCHEMA = "narrated/2"
_EVENTS = {"none": "change"}  # no event of the whole scene: objects changed
_DIGITS = 4
_L2_DIGITS = 3
_LATENCY_DIGITS = 1
_SECOND_DIGITS = 2
_HASH_KEY = b'"hash":"'

HELD_BYTES = 500
"""Of all sentences of a record held from messages, as canonical JSON: a flood must not fill the disk."""

CUT_WHERE_HELD = ("outline_before", "outline_after", "paths", "box_before", "box_after", "same_as", "time")
"""Members of sentences that go where a held record is too long, the first ones first."""


def format_time(time: datetime) -> str:
    """An aware time as ISO 8601 in UTC with microseconds and Z.

    Raises:
        RecordError: `time` has no time zone.
    """
    if time.tzinfo is None:
        raise RecordError(f"the time {time.isoformat()} has no time zone; use aware UTC times")
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def format_stream_id(stream_id: tuple[int, int]) -> str:
    """As Redis writes it, ``"<ms>-<seq>"``; `parse_stream_id` reads it."""
    return f"{stream_id[0]}-{stream_id[1]}"


def parse_stream_id(text: str) -> tuple[int, int]:
    """``"<ms>-<seq>"`` as two integers, which compare as Redis compares them."""
    ms, _, seq = text.partition("-")
    return int(ms), int(seq)


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
    members = {
        **_told(narration),
        "seq": end.seq + 1,
        "suppressed": suppressed,
        "stream_id": format_stream_id(next_stream_id(narration.after.time, end.stream_id)),
        "latency_ms": latency_ms and {k: _rounded(v, _LATENCY_DIGITS) for k, v in latency_ms.items()},
        "evidence": evidence,
        "prev": end.hash,
        "hash": "0" * 64,
    }
    try:
        unhashed = Record.model_validate(members).members()
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
    """JSON Schema (draft 2020-12) of the record, generated from the model that builds and reads it.

    Every member has a description, and one that a record may lack is not required; only `box` may be null.
    """
    schema = Record.model_json_schema(by_alias=True, schema_generator=WrittenSchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": SCHEMA}


def _reason(error: ValidationError | rfc8785.CanonicalizationError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(str(p) for p in e['loc']) or 'line'}: {e['msg']}" for e in error.errors()[:3]
    )


def _rounded(number: float, digits: int) -> float:
    return round(float(number), digits) + 0.0  # + 0.0 turns -0.0 into 0.0


def _told(narration: Narration) -> dict[str, Any]:
    """The members that the narration alone decides."""
    sentences = [_sentence(s, narration.before.time) for s in narration.sentences]
    shown = _within(HELD_BYTES, sentences) if narration.held else sentences
    left_out = "held" if len(shown) < len(sentences) else None
    return {
        "schema": SCHEMA,
        "id": narration.id,
        "camera": check_camera(narration.camera),
        "before": _frame(narration.before),
        "after": _frame(narration.after),
        "clock": narration.clock.value,
        "event": _EVENTS.get(narration.event.value, narration.event.value),
        "text": narration.text,
        "sentences": tuple(shown),
        "abstained": narration.abstained or left_out,
        "fallback": narration.fallback or None,
        "until": narration.until and format_time(narration.until),
        "held": narration.held or None,
        "continues": narration.continues or None,
        "covers": narration.covers or None,
        "deletion": narration.deletion,
        "rule": narration.rule,
        "reason": narration.reason or None,
        "since": narration.since and format_time(narration.since),
        "rate_hz": narration.rate_hz,
        "state_sha256": narration.state_sha256 or None,
        "l2": _rounded(narration.l2, _L2_DIGITS),
        "model": {"name": narration.model.name, "sha256": narration.model.sha256},
        "config_sha256": narration.settings_sha256,
    }


def _within(most: int, sentences: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sentences in so many bytes: without members of little use, then the box, then the last sentences."""
    for member in (*CUT_WHERE_HELD, "box"):
        if _size(sentences) <= most:
            return sentences
        sentences = [{**sentence, member: None} for sentence in sentences]
    while len(sentences) > 1 and _size(sentences) > most:
        sentences = sentences[:-1]
    return sentences


def _size(sentences: list[dict[str, Any]]) -> int:
    written = [{k: v for k, v in each.items() if v is not None or k == "box"} for each in sentences]
    return len(rfc8785.dumps(written))


def _frame(stamp: FrameStamp) -> dict[str, Any]:
    return {"time": format_time(stamp.time), "pts": stamp.pts, "sha256": stamp.sha256}


def sentence_members(sentence: Sentence) -> dict[str, Any]:
    """The members of a sentence in a record but for `time`; those that say nothing are None."""
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
    }


def _sentence(sentence: Sentence, before: datetime) -> dict[str, Any]:
    def moment(seconds: float | None) -> str | None:
        return None if seconds is None else format_time(before + timedelta(seconds=seconds))

    since = moment(sentence.since_s)
    same = sentence.same_as
    return sentence_members(sentence) | {
        "time": moment(sentence.moment_s),
        "action": sentence.action or None,
        "track": sentence.track or None,
        "since": since if since is None or sentence.since_known else f"before {since}",
        "until": moment(sentence.until_s),
        "duration_s": None if sentence.duration_s is None else _rounded(sentence.duration_s, _SECOND_DIGITS),
        "same_as": same and {"track": same[0], "probability": _rounded(same[1], _DIGITS)},
    }


def _shares(numbers: tuple[float, ...] | None) -> tuple[float, ...] | None:
    return numbers and tuple(_rounded(v, _DIGITS) for v in numbers)
