"""The custody of the record: who looked at it, and which spans must be kept.

A line of ``access.log`` is canonical JSON (RFC 8785) with the members ``schema``, ``seq``, ``time``, ``who``
(the user's name; empty where no login was needed), ``address`` (of the client, or ``local`` for a command),
``what``, ``detail`` (the record, the question or the selection), and ``prev`` and ``hash`` as in a record.
Retention does not touch what a hold in ``holds.json``, beside the folder of journals, covers.
"""

import fcntl
import hashlib
import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import rfc8785
from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints, TypeAdapter

from pipeline.disk import append_to, appending, locking, replace_file
from pipeline.journal.segments import JournalError, Segment, cut_torn, find_chains
from pipeline.record import Record, read_record
from pipeline.record_format import RecordError, format_time, hash_holds

SCHEMA = "narrated-access/1"
Deed = Literal["login", "refused", "logout", "view", "query", "export", "mark", "configure"]
"""``refused`` is a wrong password."""

_LONGEST = 500
_NONE = "0" * 64

_MODE = 0o644  # root may hold what another user's daemon must then keep; the folder is private


def record_access(path: Path, what: Deed, *, who: str, address: str, detail: str = "") -> None:
    """Append to an access log, which several processes may do; raises `JournalError` or `OSError`."""
    with appending(path) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        raw = cut_torn(handle)
        last = _read(raw)
        if raw and not last:
            raise JournalError(f"{path}: its last line was changed; move the file away to begin another")
        members: dict[str, Any] = {
            "schema": SCHEMA,
            "seq": last["seq"] + 1 if last else 1,
            "time": format_time(datetime.now(UTC)),
            "who": who[:_LONGEST],
            "address": address,
            "what": what,
            "detail": detail[:_LONGEST].encode(errors="replace").decode(),
            "prev": last["hash"] if last else _NONE,
        }
        members["hash"] = hashlib.sha256(rfc8785.dumps(members)).hexdigest()
        append_to(handle, rfc8785.dumps(members) + b"\n")


def verify_access(path: Path) -> list[str]:
    """The hashes of an access log's lines; JournalError has the number of a bad one."""
    hashes = list[str]()
    for number, raw in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        access = _read(raw)
        if access is None or (access["seq"], access["prev"]) != (number, (hashes or [_NONE])[-1]):
            raise JournalError(f"{path}:{number}: the line was changed, inserted, or follows a removed one")
        hashes.append(access["hash"])
    return hashes


def _read(raw: bytes) -> dict[str, Any] | None:
    if not raw.endswith(b"\n") or not hash_holds(raw[:-1]):
        return None
    try:
        access: dict[str, Any] = json.loads(raw)
        return access if access["schema"] == SCHEMA and access["seq"] > 0 and access["prev"] else None
    except (ValueError, TypeError, KeyError):
        return None


class Hold(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    cameras: tuple[str, ...] = ()  # whose records; empty for all
    since: AwareDatetime
    until: AwareDatetime
    reason: Annotated[str, StringConstraints(min_length=1)]
    ends: AwareDatetime | None = None  # when it ends by itself; None holds until it is released
    made: AwareDatetime  # when, and by which user
    by: str = ""

    def covers(self, first: Record, last: Record, now: datetime) -> bool:
        # the clock may have been set back in between
        begin, end = min(first.before.moment, last.before.moment), max(first.after.moment, last.after.moment)
        in_time = self.since <= end and begin <= self.until
        ours = not self.cameras or first.camera in self.cameras
        return ours and in_time and (self.ends is None or now < self.ends)


_HOLDS = TypeAdapter(tuple[Hold, ...])


def load_holds(journals: Path) -> tuple[Hold, ...]:
    """The holds on journals, oldest first; JournalError where unreadable: then nothing may be deleted."""
    path = _holds_path(journals)
    try:
        return _HOLDS.validate_json(path.read_bytes()) if path.exists() else ()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it was not written by `narrated hold`"
        raise JournalError(f"{path} cannot be read ({reason}): nothing is deleted until it can") from None


def add_hold(journals: Path, hold: Hold) -> None:
    """Hold a span; JournalError where a hold has its name, or the file cannot be read."""
    with locking(journals, wait=True):  # each change writes the whole file
        holds = load_holds(journals)
        if any(each.name == hold.name for each in holds):
            raise JournalError(f"a hold is already called {hold.name!r}: choose another name")
        _save(journals, (*holds, hold))


def count_held(journals: Path, hold: Hold, now: datetime) -> int:
    """The number of records that a hold covers; what cannot be read is not counted."""
    count = 0
    for path in (path for chain in find_chains([journals])[0] for path in chain.files):
        with suppress(OSError, RecordError):
            segment = Segment(path, 0)
            if not hold.covers(segment.first_record(), segment.last_record(), now):
                continue
        with suppress(OSError), path.open("rb") as lines:
            for line in lines:
                with suppress(RecordError):
                    record = read_record(line)
                    count += hold.covers(record, record, now)
    return count


def release_hold(journals: Path, name: str) -> None:
    with locking(journals, wait=True):
        holds = load_holds(journals)
        left = tuple(each for each in holds if each.name != name)
        if len(left) == len(holds):
            names = ", ".join(each.name for each in holds)
            raise JournalError(f"no hold is called {name!r}; there {f'are {names}' if names else 'are none'}")
        _save(journals, left)


def _save(journals: Path, holds: tuple[Hold, ...]) -> None:
    replace_file(_holds_path(journals), _HOLDS.dump_json(holds, indent=1) + b"\n", durable=True, mode=_MODE)


def _holds_path(journals: Path) -> Path:
    return journals.parent / "holds.json"
