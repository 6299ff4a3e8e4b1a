"""Files beside a journal whose lines vouch for its chain: signatures and time stamps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import rfc8785
from pydantic import BaseModel, ConfigDict, Field

from pipeline.disk import append_to, appending
from pipeline.journal.segments import cut_torn
from pipeline.record import Digest


class CanonicalLine(BaseModel):
    """A line of canonical JSON (RFC 8785)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def line(self) -> bytes:
        """The line without its end."""
        return rfc8785.dumps(self.model_dump(by_alias=True))


class Attestation(CanonicalLine, ABC):
    """One line of ``<camera>.<suffix>``: the chain up to a record was there at a time.

    Attributes:
        seq, hash: of the record.
        time: ISO 8601 in UTC.
    """

    suffix: ClassVar[str]
    schema_of_file: ClassVar[str]
    noun: ClassVar[str]
    verb: ClassVar[str]

    schema_: Annotated[str, Field(alias="schema")]
    camera: str
    seq: int
    hash: Digest
    time: str

    @abstractmethod
    def fault(self, trusted: Collection[Any] = ()) -> str:
        """Why the line does not hold by itself; empty where it does.

        Args:
            trusted: who may vouch; empty takes anybody.
        """

    @classmethod
    def file(cls, folder: Path, camera: str) -> Path:
        return folder / f"{camera}.{cls.suffix}"

    @classmethod
    def read(cls, content: bytes, schema: str = "") -> list[Self | str]:
        """The lines of a file; where one is not canonical or of another schema, the reason instead.

        A last line without its end is left out: its writer was interrupted, or is still writing.
        """
        schema, lines = schema or cls.schema_of_file, list[Self | str]()
        for raw in content.split(b"\n")[:-1]:
            lines.append(f"no {cls.noun} {schema}: it was written by something else")
            with suppress(ValueError):
                each = cls.model_validate_json(raw)
                if each.schema_ == schema and each.line() == raw:
                    lines[-1] = each
        return lines

    @classmethod
    def load(cls, folder: Path, camera: str) -> list[Self]:
        """Those of a camera's journal that can be read; empty where there is no file."""
        path = cls.file(folder, camera)
        lines = cls.read(path.read_bytes()) if path.exists() else []
        return [each for each in lines if not isinstance(each, str)]

    def append(self, folder: Path) -> None:
        """Write the line to the file of its camera, durably; a torn last line is cut off.

        Raises:
            OSError: it cannot be written; what was there is unchanged.
        """
        with appending(self.file(folder, self.camera)) as handle:
            cut_torn(handle)
            append_to(handle, self.line() + b"\n")
