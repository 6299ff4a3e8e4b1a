"""The record `narrated/2`: what is journalled and published about one narration.

A record is canonical JSON (RFC 8785). ``hash`` is the SHA-256 of the record without ``hash``, ``prev`` is
the ``hash`` of the camera's record before it, so that no byte can change unseen. Floats are rounded and
times have six decimals, so the same narration always gives the same bytes.

The members' descriptions are what `narrated tail --schema` prints; `docs/record.md` has a line for each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import rfc8785
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipeline.record_format import (
    CAMERA,
    SINCE,
    TIME,
    Action,
    ChainEnd,
    ChangeType,
    Event,
    RecordError,
    check_camera,
    check_time,
    format_stream_id,
    format_time,
)

if TYPE_CHECKING:  # types only: verifying and tailing records must not wait seconds for torch to load
    from models.captioner import Sentence
    from pipeline.narration.narration import FrameStamp, Narration

SCHEMA = "narrated/2"
_EVENTS = {"none": "change"}  # no event of the whole scene: objects changed
_UNCHANGED = (
    "id", "fallback", "held", "continues", "covers", "deletion", "rule", "reason", "rate_hz", "state_sha256",
)  # fmt: skip
_DIGITS = 4
_L2_DIGITS = 3
_LATENCY_DIGITS = 1
_SECOND_DIGITS = 2

HELD_BYTES = 500  # of each sentence of a held record, canonical JSON: a flood must not fill the disk
CUT_WHERE_HELD = ("outline_before", "outline_after", "paths", "box_before", "box_after", "same_as", "time")
"""Members of sentences that go where a held record is too long, the first ones first."""

_LARGEST_INTEGER = 2**53 - 1  # beyond it JSON readers lose digits
Time = Annotated[str, StringConstraints(pattern=TIME), AfterValidator(check_time)]
Since = Annotated[str, StringConstraints(pattern=SINCE), AfterValidator(check_time)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
TaggedDigest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=_LARGEST_INTEGER)]
Words = Annotated[str, StringConstraints(min_length=1)]
Stage = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,32}$")]
RecordBox = tuple[Share, Share, Share, Share]
RecordId = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Seconds = Annotated[float, Field(ge=0, le=_LARGEST_INTEGER)]
RecordOutline = Annotated[tuple[tuple[Share, Share], ...], Field(min_length=3)]
RecordPath = Annotated[tuple[tuple[Share, Share], ...], Field(min_length=1)]


def means(description: str) -> Any:
    """A member that every record has, and what it means."""
    return Field(description=description)


def may_mean(description: str) -> Any:
    """A member that is absent where it says nothing, and what it means."""
    return Field(None, description=description)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


class RecordFrame(_Part):
    """One of the two frames that were compared."""

    time: Time = means("when it was captured: ISO 8601, UTC, microseconds")
    pts: Annotated[int, Field(ge=-_LARGEST_INTEGER, le=_LARGEST_INTEGER)] = means(
        "its presentation time stamp in the stream or file, in the stream's own time base"
    )
    sha256: Digest = means("SHA-256 (hex) of its decoded RGB bytes")

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.time)


class SameAs(_Part):
    """An earlier track that is probably the same person or vehicle."""

    track: Words = means("the earlier track")
    probability: Share = means("calibrated probability that both are one")


class RecordSentence(_Part):
    """One sentence about one change."""

    text: Words = means("the sentence, in the language of the configuration")
    type: ChangeType = means("the kind of change; none: of the whole scene")
    object: Words = means(
        "what changed: person, car, ...; object or unknown where it has no name; scene: the whole scene"
    )
    box: RecordBox | None = means(
        "where: [x, y, width, height] in 0..1 of the frame; null: nowhere in particular"
    )
    salience: Share = means("how much it stands out among the changes of this pair")
    confidence: Share = means("how sure the captioner is; 0 where there was none (fallback)")
    count: Annotated[Count, Field(ge=2)] | None = may_mean("how many objects; absent: one")
    box_before: RecordBox | None = may_mean("where it was in the before frame")
    box_after: RecordBox | None = may_mean("where it is in the after frame")
    outline_before: RecordOutline | None = may_mean(
        "its outline in the before frame: a closed polygon of [x, y] in 0..1 of the frame"
    )
    outline_after: RecordOutline | None = may_mean("its outline in the after frame, likewise")
    paths: tuple[RecordPath, ...] | None = may_mean(
        "the way each object took: where it met the ground, [x, y] in 0..1 of the frame, in order of time"
    )
    time: Time | None = may_mean("when it happened")
    action: Action | None = may_mean("the event, where a track showed it: entered, left, stopped, ...")
    track: Words | None = may_mean("the track: an id that no other object of this camera ever has")
    since: Since | None = may_mean(
        "when the track began, or the state that ended (a stop); 'before TIME' where only that is known"
    )
    until: Time | None = may_mean("when the track, or the state, ended")
    duration_s: Seconds | None = may_mean(
        "from since to until, or so far, in seconds; at least where since is 'before'"
    )
    same_as: SameAs | None = may_mean("an earlier track that is probably the same one, come back")
    other: Words | None = may_mean(
        "the track that it met, got into or out of, or by which it was put down or taken"
    )
    english: Words | None = may_mean("the sentence in English, where text is in another language")

    @property
    def before(self) -> RecordBox | None:
        """`box_before`, named as a captioner's sentence names it."""
        return self.box_before

    @property
    def after(self) -> RecordBox | None:
        return self.box_after


class RecordModel(_Part):
    """The captioner that wrote the sentences."""

    name: Words = means("its name, such as grounded")
    sha256: Digest = means("SHA-256 (hex) of its checkpoint file")


class RecordCount(_Part):
    """Number of sentences of one kind that were published, or held back."""

    type: Words = means("as in a sentence")
    object: Words = means("as in a sentence")
    count: Annotated[Count, Field(ge=1)] = means("how many sentences")


class Evidence(_Part):
    """The stored pictures of a record, by their content; those that are not kept are absent."""

    before: TaggedDigest | None = may_mean(
        "the before frame: sha256: and the SHA-256 (hex) of the picture file"
    )
    after: TaggedDigest | None = may_mean("the after frame, likewise")
    overlay: TaggedDigest | None = may_mean(
        "both frames side by side, what changed outlined and the sentences below, likewise"
    )


class Deletion(_Part):
    """Records that retention deleted: the first of the chain."""

    reason: Literal["age", "size"] = means("the limit that they were beyond")
    time: Time = means("when they were deleted")
    records: Annotated[Count, Field(ge=1)] = means("how many")
    first_seq: Annotated[Count, Field(ge=1)] = means("seq of the first one")
    last_seq: Annotated[Count, Field(ge=1)] = means("seq of the last one")
    last_hash: Digest = means("hash of the last one")


class RuleFired(_Part):
    """A rule of the configuration that was met."""

    name: Words = means("the rule's name")
    records: tuple[RecordId, ...] = means("ids of the records that it rests on")


class Record(_Part):
    """One narration: a line of the journal, and the field json of a stream entry."""

    schema_: Annotated[Literal["narrated/1", "narrated/2"], Field(alias="schema")] = means(
        "the format; narrated/1, which is no longer written, lacks some optional members"
    )
    id: RecordId = means(
        "camera, time and a hash: the same footage, settings and model always give the same id"
    )
    camera: Annotated[str, StringConstraints(pattern=CAMERA), AfterValidator(check_camera)] = means(
        "its name in the configuration"
    )
    seq: Annotated[Count, Field(ge=1)] = means("the record's number: 1, 2, 3, ... for each camera")
    before: RecordFrame = means("the earlier frame")
    after: RecordFrame = means("the later frame")
    clock: Literal["rtcp", "receive", "file"] = means(
        "whose clock the times are by: the camera's (rtcp), this machine's on receipt (receive) or the file's"
    )
    event: Event = means(
        "objects changed (change); the whole scene did (light_changed, view_changed, obstructed); many "
        "events in one (summary); a rule was met (rule); nothing was observed or recorded for a while (gap); "
        "records were deleted (deletion); in narrated/1 only, an hourly limit began (cap_reached) or ended "
        "(cap_ended)"
    )
    text: str = means("all sentences, in one line")
    sentences: tuple[RecordSentence, ...] = means(
        "one for each change: events of tracks by time, changes between two stills by salience"
    )
    held: Literal["hourly", "cooldown", "merged", "summary", "lost"] | None = may_mean(
        "the limit that keeps this record from messages and from the page's first view; it is journalled and "
        "on the stream all the same"
    )
    continues: RecordId | None = may_mean(
        "id of the earlier record that this one completes: no event of its own, never counted"
    )
    covers: tuple[RecordId, ...] | None = may_mean("ids of the records that a summary is of")
    deletion: Deletion | None = may_mean("with event deletion: which records")
    rule: RuleFired | None = may_mean("with event rule: which one, and why")
    reason: Literal["overload", "camera_down", "outage", "mask"] | None = may_mean(
        "with event gap: why nothing was observed or recorded from since to until (mask: in an area)"
    )
    since: Time | None = may_mean("with event gap: its beginning")
    rate_hz: Annotated[float, Field(gt=0, le=1000)] | None = may_mean(
        "frames a second that were looked at for objects"
    )
    state_sha256: Digest | None = may_mean("SHA-256 (hex) of what the camera had learnt before, where it had")
    abstained: Words | None = may_mean(
        "why changes are left out of the sentences: unsure, nothing of an object, or (once) held"
    )
    fallback: Words | None = may_mean(
        "why no captioner wrote this (late, or captioner failed): the text only says where something changed"
    )
    counts: tuple[RecordCount, ...] | None = may_mean(
        "by kind: at cap_reached the sentences of the past hour, at cap_ended those held back meanwhile"
    )
    until: Time | None = may_mean(
        "with event gap: its end, absent where a mask hides until the next record of masks; at cap_reached: "
        "when the camera is heard again"
    )
    l2: Annotated[float, Field(ge=0, le=255)] = means(
        "L2 distance of the two frames: root mean square over pixels and colours, in grey levels 0..255"
    )
    suppressed: Count = means("narrations of this camera that were held back since its last record")
    model: RecordModel = means("the captioner")
    config_sha256: Digest = means("SHA-256 (hex) of the settings that decide the text")
    stream_id: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,16}-[0-9]{1,16}$")] = means(
        "the id of its entry on the Redis stream: milliseconds of the after frame, a hyphen, a number"
    )
    latency_ms: dict[Stage, Annotated[float, Field(ge=0, le=_LARGEST_INTEGER)]] | None = may_mean(
        "milliseconds, of live cameras only: capture_to_narration, from the capture of the after frame to "
        "this record"
    )
    evidence: Evidence | None = may_mean("the stored pictures")
    prev: Digest = means("hash of this camera's record before; 64 zeros in the first")
    hash: Digest = means("SHA-256 (hex) of this record as canonical JSON (RFC 8785) without hash")

    def line(self) -> bytes:
        """The record as canonical JSON, UTF-8, without a line end."""
        return rfc8785.dumps(self.members())

    def members(self) -> dict[str, Any]:
        """JSON members; the optional ones are left out where they say nothing, `box` stays as null."""
        members = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return members | {"sentences": [{"box": None} | each for each in members["sentences"]]}

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects of the sentences, each once, in the order of the sentences."""
        return tuple(dict.fromkeys(s.object for s in self.sentences))

    @property
    def track(self) -> str:
        """The track that all its sentences are about; empty where there is no such one."""
        tracks = {sentence.track or "" for sentence in self.sentences}
        return tracks.pop() if len(tracks) == 1 else ""


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

    `suppressed` narrations of this camera were held back since the last one. `latency_ms`, how long the
    stages took, by name, differs from run to run, so a replay leaves it out. `evidence` has content hashes of
    the stored pictures. A value that does not fit the schema raises `RecordError`.
    """
    members = {
        **_narration_members(narration),
        "seq": end.seq + 1,
        "suppressed": suppressed,
        "stream_id": format_stream_id(next_stream_id(narration.after.time, end.stream_id)),
        "latency_ms": latency_ms and {k: _round(v, _LATENCY_DIGITS) for k, v in latency_ms.items()},
        "evidence": evidence,
        "prev": end.hash,
        "hash": "0" * 64,
    }
    try:
        record = Record.model_validate(members)
        unhashed = record.members()
        del unhashed["hash"]
        return record.model_copy(update={"hash": hashlib.sha256(rfc8785.dumps(unhashed)).hexdigest()})
    except (ValidationError, rfc8785.CanonicalizationError) as error:
        raise RecordError(f"narration {narration.id}: {_reason(error)}") from None


def read_record(line: bytes | str) -> Record:
    """The record in one line of JSON; RecordError where it is none. Its hash is checked by `hash_holds`."""
    try:
        return Record.model_validate_json(line)
    except ValidationError as error:
        raise RecordError(_reason(error)) from None


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the record, generated from the model that builds and reads it.

    Every member has a description, and one that a record may lack is not required; only `box` may be null.
    """
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - 5 ms of every start

    class WrittenSchema(GenerateJsonSchema):
        """A member that says nothing is absent from what is written, never null."""

        def default_schema(self, schema: Any) -> dict[str, Any]:
            inner = schema["schema"]
            return self.generate_inner(inner["schema"] if inner["type"] == "nullable" else inner)

    schema = Record.model_json_schema(by_alias=True, schema_generator=WrittenSchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": SCHEMA}


def _reason(error: ValidationError | rfc8785.CanonicalizationError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(str(p) for p in e['loc']) or 'line'}: {e['msg']}" for e in error.errors()[:3]
    )


def _round(number: float, digits: int) -> float:
    return round(float(number), digits) + 0.0  # + 0.0 turns -0.0 into 0.0


def _narration_members(narration: Narration) -> dict[str, Any]:
    """The members that the narration alone decides."""
    sentences = [sentence_members(s, narration.before.time) for s in narration.sentences]
    shown = _shorten(sentences, HELD_BYTES * len(sentences)) if narration.held else sentences
    return {name: getattr(narration, name) or None for name in _UNCHANGED} | {
        "schema": SCHEMA,
        "camera": check_camera(narration.camera),
        "before": _frame(narration.before),
        "after": _frame(narration.after),
        "clock": narration.clock.value,
        "event": _EVENTS.get(narration.event.value, narration.event.value),
        "text": narration.text,
        "sentences": tuple(shown),
        "abstained": narration.abstained or None,
        "since": narration.since and format_time(narration.since),
        "until": narration.until and format_time(narration.until),
        "l2": _round(narration.l2, _L2_DIGITS),
        "model": {"name": narration.model.name, "sha256": narration.model.sha256},
        "config_sha256": narration.settings_sha256,
    }


def _shorten(sentences: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Sentences in about so many bytes: first lesser members go, then the box."""
    for member in (*CUT_WHERE_HELD, "box"):
        if _size(sentences) <= most:
            return sentences
        sentences = [{**sentence, member: None} for sentence in sentences]
    return sentences


def _size(sentences: list[dict[str, Any]]) -> int:
    written = [{k: v for k, v in each.items() if v is not None or k == "box"} for each in sentences]
    return len(rfc8785.dumps(written))


def _frame(stamp: FrameStamp) -> dict[str, Any]:
    return {"time": format_time(stamp.time), "pts": stamp.pts, "sha256": stamp.sha256}


def sentence_members(sentence: Sentence, before: datetime | None = None) -> dict[str, Any]:
    """The members of a sentence in a record; those that say nothing are None, and times without `before`."""

    def moment(seconds: float | None) -> str | None:
        if seconds is None or before is None:
            return None
        return format_time(before + timedelta(seconds=seconds))

    since, same, lasted_s = moment(sentence.since_s), sentence.same_as, sentence.duration_s
    return {
        "text": sentence.text,
        "type": sentence.type,
        "object": sentence.object,
        "box": _shares(sentence.box),
        "salience": _round(sentence.salience, _DIGITS),
        "confidence": _round(sentence.confidence, _DIGITS),
        "count": sentence.count if sentence.count != 1 else None,
        "box_before": _shares(sentence.before),
        "box_after": _shares(sentence.after),
        "outline_before": tuple(_shares(corner) for corner in sentence.outline_before) or None,
        "outline_after": tuple(_shares(corner) for corner in sentence.outline_after) or None,
        "paths": tuple(tuple(_shares(point) for point in path) for path in sentence.paths) or None,
        "time": moment(sentence.moment_s),
        "action": sentence.action or None,
        "track": sentence.track or None,
        "since": since and (since if sentence.since_known else f"before {since}"),
        "until": moment(sentence.until_s),
        "duration_s": None if lasted_s is None else _round(lasted_s, _SECOND_DIGITS),
        "same_as": same and {"track": same[0], "probability": _round(same[1], _DIGITS)},
        "other": sentence.other or None,
        "english": sentence.english or None,
    }


def _shares(numbers: tuple[float, ...] | None) -> tuple[float, ...] | None:
    return numbers and tuple(_round(v, _DIGITS) for v in numbers)
