"""The members of a record: what each one means, and which values it may have.

The descriptions are what `narrated tail --schema` prints; `docs/record.md` has a line for each.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

import rfc8785
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.json_schema import GenerateJsonSchema

_LARGEST_INTEGER = 2**53 - 1  # beyond it JSON readers lose digits
_CAMERA = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_SEGMENT = re.compile(r"\.[0-9]{12}$")


class RecordError(ValueError):
    """A narration or a line is not a record `narrated/2` (or `/1`); the message names the field."""


def check_camera(name: str) -> str:
    """The camera's name, if it is safe as a file name and as part of a Redis key.

    Raises:
        RecordError: it is not.
    """
    if _CAMERA.fullmatch(name) is None:
        raise RecordError(
            f"the camera name {name!r} cannot be used: 1 to 64 of the characters A-Z a-z 0-9 _ . -, "
            "the first a letter, a digit or _ (it becomes part of a file name and of a Redis key)"
        )
    if _SEGMENT.search(name):
        raise RecordError(f"the camera name {name!r} cannot be used: files of full journal segments end so")
    return name


def _check_time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Time = Annotated[
    str,
    StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"),
    AfterValidator(_check_time),
]
Since = Annotated[
    str,
    StringConstraints(pattern=r"^(before )?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"),
    AfterValidator(
        lambda text: "before " * text.startswith("before ") + _check_time(text.removeprefix("before "))
    ),
]
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
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class RecordFrame(_Part):
    """One of the two frames that were compared."""

    time: Time = means("when it was captured: ISO 8601, UTC, microseconds")
    pts: Annotated[int, Field(ge=-_LARGEST_INTEGER, le=_LARGEST_INTEGER)] = means(
        "its presentation time stamp in the stream or file, in the stream's own time base"
    )
    sha256: Digest = means("SHA-256 (hex) of its decoded RGB bytes")

    @property
    def moment(self) -> datetime:
        """`time` as an aware UTC datetime."""
        return datetime.fromisoformat(self.time)


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


class SameAs(_Part):
    """An earlier track that is probably the same person or vehicle."""

    track: Words = means("the earlier track")
    probability: Share = means("calibrated probability that both are one")


class RecordSentence(_Part):
    """One sentence about one change."""

    text: Words = means("the sentence, in English")
    type: Literal["appeared", "disappeared", "moved", "more", "fewer", "replaced", "none", "unknown"] = means(
        "the kind of change; none: of the whole scene"
    )
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

    @property
    def before(self) -> RecordBox | None:
        """`box_before`, named as a captioner's sentence names it."""
        return self.box_before

    @property
    def after(self) -> RecordBox | None:
        """`box_after`, named as a captioner's sentence names it."""
        return self.box_after


class RecordModel(_Part):
    """The captioner that wrote the sentences."""

    name: Words = means("its name, such as grounded")
    sha256: Digest = means("SHA-256 (hex) of its checkpoint file")


class RecordCount(_Part):
    """How many sentences of one kind were published, or held back."""

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
    camera: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"), AfterValidator(check_camera)
    ] = means("its name in the configuration")
    seq: Annotated[Count, Field(ge=1)] = means("the record's number: 1, 2, 3, ... for each camera")
    before: RecordFrame = means("the earlier frame")
    after: RecordFrame = means("the later frame")
    clock: Literal["rtcp", "receive", "file"] = means(
        "whose clock the times are by: the camera's (rtcp), this machine's on receipt (receive) or the file's"
    )
    event: Event = means(
        "objects changed (change); the whole scene did (light_changed, view_changed, obstructed); many "
        "events in one (summary); a rule was met (rule); nothing was seen or recorded for a while (gap); "
        "records were deleted (deletion); in narrated/1 only, an hourly limit began (cap_reached) or ended "
        "(cap_ended)"
    )
    text: str = means("all sentences, in one line")
    sentences: tuple[RecordSentence, ...] = means(
        "one for each change: events of tracks by time, changes between two stills by salience"
    )
    held: Literal["hourly", "cooldown", "merged", "summary"] | None = may_mean(
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
        "with event gap: why nothing was seen or recorded from since to until; mask: of a part of the picture"
    )
    since: Time | None = may_mean("with event gap: its beginning")
    rate_hz: Annotated[float, Field(gt=0, le=1000)] | None = may_mean(
        "frames a second that were looked at for objects"
    )
    state_sha256: Digest | None = may_mean("SHA-256 (hex) of what the camera had learnt before, where it had")
    abstained: Words | None = may_mean(
        "why fewer sentences are here than were seen: unsure, nothing of an object, or held"
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
        "milliseconds, of live cameras only: batch, the whole batch in the captioner; capture_to_narration, "
        "from the capture of the after frame to this record"
    )
    evidence: Evidence | None = may_mean("the stored pictures")
    prev: Digest = means("hash of this camera's record before; 64 zeros in the first")
    hash: Digest = means("SHA-256 (hex) of this record as canonical JSON (RFC 8785) without hash")

    def line(self) -> bytes:
        """The record as canonical JSON, UTF-8, without a line end."""
        return rfc8785.dumps(self.members())

    def members(self) -> dict[str, Any]:
        """JSON members; the optional ones are left out where they say nothing, `box` stays as null."""
        members = self.model_dump(mode="json", by_alias=True)
        if members["evidence"]:
            members["evidence"] = {k: v for k, v in members["evidence"].items() if v is not None}
        told = [{k: v for k, v in s.items() if v is not None or k == "box"} for s in members["sentences"]]
        return {k: v for k, v in members.items() if v is not None} | {"sentences": told}

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects of the sentences, each once, in the order of the sentences."""
        return tuple(dict.fromkeys(s.object for s in self.sentences))


class WrittenSchema(GenerateJsonSchema):
    """The schema of what is written: a member that says nothing is absent there, never null."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        """The schema of an optional member, without its null."""
        inner = schema["schema"]
        return self.generate_inner(inner["schema"] if inner["type"] == "nullable" else inner)
