"""What an export says of itself: ``export.json``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.record import Digest

NAME = "export.json"


class _ManifestPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExportedChain(_ManifestPart):
    """What is there of a camera's chain.

    Attributes:
        pieces: first and last number of each run of records without a gap.
        signed: the greatest number with a signature; 0 where none is there.
    """

    pieces: list[tuple[int, int]]
    signed: int


class CheckedJournal(_ManifestPart):
    """How the whole journal was found when the export was made.

    Attributes:
        last: number of the last that holds.
        hash: of that one.
        signed: the number signed last; 0 where none is.
        keys: public keys that the signatures name.
    """

    last: int
    hash: Digest
    signed: int
    keys: list[str]


class ExportedClip(_ManifestPart):
    """A recording.

    Attributes:
        record: number in the chain.
        camera: whose chain.
        source: name of the file that it was cut out of.
        frames: by side the number of the frame, from 0, whose pixels the record names; without ``after``
            nothing shows that it is a recording of what is narrated.
    """

    camera: str
    record: int
    source: str
    frames: dict[Literal["before", "after"], int]


class Manifest(_ManifestPart):
    """All of it.

    Attributes:
        selection: what was asked for, as options of `narrated query`.
        records: how many were selected.
        linked: whether the records between are there, too.
        chains: by camera.
        journals: by camera; None where they were not checked.
        problems: what did not verify then.
        clips: by the file's name.
        without_clip: by the record's id why it has none; empty where none were asked for.
        gone: pictures that records name and retention had deleted.
    """

    schema_: Annotated[Literal["narrated-export/1"], Field(alias="schema")] = "narrated-export/1"
    selection: str
    records: int
    linked: bool
    chains: dict[str, ExportedChain]
    journals: dict[str, CheckedJournal] | None
    problems: list[str]
    clips: dict[str, ExportedClip]
    without_clip: dict[str, str]
    gone: list[Digest]

    def content(self) -> bytes:
        """As JSON for a file."""
        return self.model_dump_json(by_alias=True, indent=1).encode() + b"\n"
