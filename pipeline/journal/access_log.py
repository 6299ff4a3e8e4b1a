"""The log of who looked at the record: a hash-chained file, ``access.log``.

A line is canonical JSON (RFC 8785) with the members ``schema``, ``seq``, ``time``, ``who`` (the user's name;
empty where no login was needed), ``address`` (of the client, or ``local`` for a command), ``what``,
``detail`` (the record, the question or the selection), and ``prev`` and ``hash`` as in a record.
"""

import fcntl
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import rfc8785

from pipeline.disk import append_to, appending
from pipeline.journal.segments import JournalError, cut_torn
from pipeline.record_format import format_time, hash_holds

SCHEMA = "narrated-access/1"
Deed = Literal["login", "refused", "logout", "view", "query", "export", "mark", "configure"]
"""``refused`` is a wrong password."""

_LONGEST = 500
_NONE = "0" * 64


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
