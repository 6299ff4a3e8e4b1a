"""Journals of made records, chained as narrated does it."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pipeline.narration.narration import Narration
from pipeline.record import ChainEnd, Evidence, Record, build_record, format_time

_FRESH = ChainEnd()


def chain(narrations: Iterable[Narration], end: ChainEnd = _FRESH, **kept: Evidence | float) -> list[Record]:
    records = []
    for each in narrations:
        records.append(build_record(each, end, **kept))
        end = ChainEnd.of(records[-1])
    return records


def write(path: Path, records: Sequence[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(record.line() + b"\n" for record in records))
    return path


def write_chained(folder: Path, camera: str, records: Iterable[tuple[datetime, dict[str, Any]]]) -> None:
    """Write a camera's journal of records, given by time and members; ids are ``camera-1``, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    previous = "0" * 64
    with (folder / f"{camera}.jsonl").open("wb") as file:
        for seq, (at, more) in enumerate(records, 1):
            frame = {"pts": seq, "sha256": "a" * 64}
            members = {
                "schema": "narrated/2",
                "id": f"{camera}-{seq}",
                "camera": camera,
                "seq": seq,
                "before": {"time": format_time(at - timedelta(seconds=1)), **frame},
                "after": {"time": format_time(at), **frame},
                "clock": "file",
                "l2": 12.5,
                "suppressed": 0,
                "model": {"name": "grounded", "sha256": "c" * 64},
                "config_sha256": "d" * 64,
                "stream_id": f"{int(at.timestamp() * 1000)}-{seq}",
                "prev": previous,
            } | more
            previous = hashlib.sha256(_canonical(members)).hexdigest()
            file.write(_canonical(members | {"hash": previous}) + b"\n")


def _canonical(members: dict[str, Any]) -> bytes:
    """Canonical JSON, as far as these members need it."""
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
