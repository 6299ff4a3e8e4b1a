"""The log of who looked at the record: a hash-chained file, ``access.log``."""

import fcntl
import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import rfc8785
from pydantic import Field, ValidationError

from pipeline.disk import append_to, appending
from pipeline.journal.segments import JournalError, cut_torn
from pipeline.journal.signatures import CanonicalLine
from pipeline.record import Digest
from pipeline.record_format import format_time

SCHEMA = "narrated-access/1"
Deed = Literal["login", "refused", "logout", "view", "query", "export", "mark", "configure"]

_LONGEST = 500
_NONE = "0" * 64


class Access(CanonicalLine):
    schema_: Annotated[str, Field(alias="schema", pattern=f"^{SCHEMA}$")] = SCHEMA
    seq: int
    time: str
    who: str  # the user's name; empty where no login was needed
    address: str  # of the client, or ``local`` for a command
    what: Deed  # the deed; ``refused`` is a wrong password
    detail: str  # the record, the question or the selection
    prev: Digest
    hash: Digest = _NONE

    def digest(self) -> str:
        return hashlib.sha256(rfc8785.dumps(self.model_dump(by_alias=True, exclude={"hash"}))).hexdigest()


def record_access(path: Path, what: Deed, *, who: str, address: str, detail: str = "") -> None:
    """Append to an access log, which several processes may do; raises `JournalError` or `OSError`."""
    with appending(path) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        raw = cut_torn(handle)
        last = _read(raw)
        if raw and last is None:
            raise JournalError(f"{path}: its last line was changed; move the file away to begin another")
        access = Access(
            seq=last.seq + 1 if last else 1,
            time=format_time(datetime.now(UTC)),
            who=who[:_LONGEST],
            address=address,
            what=what,
            detail=detail[:_LONGEST].encode(errors="replace").decode(),
            prev=last.hash if last else _NONE,
        )
        append_to(handle, access.model_copy(update={"hash": access.digest()}).line() + b"\n")


def verify_access(path: Path) -> list[str]:
    """The hashes of an access log's lines; JournalError has the number of a bad one."""
    hashes = list[str]()
    for number, raw in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        access = _read(raw)
        if access is None or (access.seq, access.prev) != (number, (hashes or [_NONE])[-1]):
            raise JournalError(f"{path}:{number}: the line was changed, inserted, or follows a removed one")
        hashes.append(access.hash)
    return hashes


def _read(raw: bytes) -> Access | None:
    try:
        access = Access.model_validate_json(raw)
    except ValidationError:
        return None
    return access if access.line() + b"\n" == raw and access.digest() == access.hash else None
