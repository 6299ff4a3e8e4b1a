"""Checks an export of narrations with Python's standard library alone: python3 check.py, beside its files."""

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def sha256(path: Path) -> str:
    """Of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files() -> Iterator[str]:
    """Which files are not as SHA256SUMS says."""
    lines = (HERE / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    listed = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    there = {path.relative_to(HERE).as_posix() for path in HERE.rglob("*") if path.is_file()}
    for name in sorted((there - {"SHA256SUMS"}) ^ set(listed)):
        yield f"{name} is {'missing' if name in listed else 'not listed'}"
    yield from (
        f"{name} was changed" for name in sorted(there & set(listed)) if sha256(HERE / name) != listed[name]
    )


def chain(path: Path) -> Iterator[str]:
    """Which records do not carry their own sum, or not that of the record before."""
    last: dict[str, Any] = {"seq": 0, "hash": "0" * 64}
    for line in path.read_bytes().split(b"\n")[:-1]:
        record = json.loads(line)
        unhashed = re.sub(rb'"hash":"[0-9a-f]{64}",', b"", line, count=1)
        if hashlib.sha256(unhashed).hexdigest() != record["hash"]:
            yield f"{path.name}: record {record['seq']} was changed"
        if record["seq"] == last["seq"] + 1 and record["prev"] != last["hash"]:
            yield f"{path.name}: record {record['seq']} does not follow on {last['seq']}"
        last = record


def records() -> Iterator[str]:
    """Which selected records are in no chain, and which of their pictures are not there or others."""
    chained = {line for path in HERE.glob("chain/*.jsonl") for line in path.read_bytes().split(b"\n")}
    pictures = {path.stem: path for path in HERE.glob("pictures/*")}
    gone = json.loads((HERE / "export.json").read_bytes())["gone"]
    for line in (HERE / "records.jsonl").read_bytes().split(b"\n")[:-1]:
        record = json.loads(line)
        if line not in chained:
            yield f"record {record['id']} is in no chain"
        for name in record.get("evidence", {}).values():
            if name[7:] not in pictures and name[7:] not in gone:
                yield f"a picture of {record['id']} is missing: {name}"
    yield from (f"{path.name} was changed" for name, path in pictures.items() if sha256(path) != name)


if __name__ == "__main__":
    found = [
        *files(),
        *(bad for path in sorted(HERE.glob("chain/*.jsonl")) for bad in chain(path)),
        *records(),
    ]
    sys.stdout.write("\n".join(found or ["all holds"]) + "\n")
    sys.exit(1 if found else 0)
